//! Lenient review, for reviewers that are drafters (Cascade Speculative Drafting, §3.1, sampling): the first draw is kept
//! with probability min(1, λp(x)/q(x)), or else the rule decides among the others, for the residual max(p − q, 0),
//! normalised.
//!
//! **A lenient review does not emit samples of p.** Its token is distributed as
//! r(x) = min(q(x), λp(x)) + (1 − Σ min(q, λp)) · residual(x), and r is what the next reviewer must compare with: it is
//! returned beside the token. With p in its place the target's output would be wrong.
//!
//! Only the first draw is reviewed leniently. Given its rejection, any exact rule emits the residual, whatever the other
//! draws are and however they depend on each other, so r has this closed form over any tree.

use std::sync::Arc;

use cascade_core::{Chance, Distribution, Proposal, TokenId};

use crate::iterated::{acceptance, rejected};
use crate::{Drawn, Lenience, ReviewRule};

/// A token, which may be one of `draws`, and the distribution r that it was emitted from.
///
/// Cost: one pass over the support of p and one over that of q more than the rule takes.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[Drawn<'_>],
    lenience: Lenience,
    rule: impl ReviewRule,
    chance: &mut dyn Chance,
) -> (TokenId, Arc<Distribution>) {
    let loosened = |first: &Drawn<'_>| !lenience.is_strict() && first.is_possible();
    let Some((first, others)) = draws.split_first().filter(|draws| loosened(draws.0)) else {
        return (rule.token(p, draws, chance), Arc::clone(p));
    };
    let lenience = f64::from(lenience.get());
    let residual = rejected(p, first);
    let r = Arc::new(emitted(p, first, lenience, &residual));
    let token = if chance.accept(acceptance(p, first, lenience)) {
        first.token
    } else {
        rule.token(&residual, others, chance)
    };
    (token, r)
}

/// The distribution r of a lenient review's token.
fn emitted(
    p: &Distribution,
    first: &Drawn<'_>,
    lenience: f64,
    residual: &Distribution,
) -> Distribution {
    let q = |token| match first.proposal {
        Proposal::PointMass | Proposal::Pick { .. } => f64::from(u8::from(token == first.token)),
        Proposal::Sampled(q) => q.probability(token),
    };
    let rejected = rejection(p, first, lenience);
    let mut r = p.support();
    for (token, weight) in &mut r {
        *weight = q(*token).min(lenience * *weight) + rejected * residual.probability(*token);
    }
    Distribution::from_support(p.vocab_size(), r)
}

/// Probability that the first draw is rejected: Σ max(q(x) − λp(x), 0), which is 1 − Σ min(q, λp) without the rounding that
/// would take a small one for 0, and what is emitted then for impossible.
fn rejection(p: &Distribution, first: &Drawn<'_>, lenience: f64) -> f64 {
    let missed = |token, q: f64| (q - lenience * p.probability(token)).max(0.0);
    match first.proposal {
        Proposal::PointMass | Proposal::Pick { .. } => missed(first.token, 1.0),
        Proposal::Sampled(q) => {
            let mut sum = 0.0;
            q.for_each(|token, probability| sum += missed(token, probability));
            sum
        }
    }
}
