//! Expectations over a sequence, by formula.

use std::num::NonZeroUsize;

use super::pair::BatchOutcome;
use super::{AcceptMore, Markov, Pair};
use crate::Result;

/// Expectations over a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rejections {
    /// Expected number of rejections.
    pub expected: f64,
    /// Expected number of tokens.
    pub tokens: f64,
}

impl Rejections {
    /// Tokens per rejection, the acceleration over plain decoding if drafting costs nothing and
    /// drafts have no end (Theorem 1 and its second remark). Infinite if nothing is ever rejected.
    pub fn acceleration(&self) -> f64 {
        self.tokens / self.expected
    }
}

/// The expected number of rejections of speculative sampling (Theorem 1): Σ_n E_{x_{1..n−1} ∼
/// target} TV(target_n, drafter_n)(· | x_{1..n−1}).
///
/// It is also the least that any rejection-based algorithm can have which leaves the target's
/// distribution unchanged (Theorem 2).
pub fn expected_rejections(chain: &Markov) -> Rejections {
    expected_batch_rejections(chain, NonZeroUsize::MIN)
}

/// The expected number of rejections of batch speculative sampling (Theorem 3, Algorithm 4):
/// wherever drafting begins, at the start and after each rejection, `drafts` drafts are drawn;
/// their first tokens are reviewed one after the other, and the draft whose first token is accepted
/// is followed until it is rejected.
///
/// Σ_n E_{x ∼ target} TV(target_n, drafter_n) − Σ_n E_{x ∼ f} (TV(target_n, drafter_n) − Π_m
/// TV(q_n^m, drafter_n)), where q¹ is the target, q^{m+1} ∝ max(0, q^m − drafter) what is left of
/// it, and f(x_{1..n−1}) the probability that x_{1..n−1} is emitted and drafting begins after it.
/// Only where drafting begins do more drafts help, so the number does not go to 0 with more of
/// them.
pub fn expected_batch_rejections(chain: &Markov, drafts: NonZeroUsize) -> Rejections {
    expected(chain, |pair| pair.batch(drafts))
}

/// What [`expected_batch_rejections`] tends to as the number of drafts goes to infinity.
///
/// It is not 0: only where drafting begins do more drafts help, and a token that the drafter never
/// says is never drafted.
pub fn expected_batch_limit(chain: &Markov) -> Rejections {
    expected(chain, Pair::batch_limit)
}

/// The probability of a state, by what the next token is.
#[derive(Clone, Copy, Default)]
struct Weight {
    /// The first of a draft: f.
    fresh: f64,
    /// A later one.
    inside: f64,
}

/// The expectations, where `begin` is what happens at a position where drafting begins.
fn expected(chain: &Markov, begin: impl Fn(&Pair) -> BatchOutcome) -> Rejections {
    let mut total = Rejections::default();
    let start = Weight {
        fresh: 1.0,
        inside: 0.0,
    };
    chain.walk(start, |pair, Weight { fresh, inside }, next| {
        let begun = begin(pair);
        total.tokens += fresh + inside;
        total.expected += fresh * begun.rejection + inside * pair.rejection();
        for ((next, (target, drafter)), again) in
            next.iter_mut().zip(pair.tokens()).zip(begun.replacement)
        {
            let emitted = (fresh + inside) * target;
            let replaced = fresh * again + inside * (target - drafter).max(0.0);
            let replaced = replaced.min(emitted);
            next.fresh += replaced;
            next.inside += emitted - replaced;
        }
    });
    total
}

/// What over-acceptance costs and gains over a sequence, in expectation over what it emits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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

/// Rejections and bias of a rule.
///
/// # Errors
/// ε or δ that is negative or not finite.
pub fn expected_over_acceptance(chain: &Markov, rule: AcceptMore) -> Result<OverAcceptance> {
    rule.check()?;
    let mut total = OverAcceptance::default();
    chain.walk(1.0, |pair, weight: f64, next| {
        if weight == 0.0 {
            return;
        }
        let at = rule.at(pair);
        total.rejections += weight * at.rejection;
        total.bias += weight * at.bias;
        total.distance += weight * pair.rejection();
        total.tokens += weight;
        let off = (at.rejection + at.bias - pair.rejection()).abs();
        total.off_front = total.off_front.max(off);
        for (next, emitted) in next.iter_mut().zip(at.emitted) {
            *next += weight * emitted;
        }
    });
    Ok(total)
}
