//! Over-acceptance, **which is lossy**: more drafted tokens are accepted than an exact review
//! accepts, and what is emitted is not the reviewer's distribution p, but at most a budget δ away
//! from it in total variation, per token (Yin et al., *A Theoretical Perspective for Speculative
//! Decoding Algorithm*, Theorems 4 and 5; Decoding-OPT).
//!
//! The first draw x of a proposal q is accepted with a probability b(x) that is more than b₀ =
//! min(1, p(x)/q(x)), what speculative sampling accepts with. If it is rejected, the rule decides
//! among the other draws, with the residual max(p − q, 0), normalised, as its p, which is the best
//! replacement of Theorem 4: max(p − bq, 0) is the same for all b here. So what is emitted is
//!
//! ```text
//! r(x) = b(x)·q(x) + P(reject)·replacement(x),   TV(p, r) = TV(p, q) − P(reject)
//! ```
//!
//! and no rule with that bias rejects less often (Theorem 5, the Pareto front). How much more is
//! accepted is an [`OverAcceptance`]:
//!
//! * a budget δ: b = b₀ + (1 − b₀)·w with w = min(1, δ/TV(p, q)), so that TV(p, r) = min(δ, TV(p,
//!   q)). Over n tokens the emitted sequence is n·δ at most from the reviewer's own, in total
//!   variation. This is what the engine offers.
//! * the paper's ε: b = min(1, (p(x) + ε)/q(x)). Its bias has no bound but TV(p, q).
//! * the paper's Decoding-UNO, which it compares with: the same b, and a rejected draw is replaced
//!   by a token of p itself. As many are rejected, and the bias is larger.

use std::fmt;
use std::sync::Arc;

use cascade_core::{Distribution, Proposal, RandomSource, TokenId};

use crate::iterated::rejected;
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
        if value > 0.0 && value <= 1.0 {
            Ok(Self(value))
        } else {
            Err(InvalidLossBudget(value))
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

/// The ε of the paper's rules: above 0, and all is accepted from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Epsilon(f64);

/// A value that is no ε.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("ε is a probability above 0 and at most 1, not {0}; leave it out for lossless output")]
pub struct InvalidEpsilon(pub f64);

impl Epsilon {
    /// Checks that `value` is an ε.
    pub fn new(value: f64) -> Result<Self, InvalidEpsilon> {
        if value > 0.0 && value <= 1.0 {
            Ok(Self(value))
        } else {
            Err(InvalidEpsilon(value))
        }
    }

    /// ε.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// How much more is accepted than by an exact review, and what replaces rejected draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OverAcceptance {
    /// As much as a budget of total variation allows.
    Budget(LossBudget),
    /// The paper's rule with the best replacement: Decoding-OPT.
    Optimal(Epsilon),
    /// The same with tokens of p as replacements: Decoding-UNO.
    Unoptimized(Epsilon),
}

impl From<LossBudget> for OverAcceptance {
    fn from(budget: LossBudget) -> Self {
        Self::Budget(budget)
    }
}

impl OverAcceptance {
    /// What of q(x) is accepted: b(x)·q(x). `distance` is TV(p, q).
    fn accepted(self, p: f64, q: f64, distance: f64) -> f64 {
        match self {
            Self::Budget(budget) => {
                let share = (budget.get() / distance).min(1.0);
                p.min(q) + share * (q - p).max(0.0)
            }
            Self::Optimal(epsilon) | Self::Unoptimized(epsilon) => q.min(p + epsilon.get()),
        }
    }

    /// The distribution that is emitted, where p and q differ by `distance`.
    fn emitted(self, p: &Distribution, q: &Distribution, distance: f64) -> Distribution {
        let mut kept = 0.0;
        q.for_each(|token, q| kept += self.accepted(p.probability(token), q, distance));
        let rejected = (1.0 - kept).max(0.0);
        let of = |p: f64, q: f64| {
            let replacement = match self {
                Self::Budget(_) | Self::Optimal(_) => (p - q).max(0.0) / distance,
                Self::Unoptimized(_) => p,
            };
            self.accepted(p, q, distance) + rejected * replacement
        };
        let mut weights = Vec::new();
        p.for_each(|token, p| weights.push((token, of(p, q.probability(token)))));
        q.for_each(|token, q| {
            if p.probability(token) == 0.0 {
                weights.push((token, of(0.0, q)));
            }
        });
        weights.sort_unstable_by_key(|&(token, _)| token);
        // The weights add up to 1: what is not accepted is replaced.
        Distribution::from_support(p.vocab_size(), weights).unwrap_or_else(|_| p.clone())
    }
}

/// A token, which may be one of `draws`, and the distribution r that it was emitted from.
///
/// A first draw that is impossible under its own proposal is no reason to emit anything but p: the
/// rule decides alone then, and where nothing was drafted.
///
/// Cost: the rule's, plus passes over the supports of p and q, and a list of them.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    more: impl Into<OverAcceptance>,
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
    let more = more.into();
    let r = Arc::new(more.emitted(p, &q, distance));
    let (of_p, of_q) = (p.probability(first.token), q.probability(first.token));
    let token = if chance.accept((more.accepted(of_p, of_q, distance) / of_q).min(1.0)) {
        first.token
    } else {
        let left = match more {
            OverAcceptance::Budget(_) | OverAcceptance::Optimal(_) => rejected(p, first),
            OverAcceptance::Unoptimized(_) => Arc::clone(p),
        };
        rule.token(&left, others, chance)
    };
    (token, r)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a target whose support is small, such as one cut by top-k, the drafter may draw other
    /// tokens: they are emitted, and lost.
    #[test]
    fn what_the_reviewer_would_never_say_is_lost_too() {
        let p = Distribution::point(1000, 7);
        let q = Distribution::from_support(1000, vec![(7, 0.5), (900, 0.5)]).unwrap();
        let r = OverAcceptance::Budget(LossBudget::new(0.25).unwrap()).emitted(&p, &q, 0.5);
        assert!((r.probability(900) - 0.25).abs() < 1e-12);
        assert!((p.total_variation(&r) - 0.25).abs() < 1e-12);
    }

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
            assert_eq!(Epsilon::new(bad).unwrap_err().0.to_bits(), bad.to_bits());
        }
        assert_eq!(Epsilon::new(0.1).unwrap().get(), 0.1);
    }
}
