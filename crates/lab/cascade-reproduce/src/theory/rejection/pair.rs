//! Target and drafter at one position.

use std::num::NonZeroUsize;

use cascade_core::{Distribution, TokenId};

use crate::theory::{AcceptanceRate, Error, Result};

/// The distributions of target and drafter for the next token, over one vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    target: Distribution,
    drafter: Distribution,
    /// Total variation distance of the two.
    distance: f64,
}

/// The outcome at a position where several drafts begin.
pub(super) struct BatchOutcome {
    /// Probability that all drafts are rejected.
    pub(super) rejection: f64,
    /// For each token, the probability that all drafts are rejected and the target says this token
    /// instead.
    pub(super) replacement: Vec<f64>,
}

impl Pair {
    /// Puts them together.
    ///
    /// # Errors
    /// [`Error::Vocabulary`] if the vocabularies are of different sizes.
    pub fn new(target: Distribution, drafter: Distribution) -> Result<Self> {
        let (expected, found) = (target.vocab_size(), drafter.vocab_size());
        if expected != found {
            return Err(Error::Vocabulary {
                what: "the drafter's distribution",
                expected,
                found,
            });
        }
        Ok(Self {
            distance: target.total_variation(&drafter),
            target,
            drafter,
        })
    }

    /// The target's distribution.
    pub fn target(&self) -> &Distribution {
        &self.target
    }

    /// The drafter's distribution.
    pub fn drafter(&self) -> &Distribution {
        &self.drafter
    }

    /// The probability that speculative sampling rejects a token drawn from the drafter: the total
    /// variation distance (Theorem 1 at one position).
    ///
    /// No rule that accepts or rejects draws of the drafter and leaves the target's distribution
    /// unchanged rejects less often (Theorem 2): such a rule accepts x with b(x) ≤ min(1,
    /// target(x)/drafter(x)), and this one with equality.
    pub fn rejection(&self) -> f64 {
        self.distance
    }

    /// 1 − [`rejection`](Self::rejection) = Σ min(target, drafter): the α of the other theory.
    pub fn acceptance(&self) -> AcceptanceRate {
        AcceptanceRate::clamped(1.0 - self.distance)
    }

    /// The probability that all of `drafts` independent draws are rejected, one after the other:
    /// Π_m TV(q^m, drafter), where q¹ is the target and q^{m+1} ∝ max(0, q^m − drafter) what is
    /// left of it (Theorem 3).
    pub fn batch_rejection(&self, drafts: NonZeroUsize) -> f64 {
        self.batch(drafts).rejection
    }

    /// The probability of a rejection under any rule: 1 − Σ_x b(x)·drafter(x), where `accept` is b,
    /// the probability of each token to be accepted.
    ///
    /// # Errors
    /// [`Error::Vocabulary`] if `accept` is not of the vocabulary's size.
    pub fn rejection_by(&self, accept: &[AcceptanceRate]) -> Result<f64> {
        self.check(accept)?;
        let accepted: f64 = accept
            .iter()
            .zip(self.tokens())
            .map(|(b, (_, p))| b.get() * p)
            .sum();
        Ok((1.0 - accepted).clamp(0.0, 1.0))
    }

    /// The least total variation distance between the target and what is emitted, if tokens are
    /// accepted with `accept` (b) and replaced in the best way when they are rejected (Theorem 4):
    /// ½·Σ|target − b·drafter| − ½·Σ(1 − b)·drafter.
    ///
    /// It is 0 exactly if b·drafter ≤ target everywhere. The best replacement is proportional to
    /// max(0, target − b·drafter).
    ///
    /// # Errors
    /// [`Error::Vocabulary`] if `accept` is not of the vocabulary's size.
    pub fn least_bias(&self, accept: &[AcceptanceRate]) -> Result<f64> {
        self.check(accept)?;
        let tokens = self.tokens().zip(accept);
        let twice: f64 = tokens
            .map(|((q, p), b)| (q - b.get() * p).abs() - (1.0 - b.get()) * p)
            .sum();
        Ok((twice / 2.0).clamp(0.0, 1.0))
    }

    /// The least bias of all rules that reject with probability `rejection`: max(0, TV −
    /// rejection), a straight line from no rejection with bias TV to rejection TV with no bias
    /// (Theorem 5, the Pareto front).
    pub fn pareto_bias(&self, rejection: AcceptanceRate) -> f64 {
        (self.distance - rejection.get()).max(0.0)
    }

    /// The rule of the paper's numeric example, which accepts more than speculative sampling does:
    /// b(x) = min(1, (target(x) + ε)/drafter(x)), where ε = `extra`. With ε = 0 it is speculative
    /// sampling, with ε ≥ 1 everything is accepted.
    ///
    /// # Errors
    /// [`Error::Extra`] if ε is negative or not finite.
    pub fn over_acceptance(&self, extra: f64) -> Result<Vec<AcceptanceRate>> {
        if !(extra.is_finite() && extra >= 0.0) {
            return Err(Error::Extra(extra));
        }
        let accepted = |(q, p): (f64, f64)| {
            if p > 0.0 {
                AcceptanceRate::clamped((q + extra) / p)
            } else {
                AcceptanceRate(1.0)
            }
        };
        Ok(self.tokens().map(accepted).collect())
    }

    /// The distribution that is emitted if tokens are accepted with `accept` (b) and replaced by
    /// draws from `replacement`, which need not be normalised: b·drafter + P(reject)·replacement.
    pub(super) fn emitted_with(
        &self,
        accept: &[AcceptanceRate],
        replacement: &[f64],
    ) -> Result<Vec<f64>> {
        let rejection = self.rejection_by(accept)?;
        let mass: f64 = replacement.iter().sum();
        let share = if mass > 0.0 { rejection / mass } else { 0.0 };
        let tokens = self.tokens().zip(accept).zip(replacement);
        Ok(tokens
            .map(|(((_, p), b), replacement)| b.get() * p + share * replacement)
            .collect())
    }

    /// max(0, target − b·drafter), not normalised: what replaces rejected tokens.
    pub(super) fn missing(&self, accept: &[AcceptanceRate]) -> Vec<f64> {
        let tokens = self.tokens().zip(accept);
        tokens
            .map(|((q, p), b)| (q - b.get() * p).max(0.0))
            .collect()
    }

    /// What remains of batch speculative sampling as the number of drafts goes to infinity: every
    /// token that the drafter may say is exhausted, so that all drafts are rejected with the
    /// target's probability of the tokens that the drafter never says, and one of those replaces
    /// them.
    pub(super) fn batch_limit(&self) -> BatchOutcome {
        let unsaid = |(q, p): (f64, f64)| if p > 0.0 { 0.0 } else { q };
        let replacement: Vec<f64> = self.tokens().map(unsaid).collect();
        BatchOutcome {
            rejection: replacement.iter().sum(),
            replacement,
        }
    }

    pub(super) fn batch(&self, drafts: NonZeroUsize) -> BatchOutcome {
        let (mut left, drafter): (Vec<f64>, Vec<f64>) = self.tokens().unzip();
        let mut rejection = 1.0;
        for _ in 0..drafts.get() {
            for (q, p) in left.iter_mut().zip(&drafter) {
                *q = (*q - p).max(0.0);
            }
            let distance: f64 = left.iter().sum();
            rejection *= distance;
            if distance == 0.0 {
                break;
            }
            left.iter_mut().for_each(|q| *q /= distance);
        }
        left.iter_mut().for_each(|q| *q *= rejection);
        BatchOutcome {
            rejection,
            replacement: left,
        }
    }

    /// Target's and drafter's probability of each token, in the order of the tokens.
    pub fn tokens(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let tokens = 0..self.target.vocab_size() as TokenId;
        tokens.map(|token| {
            (
                self.target.probability(token),
                self.drafter.probability(token),
            )
        })
    }

    fn check(&self, accept: &[AcceptanceRate]) -> Result<()> {
        if accept.len() == self.target.vocab_size() {
            return Ok(());
        }
        Err(Error::Vocabulary {
            what: "the acceptance rule",
            expected: self.target.vocab_size(),
            found: accept.len(),
        })
    }
}
