//! Stop rules: whether a draft goes on after a token.

use cascade_core::{LevelId, TokenId, Want};

use super::Outcome;

/// Decides after each token that a drafter adds to the main path whether its turn ends there.
///
/// A rule belongs to one drafter and is asked wherever that drafter drafts: for the target and for
/// every larger drafter that reviews it. It declares what it needs to read of the drafter's scores,
/// so that no rule costs a computation or a copy that it does not use.
///
/// # Exactness
/// A draft may end after a draw by what was drawn, never by what the reviewer will say of it. A
/// rule sees the drawn tokens, the drafter's own scores and the outcomes of earlier reviews, and
/// nothing of the review to come. The token that it was asked about stays in the draft: whether to
/// ask for a token must not depend on which token it would be.
pub trait StopRule: Send {
    /// What it reads of each row of the drafter's scores; by default nothing but the token.
    ///
    /// [`Want::GATHERED`] gives [`DraftedToken::probability`] in greedy decoding (it is always
    /// known when tokens are sampled).
    fn want(&self) -> Want {
        Want::ARGMAX
    }

    /// Whether the turn ends after this token.
    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool;

    /// Learns from a review of a draft to which its drafter contributed. Does nothing unless
    /// implemented.
    fn observe(&mut self, outcome: &Outcome<'_>) {
        let _ = outcome;
    }
}

/// A token that a drafter has just added to the main path.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct DraftedToken<'a> {
    /// Who will review it.
    pub reviewer: LevelId,
    /// Who drafted it. Not necessarily who proposed it first.
    pub drafter: LevelId,
    /// Its position in the reviewer's draft, 0 for the first token.
    pub position: usize,
    /// Tokens of its turn before it. 0 begins a turn.
    pub turn_position: usize,
    /// The token.
    pub token: TokenId,
    /// The drafter's probability of it: of a neural drafter as far as it is known (see
    /// [`StopRule::want`]), of a statistical one its estimate that the token is accepted.
    pub probability: Option<f32>,
    /// The most probable tokens of the row that it was drawn from, as many as were wanted, with
    /// their probabilities at temperature 1. Empty for statistical drafters.
    pub top: &'a [(TokenId, f32)],
    /// Entropy of that row at temperature 1, in nats, if it was wanted; none for statistical
    /// drafters.
    pub entropy: Option<f32>,
    /// The hidden state that the row was computed from, if it was wanted; none for statistical
    /// drafters.
    pub hidden: Option<&'a [f32]>,
}
