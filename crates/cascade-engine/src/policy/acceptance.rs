//! How probable it is that a drafted token is accepted, as outcomes show.

use super::lately::{FAST, SLOW, weight};

/// How near to 0 and 1 estimates come; beyond, a single outcome would mean too much.
const LEAST: f64 = 0.002;

/// Upper bounds of the buckets of what a drafter says of a token.
const STATED: [f32; 9] = [0.03, 0.08, 0.16, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99];
/// Upper bounds of the buckets of positions.
const POSITIONS: [usize; 5] = [0, 1, 2, 4, 8];

/// A running calibration: what a drafter says of its tokens, or a prior where it says nothing,
/// corrected by what became of them.
///
/// The logarithm of the odds is that of the statement, less where text is sampled and the statement
/// does not know it, plus a correction for what was said and the position, which is that
/// of all texts, plus one for all tokens of the text itself, which follows its changes within tens
/// of tokens and begins with what texts begin with. All move along the gradient of the log
/// likelihood of each outcome, the first outcomes by more. O(1) for each estimate and outcome.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Acceptance {
    prior: f32,
    /// Whether the drafter counts.
    counts: bool,
    /// How much less of a probable statement is left for each unit of temperature.
    heat: f64,
    temperature: f64,
    /// The correction that texts begin with, and the text's own.
    fresh: f64,
    shift: f64,
    buckets: [[Correction; STATED.len() + 1]; POSITIONS.len() + 1],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Correction {
    log_odds: f64,
    seen: f64,
}

/// What texts begin with for a drafter that counts, before any was seen: a text of which nothing is
/// known is guessed less often than texts are on average, as those that can be guessed are long.
const FRESH: f64 = -0.5;
/// How far the last outcome counts for the heat, which is 1 for counts before any sampled text was
/// seen.
const HEAT: f64 = 0.01;

impl Acceptance {
    /// Nothing seen, of a drafter that knows the model's own probabilities; `prior` stands for
    /// tokens of which nothing is said.
    pub(super) fn new(prior: f32) -> Self {
        Self {
            prior,
            ..Self::default()
        }
    }

    /// Nothing seen, of a drafter that counts.
    pub(super) fn of_counts(prior: f32) -> Self {
        Self {
            counts: true,
            heat: 1.0,
            fresh: FRESH,
            shift: FRESH,
            ..Self::new(prior)
        }
    }

    /// Begins another text, which is sampled at this temperature. What was learned of the last one
    /// by a drafter that knows the model's probabilities is of the model, too.
    pub(super) fn begin(&mut self, temperature: f64) {
        self.temperature = temperature;
        if self.counts {
            self.fresh += FAST * (self.shift - self.fresh);
            self.shift = self.fresh;
        }
    }

    /// The probability that a token at `position` is accepted if the one before it is.
    pub(super) fn estimate(&self, stated: Option<f32>, position: usize) -> f64 {
        let stated = stated.unwrap_or(self.prior);
        let (row, column) = bucket(stated, position);
        let general = self.buckets[row][column].log_odds;
        squashed(self.said(stated) + self.shift + general)
    }

    /// What a statement means at this temperature: the more probable, the less of it is left.
    fn said(&self, stated: f32) -> f64 {
        let left = (1.0 - self.heat * self.temperature).max(0.0);
        let said = log_odds(stated);
        if said > 0.0 { left * said } else { said }
    }

    /// Learns what became of a token whose predecessor was accepted, and gives the estimate before.
    pub(super) fn learn(&mut self, stated: Option<f32>, position: usize, accepted: bool) -> f64 {
        let believed = self.estimate(stated, position);
        let error = f64::from(u8::from(accepted)) - believed;
        let stated = stated.unwrap_or(self.prior);
        let (row, column) = bucket(stated, position);
        let general = &mut self.buckets[row][column];
        general.log_odds += error * weight(SLOW, general.seen);
        general.seen += 1.0;
        self.shift += error * FAST;
        self.heat -= HEAT * error * self.temperature * log_odds(stated).max(0.0);
        believed
    }
}

/// Where the correction is for what was said at a position.
fn bucket(stated: f32, position: usize) -> (usize, usize) {
    let row = POSITIONS.partition_point(|&bound| bound < position);
    (row, STATED.partition_point(|&bound| bound < stated))
}

fn log_odds(p: f32) -> f64 {
    let p = f64::from(p).clamp(LEAST, 1.0 - LEAST);
    (p / (1.0 - p)).ln()
}

fn squashed(log_odds: f64) -> f64 {
    (1.0 / (1.0 + (-log_odds).exp())).clamp(LEAST, 1.0 - LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_begin_with_what_is_said_and_follow_what_happens() {
        let mut acceptance = Acceptance::new(0.6);
        assert!((acceptance.estimate(Some(0.8), 3) - 0.8).abs() < 1e-6);
        assert!((acceptance.estimate(None, 0) - 0.6).abs() < 1e-6);
        for i in 0..200 {
            acceptance.learn(Some(0.8), 0, i % 5 == 0);
        }
        assert!((acceptance.estimate(Some(0.8), 0) - 0.2).abs() < 0.1);
        for _ in 0..40 {
            acceptance.learn(Some(0.8), 0, true);
        }
        assert!(acceptance.estimate(Some(0.8), 0) > 0.7);
    }
    #[test]
    fn a_text_begins_with_less_than_is_said_and_with_what_texts_were_like() {
        let mut acceptance = Acceptance::of_counts(0.5);
        let first = acceptance.estimate(Some(0.8), 0);
        assert!(first < 0.75, "{first}");
        for _ in 0..30 {
            acceptance.begin(0.0);
            for _ in 0..30 {
                acceptance.learn(Some(0.5), 5, true);
            }
        }
        acceptance.begin(0.0);
        // By what texts begin with alone: nothing was said like this before.
        assert!(acceptance.estimate(Some(0.8), 0) > 0.8, "{acceptance:?}");
    }

    #[test]
    fn sampled_text_keeps_less_of_what_is_said_and_that_is_learned() {
        let mut acceptance = Acceptance::of_counts(0.5);
        acceptance.shift = 0.0;
        let greedy = acceptance.estimate(Some(0.95), 0);
        acceptance.begin(0.7);
        acceptance.shift = 0.0;
        let sampled = acceptance.estimate(Some(0.95), 0);
        assert!(sampled < greedy - 0.1, "{sampled} {greedy}");
        assert!((acceptance.estimate(Some(0.2), 0) - 0.2).abs() < 1e-6);
        let before = acceptance.heat;
        for _ in 0..50 {
            acceptance.learn(Some(0.9), 0, true);
        }
        assert!(acceptance.heat < before);
    }
}
