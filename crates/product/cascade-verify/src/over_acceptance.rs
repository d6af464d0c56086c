//! Over-acceptance, **which is lossy**: more drafted tokens are accepted than an exact review
//! accepts, and what is emitted is not the reviewer's distribution p, but at most a budget δ away
//! from it in total variation, per token (Yin et al., *A Theoretical Perspective for Speculative
//! Decoding Algorithm*, Theorems 4 and 5; Decoding-OPT).
//!
//! The first draw x of a proposal q is accepted with probability b(x) = b₀ + (1 − b₀)·w, where b₀ =
//! min(1, p(x)/q(x)) is what speculative sampling accepts with, and w = min(1, δ/TV(p, q)). If it
//! is rejected, the rule decides among the other draws, with the residual max(p − q, 0),
//! normalised, as its p, which is the best replacement of Theorem 4: max(p − bq, 0) is the same.
//!
//! The token is then distributed as r(x) = min(p, q) + w·max(q − p, 0) + (1 − w)·max(p − q, 0), so
//! TV(p, r) = w·TV(p, q) = min(δ, TV(p, q)), and the draw is rejected with probability TV(p, q) −
//! TV(p, r): no rule with that bias rejects less often (Theorem 5, the Pareto front). Over n tokens
//! the emitted sequence is n·δ at most from the reviewer's own, in total variation.

use std::fmt;
use std::sync::Arc;

use cascade_core::{Distribution, Proposal, RandomSource, TokenId};

use crate::iterated::{acceptance, rejected};
use crate::{CandidateToken, ReviewRule};

/// The most that a token's distribution may differ from the reviewer's, in total variation: more
/// than 0 and at most 1, where every first draw is accepted.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct LossBudget(f64);

/// A value that is not a loss budget.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "a loss budget is a total variation distance per token, above 0 and at most 1, not {0}; \
     leave it out for lossless output"
)]
pub struct InvalidLossBudget(pub f64);

impl LossBudget {
    /// Checks that `value` is a budget.
    pub fn new(value: f64) -> Result<Self, InvalidLossBudget> {
        match value > 0.0 && value <= 1.0 {
            true => Ok(Self(value)),
            false => Err(InvalidLossBudget(value)),
        }
    }

    /// δ.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for LossBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A token, which may be one of `draws`, and the distribution r that it was emitted from.
///
/// A first draw that is impossible under its own proposal is no reason to emit anything but p: the
/// rule decides alone then, and where nothing was drafted.
///
/// Cost: the rule's, plus three passes over the supports of p and q.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    budget: LossBudget,
    rule: impl ReviewRule,
    chance: &mut dyn RandomSource,
) -> (TokenId, Arc<Distribution>) {
    let possible = |first: &CandidateToken<'_>| first.is_possible();
    let exactly = |chance: &mut dyn RandomSource| (rule.token(p, draws, chance), Arc::clone(p));
    let Some((first, others)) = draws.split_first().filter(|draws| possible(draws.0)) else {
        return exactly(chance);
    };
    let q = match first.proposal {
        Proposal::PointMass | Proposal::Pick { .. } => {
            Arc::new(Distribution::point(p.vocab_size(), first.token))
        }
        Proposal::Sampled(q) => Arc::clone(q),
    };
    let distance = p.total_variation(&q);
    if distance == 0.0 {
        return exactly(chance);
    }
    let share = (budget.get() / distance).min(1.0);
    let r = p.zip(&q, |p, q| {
        p.min(q) + share * (q - p).max(0.0) + (1.0 - share) * (p - q).max(0.0)
    });
    let r = r.map_or_else(|| Arc::clone(p), Arc::new);
    let exact = acceptance(p, first, 1.0);
    let token = if chance.accept(exact + (1.0 - exact) * share) {
        first.token
    } else {
        rule.token(&rejected(p, first), others, chance)
    };
    (token, r)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_distances_above_none() {
        for good in [1e-9, 0.02, 1.0] {
            assert_eq!(LossBudget::new(good).unwrap().get(), good);
        }
        for bad in [0.0, -0.1, 1.01, f64::NAN, f64::INFINITY] {
            let message = LossBudget::new(bad).unwrap_err().to_string();
            assert!(
                message.contains(&format!("not {bad}; leave it out")),
                "{message}"
            );
        }
    }
}
