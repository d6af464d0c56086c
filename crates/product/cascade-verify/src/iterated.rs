//! Iterated speculative sampling (Stratos, *Speculative Decoding*, §2): each draw in turn is kept
//! with probability min(1, p(x)/q(x)), and each rejection leaves the residual max(p − q, 0),
//! normalised, as the p of the next.
//!
//! Exact by induction: given the draws before and their rejection, what has to come out is the
//! residual, and speculative sampling with the next draw emits just that. So each proposal may
//! depend on the draws before it: with replacement, from several models, or without replacement,
//! where q is the distribution without the siblings before, normalised.
//!
//! A draw that its own proposal gives the probability 0 is passed over.

use std::sync::Arc;

use cascade_core::{Distribution, Proposal, RandomSource, TokenId};

use crate::CandidateToken;

/// A token of `p`, the first of `draws` that is accepted.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    chance: &mut dyn RandomSource,
) -> TokenId {
    let mut left = Arc::clone(p);
    for (i, drawn) in draws.iter().enumerate() {
        // Point masses are accepted in the end if and only if a draw from what is left hits one of
        // them.
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

/// min(1, λp(x)/q(x)), the probability that a possible draw is kept.
pub(crate) fn acceptance(p: &Distribution, drawn: &CandidateToken<'_>, lenience: f64) -> f64 {
    let q = match drawn.proposal {
        Proposal::PointMass | Proposal::Pick { .. } => 1.0,
        Proposal::Sampled(q) => q.probability(drawn.token),
    };
    (lenience * p.probability(drawn.token) / q).min(1.0)
}

/// What is left of `p` after a rejection. Where rounding leaves nothing, a rejection had the
/// probability of a rounding error, and `p` stays as it is.
pub(crate) fn rejected(p: &Arc<Distribution>, drawn: &CandidateToken<'_>) -> Arc<Distribution> {
    let residual = match drawn.proposal {
        Proposal::PointMass | Proposal::Pick { .. } => p.without(&[drawn.token]),
        Proposal::Sampled(q) => p.residual(q),
    };
    residual.map_or_else(|| Arc::clone(p), Arc::new)
}
