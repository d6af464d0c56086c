//! Lenient review, for reviewers that are drafters (Cascade Speculative Drafting, §3.1, sampling):
//! the first draw is accepted with probability min(1, λp(x)/q(x)). If it is rejected, the rule
//! decides among the other draws, with the residual max(p − q, 0), normalised, as its p.
//!
//! **A lenient review does not emit samples of p.** Its token is distributed as r(x) = min(q(x),
//! λp(x)) + (1 − Σ min(q, λp)) · residual(x), and r is the proposal that the next reviewer must
//! use: it is returned with the token. Using p instead would make the target's output wrong.
//!
//! Only the first draw is reviewed leniently. Conditioned on its rejection, any exact rule emits
//! the residual, whatever the other draws are and however they depend on each other, so this closed
//! form of r applies to any tree.

use std::sync::Arc;

use cascade_core::{Distribution, Proposal, RandomSource, TokenId};

use crate::iterated::{acceptance, rejected};
use crate::{CandidateToken, Lenience, ReviewRule};

/// A token, which may be one of `draws`, and the distribution r that it was emitted from.
///
/// Cost: the rule's, plus three passes over the supports of p and q.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    lenience: Lenience,
    rule: &dyn ReviewRule,
    chance: &mut dyn RandomSource,
) -> (TokenId, Arc<Distribution>) {
    let loosened = |first: &CandidateToken<'_>| !lenience.is_strict() && first.is_possible();
    let Some((first, others)) = draws.split_first().filter(|draws| loosened(draws.0)) else {
        return (rule.token(p, draws, chance), Arc::clone(p));
    };
    let lenience = f64::from(lenience.get());
    let r = emitted(p, first, lenience);
    let token = if chance.accept(acceptance(p, first, lenience)) {
        first.token
    } else {
        rule.token(&rejected(p, first), others, chance)
    };
    (token, r)
}

/// The distribution r of a lenient review's token. If the residual has no mass, q is p within
/// rounding error, and so is r.
fn emitted(p: &Arc<Distribution>, first: &CandidateToken<'_>, lenience: f64) -> Arc<Distribution> {
    let q = match first.proposal {
        Proposal::PointMass | Proposal::Pick { .. } => {
            if p.probability(first.token) == 0.0 {
                return Arc::clone(p);
            }
            Arc::new(Distribution::point(p.vocab_size(), first.token))
        }
        Proposal::Sampled(q) => Arc::clone(q),
    };
    let left = p.total_variation(&q);
    if left == 0.0 {
        return Arc::clone(p);
    }
    let rejected = rejection(p, &q, lenience);
    let r = p.zip(&q, |p, q| {
        q.min(lenience * p) + rejected * ((p - q).max(0.0) / left)
    });
    r.map_or_else(|| Arc::clone(p), Arc::new)
}

/// Probability that the first draw is rejected: Σ max(q(x) − λp(x), 0), which equals 1 − Σ min(q,
/// λp), but does not round a small probability to 0, which would make the tokens emitted after a
/// rejection impossible under r.
fn rejection(p: &Distribution, q: &Distribution, lenience: f64) -> f64 {
    q.zip_sum(p, |q, p| (q - lenience * p).max(0.0))
}
