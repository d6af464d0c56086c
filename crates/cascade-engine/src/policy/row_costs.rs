//! What a forward costs by the number of its rows, as outcomes show.

use crate::RowTimes;

/// Numbers of rows at which the curve is kept; linear between them and beyond. Kernels take rows by
/// four, six or eight, and one more row may cost as much as four.
const KNOTS: [usize; N] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32, 48, 64, 128];
const N: usize = 16;

/// Before anything is measured: how far a row may cost another share than assumed, and, by the
/// square root of the rows, how far the curve may leave a line, as in steps where kernels take rows
/// by four; standard deviations.
const ROW: f64 = 0.3;
const BEND: f64 = 0.15;
/// How far the time of a forward of one row drifts with each forward, and the share that a row
/// adds.
const DRIFT: f64 = 0.004;
const ROW_DRIFT: f64 = 1e-4;
/// How far a time is by chance from what is expected: at first, at least, at most, and how far the
/// last surprise counts.
const NOISE: f64 = 0.08;
const LEAST_NOISE: f64 = 0.01;
const MOST_NOISE: f64 = 0.2;
const NOISE_RATE: f64 = 0.03;
/// Mean distance from the mean of a normal distribution, in standard deviations.
const MEAN_ABSOLUTE: f64 = 0.8;
/// Surprises that are credible, in standard deviations. A pause of the machine is no cost of a row,
/// and nothing makes a forward much faster by chance.
const SLOWER: f64 = 1.2;
const FASTER: f64 = 3.0;
/// How far the time of a forward of one row moves at once, as a logarithm.
const STEP: f64 = 0.7;
/// The least that a forward of more rows is estimated to take, in forwards of one row.
const LEAST: f64 = 0.5;
/// How far the curve goes, with each forward, where nothing was measured for so many forwards, to
/// what measurements elsewhere make of it.
const RETURN: f64 = 0.01;
const PATIENCE: u32 = 256;
/// How far rows are from both knots beside them, as a share of the way between, if they measure
/// both.
const BETWEEN: f64 = 0.1;

/// How far the time of a forward of one row follows, with each forward, where those of more rows
/// take less.
const SETTLING: f64 = 0.05;

/// Forwards in a row that are all faster or all slower than expected by this much, as a logarithm,
/// after which times have changed.
const STREAK: i32 = 4;
const SURPRISING: f64 = 0.25;
/// Further such forwards, after one of one row that was as expected, by which rows have changed.
const CONFIRMED: i32 = 2;
/// How far a forward of one row may have changed, as a logarithm, with the curve as it was; beyond
/// that, it is as if on another machine.
const ANOTHER: f64 = 0.7;
/// Forwards of one row that are measured then, and at first; the fastest counts.
const SAMPLES: usize = 2;

/// A running estimate of time by rows: the time of a forward of one row, and how many times as long
/// one of more rows takes, which never falls with the rows.
///
/// An extended Kalman filter of the two together: what is known of each, and what only of their
/// product, decides which of them a surprise changes. So forwards that always have about as many
/// rows do not let a busy machine pass for dear rows, nor noise for either. Where times change at
/// once, forwards of one row are asked for, which tell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowCosts {
    /// Seconds of a forward of one row; `None` before the first measurement.
    one: Option<f64>,
    /// Multiples of it at each knot, as estimated, and such that none falls.
    estimate: [f64; N],
    curve: [f64; N],
    assumed: [f64; N],
    /// Covariances of the estimates; the first entry is for the logarithm of `one`.
    covariance: [[f64; N]; N],
    noise: f64,
    /// Whether each knot was measured, and the forwards since it or rows beside it were.
    measured: [bool; N],
    since: [u32; N],
    /// How far each estimate has gone since then by what is measured elsewhere.
    moved: [f64; N],
    /// Forwards in a row that were slower than expected, or faster if below 0.
    streak: i32,
    /// Whether such forwards were measured before a forward of one row that was as fast as ever:
    /// 1 or −1. If the next ones are like them, it is the rows that changed.
    doubt: i32,
    /// Forwards of one row that are still to be measured, and the fastest of those that were.
    wanted: usize,
    fastest: f64,
}

impl RowCosts {
    /// Nothing measured; each row is assumed to add `row` of a forward of one row.
    pub(super) fn assumed(row: f64) -> Self {
        let assumed = KNOTS.map(|rows| 1.0 + row * (rows - 1) as f64);
        Self {
            one: None,
            estimate: assumed,
            curve: assumed,
            assumed,
            covariance: prior(),
            noise: NOISE,
            measured: [false; N],
            since: [u32::MAX; N],
            moved: [0.0; N],
            streak: 0,
            doubt: 0,
            wanted: SAMPLES,
            fastest: f64::INFINITY,
        }
    }

    /// Measured before: what a schedule begins with, as uncertain as an assumption.
    pub(super) fn known(times: &RowTimes) -> Self {
        let one = times.seconds(1);
        let assumed = rising(KNOTS.map(|rows| times.seconds(rows) / one));
        Self {
            one: Some(one),
            estimate: assumed,
            curve: assumed,
            assumed,
            wanted: 0,
            ..Self::assumed(0.0)
        }
    }

    /// Whether a forward of one row should be measured before rows are priced again.
    pub(super) fn needs_check(&self) -> bool {
        self.wanted > 0
    }

    /// Whether one of the last forwards had about so many rows.
    pub(super) fn is_measured(&self, rows: usize, forwards: u32) -> bool {
        let (knot, share) = place(rows as f64);
        self.since[nearest(knot, share)] <= forwards
    }

    /// Seconds of a forward of one row, if any was measured.
    pub(super) fn one(&self) -> Option<f64> {
        self.one
    }

    /// A forward of `rows`, in forwards of one row.
    pub(super) fn of(&self, rows: usize) -> f64 {
        self.at(rows as f64)
    }

    /// A forward of a mean number of rows, in forwards of one row.
    pub(super) fn at(&self, rows: f64) -> f64 {
        let (knot, share) = place(rows);
        self.curve[knot] + share * (self.curve[knot + 1] - self.curve[knot])
    }

    /// What one more row adds to a forward of `rows`, in forwards of one row: over the next few, as
    /// estimates of neighbours differ by noise too.
    pub(super) fn one_more(&self, rows: f64) -> f64 {
        const AHEAD: f64 = 4.0;
        (self.at(rows + AHEAD) - self.at(rows)) / AHEAD
    }

    /// Learns from a forward.
    pub(super) fn learn(&mut self, rows: usize, seconds: f64) {
        self.learn_shared(rows, 1, seconds);
    }

    /// Learns from a forward of so many texts, each of which has a row at least.
    pub(super) fn learn_shared(&mut self, rows: usize, texts: usize, seconds: f64) {
        if rows == 0 || !seconds.is_finite() || seconds <= 0.0 {
            return;
        }
        if rows == texts && self.wanted > 0 {
            self.sample(seconds / self.of(rows));
            return;
        }
        let one = match self.one {
            Some(one) => one,
            // Nobody can make sure that all of several texts do without drafts.
            None if texts > 1 => *self.one.insert(seconds / self.of(rows)),
            None => return,
        };
        self.follow((seconds / one / self.of(rows)).ln());
        self.drift();
        self.correct(one, rows, seconds / one);
        self.forget();
        self.settle();
        self.curve = rising(self.estimate);
    }

    /// Counts surprises of one kind, and asks for samples after some.
    fn follow(&mut self, surprise: f64) {
        self.streak = match surprise {
            slower if slower > SURPRISING => self.streak.max(0) + 1,
            faster if faster < -SURPRISING => self.streak.min(0) - 1,
            _ => 0,
        };
        if self.streak.signum() != self.doubt {
            self.doubt = 0;
        }
        if self.doubt != 0 && self.streak.abs() >= CONFIRMED {
            self.doubt = 0;
            self.streak = 0;
            self.know_nothing_of_rows();
        }
        if self.streak.abs() >= STREAK {
            self.doubt = self.streak.signum();
            self.streak = 0;
            self.wanted = SAMPLES;
            self.fastest = f64::INFINITY;
        }
    }

    /// A forward of one row that was asked for, or of a row of each text, in proportion.
    fn sample(&mut self, seconds: f64) {
        self.fastest = self.fastest.min(seconds);
        self.wanted -= 1;
        self.one = self.one.or(Some(self.fastest));
        if self.wanted == 0 {
            let before = self.one.replace(self.fastest);
            let change = before.map_or(0.0, |before| (self.fastest / before).ln());
            let mut unknown = self.noise;
            if f64::from(self.doubt) * change > SURPRISING / 2.0 {
                // All forwards changed, whatever their rows, and may change back.
                self.doubt = 0;
                unknown = unknown.max(change.abs());
                if change.abs() > ANOTHER {
                    self.know_nothing_of_rows();
                }
            }
            for at in 1..N {
                self.covariance[0][at] = 0.0;
                self.covariance[at][0] = 0.0;
            }
            self.covariance[0][0] = unknown.powi(2);
        }
    }

    /// What was measured of rows may not be so any more: the next forwards tell.
    fn know_nothing_of_rows(&mut self) {
        let one = self.covariance[0][0];
        self.covariance = prior();
        self.covariance[0][0] = one;
    }

    /// What may have changed since the last forward.
    fn drift(&mut self) {
        self.covariance[0][0] += DRIFT.powi(2);
        for (a, row) in self.covariance.iter_mut().enumerate().skip(1) {
            for (b, entry) in row.iter_mut().enumerate().skip(1) {
                *entry += ROW_DRIFT.powi(2) * ((KNOTS[a] - 1) * (KNOTS[b] - 1)) as f64;
            }
        }
    }

    /// Learns how noisy measurements are from how far one was from what was expected.
    fn learn_noise(&mut self, surprise: f64) {
        let found = surprise.abs().min(SURPRISING) / MEAN_ABSOLUTE;
        self.noise += NOISE_RATE * (found - self.noise);
        self.noise = self.noise.clamp(LEAST_NOISE, MOST_NOISE);
    }

    /// Takes a measurement of `rows`, in forwards of one row.
    fn correct(&mut self, one: f64, rows: usize, time: f64) {
        let (knot, share) = place(rows as f64);
        let expected =
            self.estimate[knot] + share * (self.estimate[knot + 1] - self.estimate[knot]);
        // How the expected time changes with each estimate. The first knot is 1 for good.
        let mut slope = [0.0; N];
        slope[knot] = 1.0 - share;
        slope[knot + 1] = share;
        slope[0] = expected;
        let gain = self.covariance.map(|row| dot(&row, &slope));
        let noise = self.noise * expected;
        let nearest = nearest(knot, share);
        let surprise = time - expected;
        // So many rows for the first time, which may be as dear as they seem.
        let most = (STEP.exp() - 1.0) * expected;
        if rows > 1 && surprise > most && !self.measured[nearest] {
            return self.raise(nearest, most);
        }
        // Later, what is not credible is taken for so much noise that it is.
        let credible = if surprise > 0.0 { SLOWER } else { FASTER };
        let unknown = dot(&gain, &slope);
        let variance = (unknown + noise.powi(2)).max((surprise / credible).powi(2));
        let gain = gain.map(|gain| gain / variance);
        self.one = Some(one * (gain[0] * surprise).clamp(-STEP, STEP).exp());
        for (estimate, gain) in self.estimate.iter_mut().zip(&gain).skip(1) {
            *estimate = (*estimate + gain * surprise).max(LEAST);
        }
        for (row, &own) in self.covariance.iter_mut().zip(&gain) {
            for (entry, &other) in row.iter_mut().zip(&gain) {
                *entry -= own * other * variance;
            }
        }
        // Where little else is unknown, surprises say how much noise there is.
        if noise.powi(2) > unknown {
            self.learn_noise(surprise / expected);
        }
        self.measured[nearest] = true;
        self.since[nearest] = 0;
        self.moved[nearest] = 0.0;
        // Rows between two knots say something of both.
        if (BETWEEN..=1.0 - BETWEEN).contains(&share) {
            self.since[knot] = 0;
            self.since[knot + 1] = 0;
        }
    }

    /// Where forwards of more rows seem to take less time than one of one row, that takes less than
    /// it seems: their products stay as they are.
    fn settle(&mut self) {
        if self.estimate.iter().all(|&more| more >= 1.0) {
            return;
        }
        let lowest = rising_from(&self.estimate[1..])[0];
        if let Some(one) = self.one.as_mut().filter(|_| lowest < 1.0) {
            let by = lowest.powf(SETTLING);
            *one *= by;
            self.estimate[1..].iter_mut().for_each(|more| *more /= by);
        }
    }

    /// Raises the estimate at a knot, and of others in proportion to their rows, where nothing is
    /// measured. How far they are known stays as it is: the next forward says more.
    fn raise(&mut self, knot: usize, by: f64) {
        for (at, &rows) in KNOTS.iter().enumerate().skip(1) {
            if !self.measured[at] {
                self.estimate[at] += by * (rows - 1) as f64 / (KNOTS[knot] - 1) as f64;
            }
        }
    }

    /// Lets go of what was not measured for long: rows that once were dear may not be any more, so
    /// they are tried again some day. Nothing is let go where forwards measure it, however often
    /// others come between.
    fn forget(&mut self) {
        self.since = self.since.map(|forwards| forwards.saturating_add(1));
        for (at, &rows) in KNOTS.iter().enumerate().skip(1) {
            if self.is_known(at) {
                continue;
            }
            let known = (1..N).filter(|&known| self.is_known(known));
            let nearest = known.min_by_key(|known| known.abs_diff(at));
            let guess = nearest.map_or(self.assumed[at], |known| {
                let row = (self.estimate[known] - 1.0) / (KNOTS[known] - 1) as f64;
                1.0 + row * (rows - 1) as f64
            });
            let by = RETURN * (guess - self.estimate[at]);
            self.estimate[at] += by;
            // What it goes is as far as it may be wrong.
            let before = self.moved[at];
            self.moved[at] += by;
            self.covariance[at][at] += (self.moved[at].powi(2) - before.powi(2)).max(0.0);
        }
    }

    fn is_known(&self, knot: usize) -> bool {
        self.since[knot] <= PATIENCE
    }
}

/// Before anything is measured: a line of unknown slope, from which the curve departs at random.
fn prior() -> [[f64; N]; N] {
    let mut prior = [[0.0; N]; N];
    for (a, row) in prior.iter_mut().enumerate().skip(1) {
        for (b, entry) in row.iter_mut().enumerate().skip(1) {
            let (a, b) = ((KNOTS[a] - 1) as f64, (KNOTS[b] - 1) as f64);
            *entry = ROW.powi(2) * a * b + BEND.powi(2) * a.min(b);
        }
    }
    prior
}

fn dot(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The nearest curve that never falls, and begins at 1.
fn rising(estimate: [f64; N]) -> [f64; N] {
    let mut curve = [1.0; N];
    let levels = rising_from(&estimate);
    for (level, value) in curve.iter_mut().zip(levels).skip(1) {
        *level = value.max(1.0);
    }
    curve
}

/// The nearest values that never fall: where they would, the mean.
fn rising_from(values: &[f64]) -> Vec<f64> {
    let mut groups: Vec<(f64, usize)> = Vec::with_capacity(values.len());
    for &value in values {
        let mut last = (value, 1);
        while let Some(&(before, count)) = groups.last() {
            if before <= last.0 {
                break;
            }
            let sum = before * count as f64 + last.0 * last.1 as f64;
            last = (sum / (count + last.1) as f64, count + last.1);
            groups.pop();
        }
        groups.push(last);
    }
    let levels = groups
        .into_iter()
        .flat_map(|(value, count)| std::iter::repeat_n(value, count));
    levels.collect()
}

/// The knot at or before `rows`, and how far towards the next.
fn place(rows: f64) -> (usize, f64) {
    let rows = rows.max(1.0);
    let after = KNOTS.partition_point(|&knot| knot as f64 <= rows);
    let knot = (after - 1).min(KNOTS.len() - 2);
    let width = KNOTS[knot + 1] - KNOTS[knot];
    (knot, (rows - KNOTS[knot] as f64) / width as f64)
}

/// The knot nearer to rows that are this far between a knot and the next.
fn nearest(knot: usize, share: f64) -> usize {
    knot + usize::from(share >= 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dear_rows_are_known_at_once_and_pauses_forgotten_as_fast() {
        let start = || {
            let mut costs = RowCosts::assumed(0.02);
            (0..SAMPLES).for_each(|_| costs.learn(1, 1e-3));
            costs
        };
        let mut dear = start();
        for _ in 0..3 {
            dear.learn(5, 21e-3);
        }
        assert!(dear.of(5) > 7.0 && dear.of(3) > 3.5, "{}", dear.of(5));
        let mut paused = start();
        paused.learn(5, 1.0);
        assert!((1.5..4.0).contains(&paused.of(5)), "{}", paused.of(5));
        for _ in 0..3 {
            paused.learn(5, 1.1e-3);
        }
        assert!((paused.of(5) - 1.1).abs() < 0.1, "{}", paused.of(5));
    }

    #[test]
    fn what_was_measured_before_is_known_at_once_and_corrected() {
        let times = RowTimes::measured([(1, 2e-3), (9, 4e-3), (17, 8e-3)]).unwrap();
        let mut costs = RowCosts::known(&times);
        assert_eq!(costs.one(), Some(2e-3));
        assert!(!costs.needs_check() && (costs.of(9) - 2.0).abs() < 0.1);
        for _ in 0..30 {
            costs.learn(if costs.needs_check() { 1 } else { 9 }, 2e-3);
        }
        assert!(costs.of(9) < 1.5, "{costs:?}");
    }

    fn measured(of: impl Fn(usize) -> f64, forwards: &[usize]) -> RowCosts {
        let mut costs = RowCosts::assumed(0.02);
        (0..SAMPLES).for_each(|_| costs.learn(1, of(1)));
        for _ in 0..8 {
            forwards
                .iter()
                .for_each(|&rows| costs.learn(rows, of(rows)));
        }
        costs
    }

    #[test]
    fn a_curve_is_found_from_a_few_forwards() {
        let real = |rows: usize| 2e-3 * (1.0 + 0.17 * (rows - 1) as f64);
        let costs = measured(real, &[1, 4, 9]);
        assert!((costs.one().unwrap() / 2e-3 - 1.0).abs() < 0.1, "{costs:?}");
        for rows in [2, 4, 6, 9, 16] {
            let found = costs.of(rows) * costs.one().unwrap();
            assert!((found / real(rows) - 1.0).abs() < 0.15, "{rows}: {costs:?}");
        }
    }

    #[test]
    fn a_change_of_load_leaves_the_curve() {
        let real = |rows: usize| 1e-3 * (1.0 + 0.05 * (rows - 1) as f64);
        let mut costs = measured(real, &[1, 4, 9]);
        let before = costs.of(9);
        for _ in 0..30 {
            let rows = if costs.needs_check() { 1 } else { 9 };
            costs.learn(rows, 3.0 * real(rows));
        }
        assert!((costs.of(9) / before - 1.0).abs() < 0.5, "{costs:?}");
        assert!((costs.one().unwrap() / 3e-3 - 1.0).abs() < 0.2);
        let dear = |rows: usize| 3e-3 * (1.0 + 0.5 * (rows - 1) as f64);
        for _ in 0..12 {
            let rows = if costs.needs_check() { 1 } else { 9 };
            costs.learn(rows, dear(rows));
        }
        assert!((costs.one().unwrap() / 3e-3 - 1.0).abs() < 0.2, "{costs:?}");
        assert!(costs.of(9) > 4.0, "{costs:?}");
    }

    #[test]
    fn a_pause_and_nonsense_are_no_cost_of_rows() {
        let mut costs = measured(|_| 1e-3, &[1, 8]);
        let before = costs.clone();
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            costs.learn(8, seconds);
        }
        costs.learn(0, 1.0);
        assert_eq!(costs, before);
        costs.learn(8, 10.0);
        assert!(costs.of(8) < 2.0, "{costs:?}");
    }

    /// Every third forward takes several times as long, whatever its rows.
    #[test]
    fn a_busy_machine_is_no_cost_of_rows() {
        let mut costs = RowCosts::assumed(0.02);
        for i in 0..300 {
            let rows = if costs.needs_check() {
                1
            } else {
                [5, 9, 1][i % 3]
            };
            let pause = if i * 7 % 10 < 3 { 4.0 } else { 1.0 };
            costs.learn(rows, pause * 1e-3 * (1.0 + 0.02 * (rows - 1) as f64));
            if i > 30 {
                assert!(costs.of(9) < 2.5, "{i}: {costs:?}");
            }
        }
        assert!(costs.one().unwrap() < 2e-3, "{costs:?}");
    }

    /// Pauses of some forwards leave what was measured of rows known, though times scatter.
    #[test]
    fn pauses_make_rows_no_less_known() {
        let real = |rows: usize| if rows <= 6 { 1.0 } else { 1.5 };
        let mut scattered = scattered();
        let mut costs = RowCosts::assumed(0.02);
        let mut known = 0;
        for i in 0..6000 {
            let rows = match costs.needs_check() {
                true => 1,
                false if i % 50 == 30 => 7,
                false => 2 + i % 5,
            };
            let pause = if i % 100 < 6 { 1.6 } else { 1.0 };
            costs.learn(rows, pause * real(rows) * scattered());
            known += usize::from(i >= 2000 && costs.of(7) > 1.3 * costs.of(6));
        }
        assert!(known > 2000, "{known} of 4000: {costs:?}");
    }

    /// Rows that have become dear are seen within some forwards, though those of one row are as
    /// they were.
    #[test]
    fn rows_that_change_are_seen() {
        let mut costs = measured(|rows| 1.0 + 0.02 * (rows - 1) as f64, &[2, 5, 9]);
        for _ in 0..16 {
            let rows = if costs.needs_check() { 1 } else { 9 };
            costs.learn(rows, 1.0 + 0.3 * (rows - 1) as f64);
        }
        assert!((costs.of(9) / 3.4 - 1.0).abs() < 0.2, "{costs:?}");
    }

    /// What is measured is kept, however rarely: forwards of a single row between say nothing of
    /// it.
    #[test]
    fn forwards_of_one_row_leave_what_others_measured() {
        let real = |rows: usize| 1e-3 * (1.0 + 0.17 * (rows - 1) as f64);
        let mut costs = measured(real, &[1, 2, 4]);
        for i in 0..4000 {
            let rows = if i % 40 == 0 { 2 + i / 40 % 3 } else { 1 };
            costs.learn(rows, real(rows));
        }
        for rows in [2, 3, 5, 16] {
            let found = (costs.of(rows) - 1.0) / (rows - 1) as f64;
            assert!((found - 0.17).abs() < 0.01, "{rows}: {costs:?}");
        }
    }

    /// Large drafts alone, at a load that stays: the time is that of their rows, not of the load.
    #[test]
    fn forwards_of_many_rows_do_not_shift_the_time_of_one() {
        let real = |rows: usize| 1e-3 * (1.0 + 0.018 * (rows - 1) as f64);
        let mut costs = RowCosts::assumed(0.02);
        (0..SAMPLES).for_each(|_| costs.learn(1, real(1)));
        for i in 0..20_000 {
            let rows = [3, 6, 10, 14, 21, 28][i * 7 % 6];
            costs.learn(rows, real(rows));
        }
        let one = costs.one().unwrap();
        assert!((one / 1e-3 - 1.0).abs() < 0.03, "{costs:?}");
        let row = (costs.of(16) - 1.0) / 15.0;
        assert!((row / 0.018 - 1.0).abs() < 0.2, "{costs:?}");
    }

    /// Rows that are dear from the fifth on, and by four at a time from the ninth, as those of a
    /// processor without instructions for products of bf16 or of 8 bits.
    fn dear_by_four(rows: usize) -> f64 {
        let (few, fours) = (rows.min(8), rows.saturating_sub(8).div_ceil(4));
        1.0 + 0.05 * few.saturating_sub(1).min(4) as f64
            + 0.25 * few.saturating_sub(5) as f64
            + 1.15 * fours as f64
    }

    /// Eight texts that draft, now and then without drafts.
    #[test]
    fn steps_of_dear_rows_are_found() {
        let mut scattered = scattered();
        let mut costs = RowCosts::assumed(0.02);
        let (mut errors, mut count) = (0.0, 0);
        for i in 0..600 {
            let rows = match costs.needs_check() {
                true => 1,
                false if i % 12 == 0 => 8,
                false if i % 50 == 49 => 64,
                false => 8 + (i * 7) % 13,
            };
            let real = 0.045 * dear_by_four(rows) * scattered();
            costs.learn(rows, real);
            if i >= 60 {
                let error = costs.of(8) * costs.one().unwrap() / (0.045 * dear_by_four(8)) - 1.0;
                errors += error.abs();
                count += 1;
            }
        }
        assert!(errors / f64::from(count) < 0.05, "{costs:?}");
        let step = (costs.of(9) - costs.of(8)) / (dear_by_four(9) - dear_by_four(8));
        assert!((0.6..1.2).contains(&step), "{step}: {costs:?}");
    }

    /// Numbers from 0.9 to 1.1.
    fn scattered() -> impl FnMut() -> f64 {
        let mut noise = 1u64;
        move || {
            noise = noise
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            0.9 + 0.2 * (noise >> 40) as f64 / (1u64 << 24) as f64
        }
    }

    /// Times that scatter, and rows that are rarely alone, change no price.
    #[test]
    fn noise_is_no_cost_of_rows() {
        let mut scattered = scattered();
        for row in [0.018, 0.05, 0.17] {
            let mut costs = RowCosts::assumed(0.02);
            for i in 0..4000 {
                let rows = if costs.needs_check() {
                    1
                } else {
                    [3, 6, 10, 2, 14, 21, 5][i * 5 % 7]
                };
                let real = 1e-3 * (1.0 + row * (rows - 1) as f64);
                costs.learn(rows, real * scattered());
                if i > 400 {
                    let found = (costs.of(9) - 1.0) / 8.0;
                    assert!(
                        (found / row).ln().abs() < 0.4,
                        "{i}: {found}, {row}: {costs:?}"
                    );
                }
            }
        }
    }

    /// Rows that come for free up to a number, and are dear beyond.
    #[test]
    fn steps_are_found() {
        let real = |rows: usize| if rows <= 8 { 1e-3 } else { 1.6e-3 };
        let costs = measured(real, &[2, 4, 8, 12, 16, 6]);
        assert!(costs.of(8) < 1.1 && costs.of(12) > 1.4, "{costs:?}");
    }

    /// What once seemed dear and is not measured any more is tried again some day.
    #[test]
    fn what_is_not_measured_returns_to_what_was_assumed() {
        let mut costs = measured(|rows| rows as f64, &[1, 5]);
        let before = costs.one_more(1.0);
        (0..2000).for_each(|_| costs.learn(1, 1.0));
        assert!(costs.one_more(1.0) < 0.3 * before, "{costs:?}");
    }

    /// Drafts are as long as pays, so what seems dear is not drafted.
    #[test]
    fn what_seemed_dear_is_measured_again() {
        let real = |rows: usize| 1e-3 * if rows <= 4 { 1.0 } else { 1.65 };
        let mut costs = measured(|rows| 1e-3 * (1.0 + 0.17 * (rows - 1) as f64), &[4, 5]);
        for i in 0..1500 {
            let most = if costs.of(4) < 1.2 { 4 } else { 3 };
            let rows = if costs.needs_check() {
                1
            } else {
                [1, 2, 3, most][i % 4]
            };
            costs.learn(rows, real(rows));
        }
        assert!(costs.of(4) < 1.02 * costs.of(3), "{costs:?}");
    }
}
