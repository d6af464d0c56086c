//! What a forward costs by the number of its rows, as outcomes show.

/// Numbers of rows at which the curve is kept; linear between them and beyond.
const KNOTS: [usize; 12] = [1, 2, 3, 5, 8, 12, 16, 24, 32, 48, 64, 128];

/// How far the last forward counts: for the time of a forward of one row, and for the curve once
/// many forwards of about as many rows were seen.
const FAST: f64 = 0.15;
const SLOW: f64 = 0.08;
/// How much more a forward counts that was faster than expected: what made others slower was often
/// not theirs, so the estimates are nearer to the fast ones.
const FASTER: f64 = 2.0;
/// How far an estimate moves at once, as a logarithm: a pause of the machine is no cost of a row.
const STEP: f64 = 0.7;
/// How far the curve returns to what was assumed with each forward that does not measure it.
const RETURN: f64 = 0.001;

/// Forwards in a row that are all faster or all slower than expected by this much, as a logarithm,
/// after which times have changed.
const STREAK: i32 = 4;
const SURPRISING: f64 = 0.25;
/// Forwards of one row that are measured then, and at first; the fastest counts.
const SAMPLES: usize = 2;

/// A running estimate of time by rows: the time of a forward of one row, and how many times as long
/// one of more rows takes, which never falls with the rows.
///
/// Forwards that always have about as many rows cannot tell a busy machine from dear rows. Where
/// times change, forwards of one row are asked for, which can.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RowCosts {
    /// Seconds of a forward of one row; `None` before the first measurement.
    one: Option<f64>,
    /// Multiples of it at each knot.
    curve: [f64; KNOTS.len()],
    assumed: [f64; KNOTS.len()],
    seen: [f64; KNOTS.len()],
    /// Forwards in a row that were slower than expected, or faster if below 0.
    streak: i32,
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
            curve: assumed,
            assumed,
            seen: [0.0; KNOTS.len()],
            streak: 0,
            wanted: SAMPLES,
            fastest: f64::INFINITY,
        }
    }

    /// Whether a forward of one row should be measured before rows are priced again.
    pub(super) fn needs_check(&self) -> bool {
        self.wanted > 0
    }

    /// Whether the next forward of one row completes a check.
    pub(super) fn is_last_sample(&self) -> bool {
        self.wanted == 1
    }

    /// Seconds of a forward of one row, if any was measured.
    pub(super) fn one(&self) -> Option<f64> {
        self.one
    }

    /// A forward of `rows`, in forwards of one row.
    pub(super) fn of(&self, rows: usize) -> f64 {
        let (knot, share) = place(rows);
        self.curve[knot] + share * (self.curve[knot + 1] - self.curve[knot])
    }

    /// What one more row adds to a forward of `rows`, in forwards of one row: over the next few, as
    /// estimates of neighbours differ by noise too.
    pub(super) fn one_more(&self, rows: usize) -> f64 {
        const AHEAD: usize = 4;
        (self.of(rows + AHEAD) - self.of(rows)) / AHEAD as f64
    }

    /// Learns from a forward.
    pub(super) fn learn(&mut self, rows: usize, seconds: f64) {
        if rows == 0 || !seconds.is_finite() || seconds <= 0.0 {
            return;
        }
        if rows == 1 && self.wanted > 0 {
            self.sample(seconds);
            return;
        }
        let Some(one) = self.one else {
            return;
        };
        let expected = self.of(rows);
        let surprise = (seconds / one / expected).ln();
        let step = surprise.clamp(-STEP, STEP);
        let weight = if step < 0.0 { FASTER } else { 1.0 };
        self.follow(surprise);
        if rows == 1 {
            self.one = Some(one * (FAST * weight * step).exp());
            for (curve, assumed) in self.curve.iter_mut().zip(self.assumed) {
                *curve += RETURN * (assumed - *curve);
            }
            return;
        }
        // What changes for all rows is the machine's load or the length of the text; what changes
        // for some is the curve, of which the first forwards say most.
        let (knot, share) = place(rows);
        let nearest = if share < 0.5 { knot } else { knot + 1 };
        let new = (weight * SLOW).max(1.0 / (1.3 + self.seen[nearest]));
        // Not less for having been expected too high: that is the curve's to mend.
        self.one = Some(one * (FAST * (1.0 - new) * step / weight).exp());
        self.bend(nearest, new * (step.exp() - 1.0) * expected);
        self.seen[nearest] += 1.0;
    }

    /// Counts surprises of one kind, and asks for samples after some.
    fn follow(&mut self, surprise: f64) {
        self.streak = match surprise {
            slower if slower > SURPRISING => self.streak.max(0) + 1,
            faster if faster < -SURPRISING => self.streak.min(0) - 1,
            _ => 0,
        };
        if self.streak.abs() >= STREAK {
            self.streak = 0;
            self.wanted = SAMPLES;
            self.fastest = f64::INFINITY;
        }
    }

    /// A forward of one row that was asked for.
    fn sample(&mut self, seconds: f64) {
        self.fastest = self.fastest.min(seconds);
        self.wanted -= 1;
        self.one = self.one.or(Some(self.fastest));
        if self.wanted == 0 {
            self.one = Some(self.fastest);
            // If it was the rows that changed, the next forwards tell.
            self.seen = self.seen.map(|seen| seen.min(1.0));
        }
    }

    /// Moves the curve at a knot, and beyond it as far as nothing was measured there.
    fn bend(&mut self, knot: usize, by: f64) {
        let knot = knot.max(1);
        for (at, &rows) in KNOTS.iter().enumerate().skip(1) {
            let weight = match at == knot {
                true => 1.0,
                // In proportion to the rows.
                false => (rows - 1) as f64 / (KNOTS[knot] - 1) as f64 / (1.0 + self.seen[at]),
            };
            self.curve[at] += weight * by;
        }
        for at in 1..KNOTS.len() {
            self.curve[at] = self.curve[at].max(self.curve[at - 1]);
        }
    }
}

/// The knot at or before `rows`, and how far towards the next.
fn place(rows: usize) -> (usize, f64) {
    let after = KNOTS.partition_point(|&knot| knot <= rows.max(1));
    let knot = (after - 1).min(KNOTS.len() - 2);
    let width = KNOTS[knot + 1] - KNOTS[knot];
    (knot, (rows.max(1) - KNOTS[knot]) as f64 / width as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// What once seemed dear and is not measured any more is tried again some day.
    #[test]
    fn what_is_not_measured_returns_to_what_was_assumed() {
        let mut costs = measured(|rows| rows as f64, &[1, 5]);
        let before = costs.one_more(1);
        (0..2000).for_each(|_| costs.learn(1, 1.0));
        assert!(costs.one_more(1) < 0.3 * before, "{costs:?}");
    }
}
