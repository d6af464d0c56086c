//! A fixed threshold on the drafter's probability.

use cascade_core::Want;

use super::{DraftedToken, StopRule};

/// Ends a turn after a token whose drafter probability is below a fixed threshold: the
/// `assistant_confidence_threshold` of Hugging Face transformers, at every level of a cascade.
///
/// Tokens without a probability (of a statistical drafter without estimates) never end a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfidenceThreshold {
    threshold: f32,
}

impl ConfidenceThreshold {
    /// Ends turns after tokens with a probability below `threshold`. At 0 no token ends a turn;
    /// above 1 every token with a probability does.
    pub const fn new(threshold: f32) -> Self {
        Self { threshold }
    }
}

impl StopRule for ConfidenceThreshold {
    fn want(&self) -> Want {
        Want::GATHERED
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        drafted
            .probability
            .is_some_and(|probability| probability < self.threshold)
    }
}
