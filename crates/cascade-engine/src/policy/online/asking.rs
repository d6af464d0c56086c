//! What it is worth, and what it takes, to ask a statistical drafter at all.

use crate::policy::lately::{FAST, Lately, weight};

/// What a drafter that was never asked is expected to save with a proposal: tokens more than their
/// rows cost.
const HOPE: f64 = 0.25;

/// What recent proposals of a statistical drafter were worth, whether they were drafted or not,
/// and how long they took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asking {
    gain: f64,
    asked: f64,
    time: Lately,
}

impl Asking {
    /// Never asked.
    pub(super) fn new() -> Self {
        Self {
            gain: HOPE,
            asked: 0.0,
            time: Lately::default(),
        }
    }

    /// Learns what a proposal is expected to save: tokens less the price of their rows, and less
    /// what another drafter saves in its place.
    pub(super) fn gained(&mut self, tokens: f64) {
        self.asked += 1.0;
        self.gain += weight(FAST, self.asked) * (tokens - self.gain);
    }

    /// Learns how long a proposal took.
    pub(super) fn took(&mut self, seconds: f64) {
        self.time.learn(seconds);
    }

    /// What the next proposal is expected to save, in tokens.
    pub(super) fn gain(&self) -> f64 {
        self.gain
    }

    /// How long it is expected to take; 0 before the first.
    pub(super) fn seconds(&self) -> f64 {
        self.time.time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hope_is_lost_after_a_few_proposals_and_found_again_after_fewer() {
        let mut asking = Asking::new();
        (0..8).for_each(|_| asking.gained(0.0));
        assert!(asking.gain() < 0.1);
        (0..1000).for_each(|_| asking.gained(0.0));
        (0..3).for_each(|_| asking.gained(2.0));
        assert!(asking.gain() > 0.3);
    }
}
