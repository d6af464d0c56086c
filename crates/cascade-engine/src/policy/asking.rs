//! What it is worth, and what it takes, to ask a statistical drafter at all.

/// Proposals that the expectation of a drafter that was never asked is worth, and what it expects
/// of each: tokens more than their rows cost.
const WORTH: f64 = 4.0;
const HOPE: f64 = 0.25;
/// How far the last proposal counts, once many were made.
const KEEN: f64 = 0.06;
/// How far the last time counts if it is shorter or longer than expected, and how many times the
/// expected time it counts for at most: a pause of the machine is no cost of a drafter, and neither
/// is the prompt, which is read once.
const SHORTER: f64 = 0.25;
const LONGER: f64 = 0.1;
const MOST: f64 = 2.0;

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
        let weight = KEEN.max(1.0 / (WORTH + self.asked));
        self.gain += weight * (tokens - self.gain);
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
        self.time.seconds()
    }
}

/// How long something takes, as a moving average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Lately(Option<f64>);

impl Lately {
    pub(super) fn learn(&mut self, seconds: f64) {
        let before = self.0.unwrap_or(seconds);
        let weight = if seconds < before { SHORTER } else { LONGER };
        self.0 = Some(before + weight * (seconds.min(MOST * before) - before));
    }

    /// 0 before the first time.
    pub(super) fn seconds(self) -> f64 {
        self.0.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_and_a_pause_are_no_cost_of_asking() {
        let mut time = Lately::default();
        time.learn(1e-3);
        (0..20).for_each(|_| time.learn(2e-5));
        assert!((time.seconds() / 2e-5 - 1.0).abs() < 0.2, "{time:?}");
        time.learn(1.0);
        assert!(time.seconds() < 2.7e-5, "{time:?}");
        (0..60).for_each(|_| time.learn(8e-5));
        assert!(time.seconds() > 7e-5, "{time:?}");
    }

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
