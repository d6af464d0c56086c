//! The time of a fixed draft length.

use super::Costs;
use crate::theory::rejection::Markov;

/// The expected time of the whole sequence, in forwards of the target, if every draft has `length`
/// tokens, or as many as the sequence and `costs` leave room for. With 0 it is the number of
/// positions: plain decoding.
///
/// # Cost
/// Positions × states² × `length`.
pub fn expected_time(chain: &Markov, costs: Costs, length: usize) -> f64 {
    let (positions, states) = (chain.positions(), chain.states());
    // The time that is left after each token of the position before, where drafting begins.
    let mut after = vec![0.0; states];
    // The time from a state on as (constant, slope), as a function of the probability that the
    // review gets there, by tokens that may still be drafted.
    let mut later: Vec<Vec<(f64, f64)>> = Vec::new();
    for position in (0..positions).rev() {
        let room = length.min(costs.room(positions, position));
        let width = if position == 0 { 1 } else { states };
        let mut layer: Vec<Vec<(f64, f64)>> = vec![Vec::with_capacity(width); room + 1];
        for last in 0..width {
            let at = At::new(chain, position, last, &after);
            layer[0].push((1.0, at.bonus));
            for left in 1..=room {
                let (mut constant, mut slope) = (costs.draft.get(), at.replaced);
                for (token, (p, accepted)) in at.drafts() {
                    let (after, factor) = later[left - 1][token];
                    constant += p * after;
                    slope += p * accepted * factor;
                }
                layer[left].push((constant, slope));
            }
        }
        after = layer[room].iter().map(|(c, slope)| c + slope).collect();
        later = layer;
    }
    after[0]
}

/// What happens at a position after a token.
pub(super) struct At<'a> {
    pair: &'a crate::theory::rejection::Pair,
    /// The time after a token of the target: E_target\[after\].
    pub(super) bonus: f64,
    /// The time after a replacement, by the probability of one: Σ max(0, target − drafter)·after.
    pub(super) replaced: f64,
}

impl<'a> At<'a> {
    pub(super) fn new(chain: &'a Markov, position: usize, last: usize, after: &[f64]) -> Self {
        let pair = chain.pair_at(position, last);
        let mut at = Self {
            pair,
            bonus: 0.0,
            replaced: 0.0,
        };
        for ((q, p), after) in pair.tokens().zip(after) {
            at.bonus += q * after;
            at.replaced += (q - p).max(0.0) * after;
        }
        at
    }

    /// For each token, its probability to be drafted, and to be accepted then.
    pub(super) fn drafts(&self) -> impl Iterator<Item = (usize, (f64, f64))> + '_ {
        let rate = |(q, p): (f64, f64)| if p > 0.0 { (q / p).min(1.0) } else { 0.0 };
        let tokens = self.pair.tokens().map(move |(q, p)| (p, rate((q, p))));
        tokens.enumerate()
    }
}
