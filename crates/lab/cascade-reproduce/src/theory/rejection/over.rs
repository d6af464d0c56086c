//! Accepting too much, over a sequence.

use std::collections::BTreeMap;

use super::{Pair, Process};
use crate::theory::{AcceptanceRate, Error, Result};

/// A rule that accepts more than speculative sampling does, and what it replaces rejected tokens
/// by: the best distribution (Theorem 4: Decoding-OPT), or the target's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AcceptMore {
    /// The paper's example: b(x) = min(1, (target(x) + ε)/drafter(x)). Its bias has no bound but
    /// the distance of the models.
    Extra(f64),
    /// The paper's b, with rejected tokens replaced by draws from the target's distribution itself:
    /// Decoding-UNO, what the paper compares Decoding-OPT with. As many are rejected, and the bias
    /// is larger.
    ExtraUnoptimized(f64),
    /// The engine's: b(x) = b₀ + (1 − b₀)·min(1, δ/TV) with b₀ = min(1, target(x)/drafter(x)), so
    /// that the bias of every token is δ, or the distance of the models where that is less.
    Budget(f64),
}

impl AcceptMore {
    /// b.
    ///
    /// # Errors
    /// [`Error::Extra`] if ε or δ is negative or not finite.
    pub fn accept(self, pair: &Pair) -> Result<Vec<AcceptanceRate>> {
        match self {
            Self::Extra(extra) | Self::ExtraUnoptimized(extra) => pair.over_acceptance(extra),
            Self::Budget(budget) => {
                let share = self.checked(budget)? / pair.rejection();
                let exact = pair.over_acceptance(0.0)?;
                // 0/0: the models agree, and nothing is lost.
                let share = if share.is_nan() { 0.0 } else { share.min(1.0) };
                let more = |b: AcceptanceRate| AcceptanceRate::clamped(b.0 + (1.0 - b.0) * share);
                Ok(exact.into_iter().map(more).collect())
            }
        }
    }

    /// The distribution that is emitted: b·drafter + P(reject)·replacement.
    ///
    /// # Errors
    /// See [`accept`](Self::accept).
    pub fn emitted(self, pair: &Pair) -> Result<Vec<f64>> {
        let accept = self.accept(pair)?;
        pair.emitted_with(&accept, &self.replacement(pair, &accept))
    }

    /// The total variation distance of what is emitted from the target.
    ///
    /// # Errors
    /// See [`accept`](Self::accept).
    pub fn bias(self, pair: &Pair) -> Result<f64> {
        let emitted = self.emitted(pair)?;
        let target = pair.tokens().map(|(target, _)| target);
        let twice: f64 = target.zip(emitted).map(|(q, r)| (q - r).abs()).sum();
        Ok((twice / 2.0).clamp(0.0, 1.0))
    }

    /// Whether rejected tokens are replaced in the best way, so that no rule of this bias rejects
    /// less often.
    pub fn is_optimal(self) -> bool {
        !matches!(self, Self::ExtraUnoptimized(_))
    }

    /// What replaces rejected tokens, not normalised.
    pub(super) fn replacement(self, pair: &Pair, accept: &[AcceptanceRate]) -> Vec<f64> {
        match self {
            Self::Extra(_) | Self::Budget(_) => pair.missing(accept),
            Self::ExtraUnoptimized(_) => pair.tokens().map(|(target, _)| target).collect(),
        }
    }

    fn checked(self, value: f64) -> Result<f64> {
        if value.is_finite() && value >= 0.0 {
            Ok(value)
        } else {
            Err(Error::Extra(value))
        }
    }
}

/// What over-acceptance costs and gains over a sequence, in expectation over what it emits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverAcceptance {
    /// Expected number of rejections.
    pub rejections: f64,
    /// Expected sum of the total variation distances between what is emitted at a position and the
    /// target's distribution there. No sequence distribution is further from the target's than
    /// this, in total variation.
    pub bias: f64,
    /// Expected sum of the distances between drafter and target at the same positions. By rules
    /// that [are optimal](AcceptMore::is_optimal) it is `rejections` and `bias` together: all
    /// positions are on the front (Theorem 5).
    pub distance: f64,
    /// Expected number of tokens.
    pub tokens: f64,
    /// The largest distance of a position that is visited from the front: |P(reject) + bias − TV|.
    pub off_front: f64,
}

/// Rejections and bias of a rule over the first `horizon` tokens.
///
/// # Errors
/// See [`AcceptMore::accept`].
///
/// # Cost
/// `horizon` × states × vocabulary.
pub fn expected_over_acceptance<P: Process>(
    process: &P,
    rule: AcceptMore,
    horizon: usize,
) -> Result<OverAcceptance> {
    let mut total = OverAcceptance {
        rejections: 0.0,
        bias: 0.0,
        distance: 0.0,
        tokens: 0.0,
        off_front: 0.0,
    };
    let mut states = BTreeMap::from([(process.start(), 1.0)]);
    for _ in 0..horizon {
        let mut next = BTreeMap::new();
        for (state, weight) in &states {
            let Some(pair) = process.pair(state) else {
                continue;
            };
            let accept = rule.accept(pair)?;
            let (rejection, bias) = (pair.rejection_by(&accept)?, rule.bias(pair)?);
            total.rejections += weight * rejection;
            total.bias += weight * bias;
            total.distance += weight * pair.rejection();
            total.tokens += weight;
            let off = (rejection + bias - pair.rejection()).abs();
            total.off_front = total.off_front.max(off);
            for (token, emitted) in rule.emitted(pair)?.into_iter().enumerate() {
                if emitted > 0.0 {
                    *next.entry(process.follow(state, token)).or_insert(0.0) += weight * emitted;
                }
            }
        }
        states = next;
    }
    Ok(total)
}
