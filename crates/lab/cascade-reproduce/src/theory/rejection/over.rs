//! Accepting too much.

use super::Pair;
use crate::{Error, Result};

/// A rule that accepts at least what speculative sampling does, and what it replaces rejected
/// tokens by: the best distribution (Theorem 4: Decoding-OPT), or the target's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AcceptMore {
    /// The paper's example: b(x) = min(1, (target(x) + ε)/drafter(x)). Its bias has no bound but
    /// the distance of the models.
    Extra(f64),
    /// The paper's b, with rejected tokens replaced by draws from the target's distribution itself:
    /// Decoding-UNO, what the paper compares Decoding-OPT with. As many are rejected, and the bias
    /// is larger.
    ExtraUnoptimized(f64),
    /// Bounded bias: b(x) = b₀ + (1 − b₀)·min(1, δ/TV) with b₀ = min(1, target(x)/drafter(x)), so
    /// that the bias of every token is δ, or the distance of the models where that is less.
    Budget(f64),
}

/// What a rule does at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct OverAccepted {
    /// b: the probability of each token to be accepted.
    pub accept: Vec<f64>,
    /// The probability of a rejection: 1 − Σ_x b(x)·drafter(x).
    pub rejection: f64,
    /// The distribution that is emitted: b·drafter + P(reject)·replacement.
    pub emitted: Vec<f64>,
    /// The total variation distance of what is emitted from the target.
    pub bias: f64,
    /// What replaces rejected tokens, not normalised.
    pub(super) replacement: Vec<f64>,
}

impl AcceptMore {
    /// Speculative sampling, which accepts no more than leaves the target's distribution unchanged.
    pub const NOTHING_MORE: Self = Self::Extra(0.0);

    /// Checks ε or δ.
    ///
    /// # Errors
    /// One that is negative or not finite.
    pub(super) fn check(self) -> Result<()> {
        let (Self::Extra(value) | Self::ExtraUnoptimized(value) | Self::Budget(value)) = self;
        if value.is_finite() && value >= 0.0 {
            return Ok(());
        }
        Err(Error::theory(format!(
            "an over-acceptance is finite and not negative (0 is speculative sampling), not {value}"
        )))
    }

    /// What the rule does with a pair of distributions.
    pub fn at(self, pair: &Pair) -> OverAccepted {
        let accept = self.accept(pair);
        let missing = pair.tokens().zip(&accept);
        let missing = missing.map(|((q, p), b)| (q - b * p).max(0.0));
        let replacement: Vec<f64> = if self.is_optimal() {
            missing.collect()
        } else {
            pair.tokens().map(|(target, _)| target).collect()
        };
        let accepted = accept.iter().zip(pair.tokens()).map(|(b, (_, p))| b * p);
        let rejection = (1.0 - accepted.sum::<f64>()).clamp(0.0, 1.0);
        let mass: f64 = replacement.iter().sum();
        let share = if mass > 0.0 { rejection / mass } else { 0.0 };
        let tokens = pair.tokens().zip(&accept).zip(&replacement);
        let emitted = tokens.map(|(((_, p), b), replacement)| b * p + share * replacement);
        let emitted: Vec<f64> = emitted.collect();
        let differences = pair.tokens().zip(&emitted).map(|((q, _), r)| (q - r).abs());
        OverAccepted {
            bias: (differences.sum::<f64>() / 2.0).clamp(0.0, 1.0),
            accept,
            rejection,
            emitted,
            replacement,
        }
    }

    /// b. With ε = 0 it is that of speculative sampling, with ε ≥ 1 everything is accepted.
    fn accept(self, pair: &Pair) -> Vec<f64> {
        let (extra, share) = match self {
            Self::Extra(extra) | Self::ExtraUnoptimized(extra) => (extra, 0.0),
            // 0/0: the models agree, and nothing is lost.
            Self::Budget(0.0) => (0.0, 0.0),
            Self::Budget(budget) => (0.0, (budget / pair.rejection()).min(1.0)),
        };
        let accepted = |(q, p): (f64, f64)| {
            let least = if p > 0.0 { (q + extra) / p } else { 1.0 };
            let least = least.clamp(0.0, 1.0);
            (least + (1.0 - least) * share).clamp(0.0, 1.0)
        };
        pair.tokens().map(accepted).collect()
    }

    /// Whether rejected tokens are replaced in the best way, so that no rule of this bias rejects
    /// less often.
    pub fn is_optimal(self) -> bool {
        !matches!(self, Self::ExtraUnoptimized(_))
    }
}
