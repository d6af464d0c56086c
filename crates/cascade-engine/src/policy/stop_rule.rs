//! Stop rules: whether to continue drafting after a token.

use cascade_core::{LevelId, TokenId, Want};

use super::Outcome;

/// Decides, after each token that a drafter adds to the main path, whether the drafter's turn ends.
///
/// A rule belongs to one drafter and is consulted whenever that drafter drafts: for the target and
/// for every larger drafter that reviews it. It declares which of the drafter's scores it reads, so
/// that nothing is computed or copied without being used.
///
/// # Exactness
/// Whether a draft ends after a draw may depend on what was drawn, never on how the reviewer will
/// decide. A rule sees the drawn tokens, the drafter's own scores and the outcomes of earlier
/// reviews, and nothing of the review to come. The token in question stays in the draft: whether a
/// token is drafted must not depend on which token it would be.
pub trait StopRule: Send {
    /// What the rule reads of each row of the drafter's scores; by default only the token.
    ///
    /// [`Want::GATHERED`] gives [`DraftedToken::probability`] in greedy decoding (with sampling it
    /// is always available).
    fn want(&self) -> Want {
        Want::ARGMAX
    }

    /// Whether the turn ends after this token.
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool;

    /// Learns from a review of a draft to which the rule's drafter contributed. Does nothing by
    /// default.
    fn observe(&mut self, outcome: &Outcome<'_>) {
        let _ = outcome;
    }

    /// Forgets what it has learned. Called before each generation whose samples depend on what is
    /// drafted (those of [rules that draw](crate::Rule::DRAWN)): they must not depend on earlier
    /// generations. Does nothing by default.
    fn forget(&mut self) {}
}

impl<R: StopRule + 'static> From<R> for Box<dyn StopRule> {
    fn from(rule: R) -> Self {
        Box::new(rule)
    }
}

/// A token that a drafter has just added to the main path.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DraftedToken<'a> {
    /// The level that will review it.
    pub reviewer: LevelId,
    /// The level that drafted it, not necessarily the one that proposed it first.
    pub drafter: LevelId,
    /// Its position in the reviewer's draft, 0 for the first token.
    pub position: usize,
    /// Its position in the turn, 0 for the first token.
    pub turn_position: usize,
    /// Tokens of the generation before the turn: emitted ones, and those drafted before it.
    pub generated: usize,
    /// The token.
    pub token: TokenId,
    /// The drafter's probability of it. For a neural drafter, `None` unless it was requested or
    /// sampling computed it (see [`StopRule::want`]); for a statistical drafter, its estimate of
    /// the acceptance probability, if any.
    pub probability: Option<f32>,
    /// The most probable tokens of the row that it was drawn from, as many as were requested, with
    /// their probabilities at temperature 1. Empty for statistical drafters.
    pub top: &'a [(TokenId, f32)],
    /// Entropy of that row at temperature 1, in nats, if it was requested; `None` for statistical
    /// drafters.
    pub entropy: Option<f32>,
    /// The hidden state that the row was computed from, if it was requested; `None` for statistical
    /// drafters.
    pub hidden: Option<&'a [f32]>,
}
