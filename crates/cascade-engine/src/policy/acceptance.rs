//! How probable it is that a drafted token is accepted, as outcomes show.

/// Bounds of what is estimated; beyond, a single outcome would mean too much.
const LEAST: f64 = 0.002;
const MOST: f64 = 0.998;

/// Upper bounds of the buckets of what a drafter says of a token.
const STATED: [f32; 9] = [0.03, 0.08, 0.16, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99];
/// Upper bounds of the buckets of positions.
const POSITIONS: [usize; 5] = [0, 1, 2, 4, 8];

/// A running calibration: what a drafter says of its tokens, or a prior where it says nothing,
/// corrected by what became of them.
///
/// The logarithm of the odds is that of the statement, plus a correction for all tokens, which
/// follows changes of the text within tens of tokens, plus one for what was said and the position,
/// which settles. Both move along the gradient of the log likelihood of each outcome, the first
/// outcomes by more. O(1) for each estimate and outcome.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Acceptance {
    prior: f32,
    shift: f64,
    seen: f64,
    buckets: [[Correction; STATED.len() + 1]; POSITIONS.len() + 1],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Correction {
    log_odds: f64,
    seen: f64,
}

/// How far the last outcomes count, once many were seen.
const FAST: f64 = 0.12;
const SLOW: f64 = 0.03;
/// Outcomes that a prior is worth.
const WORTH: f64 = 4.0;

impl Acceptance {
    /// Nothing seen; `prior` stands for tokens of which nothing is said.
    pub(super) fn new(prior: f32) -> Self {
        Self {
            prior,
            shift: 0.0,
            seen: 0.0,
            buckets: Default::default(),
        }
    }

    /// The probability that a token at `position` is accepted if the one before it is.
    pub(super) fn estimate(&self, stated: Option<f32>, position: usize) -> f64 {
        let stated = stated.unwrap_or(self.prior);
        let bucket = self.buckets[row(position)][column(stated)];
        squashed(log_odds(stated) + self.shift + bucket.log_odds)
    }

    /// Learns what became of a token whose predecessor was accepted.
    pub(super) fn learn(&mut self, stated: Option<f32>, position: usize, accepted: bool) {
        let error = f64::from(u8::from(accepted)) - self.estimate(stated, position);
        let stated = stated.unwrap_or(self.prior);
        let bucket = &mut self.buckets[row(position)][column(stated)];
        bucket.log_odds += error * SLOW.max(1.0 / (WORTH + bucket.seen));
        bucket.seen += 1.0;
        self.shift += error * FAST.max(1.0 / (WORTH + self.seen));
        self.seen += 1.0;
    }
}

fn row(position: usize) -> usize {
    POSITIONS.partition_point(|&bound| bound < position)
}

fn column(stated: f32) -> usize {
    STATED.partition_point(|&bound| bound < stated)
}

fn log_odds(p: f32) -> f64 {
    let p = f64::from(p).clamp(LEAST, MOST);
    (p / (1.0 - p)).ln()
}

fn squashed(log_odds: f64) -> f64 {
    (1.0 / (1.0 + (-log_odds).exp())).clamp(LEAST, MOST)
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
}
