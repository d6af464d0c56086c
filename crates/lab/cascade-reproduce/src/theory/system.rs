//! What all systems have in common.

use rand::Rng;

/// A way to draft, under the assumption of the theory: every review of a token is an independent
/// trial with a fixed rate.
///
/// A *step* is one forward of the target together with the drafting for it. A target that drafts
/// nothing takes one forward for one token, so all figures are relative to plain decoding.
pub trait System {
    /// Expected number of tokens that a step emits, the target's own token included. At least 1.
    fn expected_tokens(&self) -> f64;

    /// Time of a step, in forwards of the target. At least 1.
    fn walltime(&self) -> f64;

    /// Expected walltime improvement factor (Cascade Speculative Drafting, §4): tokens per time,
    /// where plain decoding has 1. Below 1, drafting is a loss.
    fn ewif(&self) -> f64 {
        self.expected_tokens() / self.walltime()
    }

    /// Plays one step, trial by trial, without any formula.
    fn step(&self, rng: &mut impl Rng) -> Step;
}

/// What came of one step that was played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Tokens emitted.
    pub tokens: u64,
    /// Time it took, in forwards of the target.
    pub walltime: f64,
}
