//! Target and drafter at one position.

use std::num::NonZeroUsize;

use cascade_core::{Distribution, TokenId};

use crate::{Error, Result};

/// The distributions of target and drafter for the next token, over one vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Target's and drafter's probability of each token.
    tokens: Vec<(f64, f64)>,
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
    /// Vocabularies of different sizes.
    pub fn new(target: &Distribution, drafter: &Distribution) -> Result<Self> {
        let (expected, found) = (target.vocab_size(), drafter.vocab_size());
        if expected != found {
            return Err(Error::theory(format!(
                "the drafter's distribution is over {found} tokens, and {expected} are in the vocabulary"
            )));
        }
        let both = |token| (target.probability(token), drafter.probability(token));
        Ok(Self {
            tokens: (0..expected as TokenId).map(both).collect(),
            distance: target.total_variation(drafter),
        })
    }

    /// Target's and drafter's probability of each token, in the order of the tokens.
    pub fn tokens(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.tokens.iter().copied()
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

    /// All of `drafts` independent draws are rejected, one after the other, with probability Π_m
    /// TV(q^m, drafter), where q¹ is the target and q^{m+1} ∝ max(0, q^m − drafter) what is left of
    /// it (Theorem 3).
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
}
