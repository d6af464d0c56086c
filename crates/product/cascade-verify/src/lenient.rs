//! Lenient review, for reviewers that are drafters (Cascade Speculative Drafting, §3.1, sampling):
//! the first draw is kept with probability min(1, λp(x)/q(x)), or else the rule decides among the
//! others, for the residual max(p − q, 0), normalised.
//!
//! **A lenient review does not emit samples of p.** Its token is distributed as r(x) = min(q(x),
//! λp(x)) + (1 − Σ min(q, λp)) · residual(x), and r is what the next reviewer must compare with: it
//! is returned beside the token. With p in its place the target's output would be wrong.
//!
//! Only the first draw is reviewed leniently. Given its rejection, any exact rule emits the
//! residual, whatever the other draws are and however they depend on each other, so r has this
//! closed form over any tree.

use std::sync::Arc;

use cascade_core::{Distribution, Proposal, RandomSource, TokenId};

use crate::iterated::{acceptance, rejected};
use crate::{CandidateToken, Lenience, ReviewRule};

/// A token, which may be one of `draws`, and the distribution r that it was emitted from.
///
/// Cost: three passes over the supports of p and q more than the rule takes.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    lenience: Lenience,
    rule: impl ReviewRule,
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

/// The distribution r of a lenient review's token. Where nothing is left of p, a rejection has the
/// probability of a rounding error, and p stands for the residual, as it does for the rule.
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
    let rejected = rejection(p, &q, lenience);
    let r = p.zip(&q, |p, q| {
        let residual = if left > 0.0 {
            (p - q).max(0.0) / left
        } else {
            p
        };
        q.min(lenience * p) + rejected * residual
    });
    r.map_or_else(|| Arc::clone(p), Arc::new)
}

/// Probability that the first draw is rejected: Σ max(q(x) − λp(x), 0), which is 1 − Σ min(q, λp)
/// without the rounding that would take a small one for 0, and what is emitted then for impossible.
fn rejection(p: &Distribution, q: &Distribution, lenience: f64) -> f64 {
    q.zip_sum(p, |q, p| (q - lenience * p).max(0.0))
}
