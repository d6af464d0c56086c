//! Drawn tokens, about which rules decide.

use cascade_core::{Proposal, TokenId};

/// A drawn sibling, as input of a rule.
#[derive(Clone, Copy, Debug)]
pub struct CandidateToken<'a> {
    /// The token.
    pub token: TokenId,
    /// What it was drawn from.
    pub proposal: &'a Proposal,
}

impl CandidateToken<'_> {
    /// Whether the token has a positive probability under its proposal. If not, it was not drawn
    /// from the proposal (an inconsistent drafter), and every rule skips it: a review that is exact
    /// conditioned on which draws are skipped is exact.
    pub(crate) fn is_possible(&self) -> bool {
        match self.proposal {
            Proposal::PointMass | Proposal::Pick { .. } => true,
            Proposal::Sampled(q) => q.probability(self.token) > 0.0,
        }
    }
}
