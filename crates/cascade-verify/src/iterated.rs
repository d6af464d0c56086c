//! Iterated speculative sampling (Stratos, *Speculative Decoding*, §2): each draw in turn is
//! accepted with probability min(1, p(x)/q(x)), and each rejection replaces p by the residual max(p
//! − q, 0), normalised.
//!
//! Exact by induction: conditioned on the earlier draws and their rejection, the token must be
//! distributed as the residual, and speculative sampling with the next draw emits exactly that. So
//! each proposal may depend on the draws before it: with replacement, from several models, or
//! without replacement, where q is the distribution without the siblings before, normalised.
//!
//! A draw that has probability 0 under its own proposal is skipped.

use std::sync::Arc;

use cascade_core::{Distribution, Proposal, RandomSource, TokenId};

use crate::CandidateToken;

/// Draws a token of `p`: the first of `draws` that is accepted, or else one from the residual.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    chance: &mut dyn RandomSource,
) -> TokenId {
    let mut left = Arc::clone(p);
    for (i, drawn) in draws.iter().enumerate() {
        // If only point masses remain, the rest equals one draw from what is left: one of them is
        // accepted if and only if that draw hits it.
        if draws[i..].iter().all(|rest| !is_sampled(rest.proposal)) {
            break;
        }
        if !drawn.is_possible() {
            continue;
        }
        if chance.accept(acceptance(&left, drawn, 1.0)) {
            return drawn.token;
        }
        left = rejected(&left, drawn);
    }
    chance.draw(&left)
}

fn is_sampled(proposal: &Proposal) -> bool {
    matches!(proposal, Proposal::Sampled(_))
}

/// min(1, λp(x)/q(x)), the probability that a possible draw is accepted.
pub(crate) fn acceptance(p: &Distribution, drawn: &CandidateToken<'_>, lenience: f64) -> f64 {
    let q = match drawn.proposal {
        Proposal::PointMass | Proposal::Pick { .. } => 1.0,
        Proposal::Sampled(q) => q.probability(drawn.token),
    };
    (lenience * p.probability(drawn.token) / q).min(1.0)
}

/// The residual of `p` after a rejection. If rounding leaves no mass, the rejection's probability
/// was within rounding error, and `p` is returned unchanged.
pub(crate) fn rejected(p: &Arc<Distribution>, drawn: &CandidateToken<'_>) -> Arc<Distribution> {
    let residual = match drawn.proposal {
        Proposal::PointMass | Proposal::Pick { .. } => p.without(&[drawn.token]),
        Proposal::Sampled(q) => p.residual(q),
    };
    residual.map_or_else(|| Arc::clone(p), Arc::new)
}
