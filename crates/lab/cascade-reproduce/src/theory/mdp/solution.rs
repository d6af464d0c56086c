//! Times by formula: of fixed lengths, and of the best policy.

use super::Costs;
use super::concave::Concave;
use crate::theory::rejection::{Markov, Pair};

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
struct At<'a> {
    pair: &'a Pair,
    /// The time after a token of the target: E_target\[after\].
    bonus: f64,
    /// The time after a replacement, by the probability of one: Σ max(0, target − drafter)·after.
    replaced: f64,
}

impl<'a> At<'a> {
    fn new(chain: &'a Markov, position: usize, last: usize, after: &[f64]) -> Self {
        let pair = &chain.pairs()[chain.place(position, last)];
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
    fn drafts(&self) -> impl Iterator<Item = (usize, (f64, f64))> + '_ {
        let rate = |(q, p): (f64, f64)| if p > 0.0 { (q / p).min(1.0) } else { 0.0 };
        let tokens = self.pair.tokens().map(move |(q, p)| (p, rate((q, p))));
        tokens.enumerate()
    }
}

/// The best policy of a chain: where it stops, and what it takes.
///
/// The time from a state on, as a function of the probability s that all drafted tokens are
/// accepted, is the least of affine functions, one for each policy: drafting and reviewing cost the
/// same whatever s is, and what follows is weighted by it. So it is concave, and stopping, which is
/// better at s = 0, is better up to one bound: that of Theorem 4.3 is a bound on 1 − s.
#[derive(Clone, Debug)]
pub struct Solution {
    time: f64,
    /// By position, last token and tokens that may still be drafted: the greatest s at which it
    /// stops.
    bounds: Vec<Vec<Vec<f64>>>,
}

impl Solution {
    /// Solves the chain, backwards from its end.
    ///
    /// # Cost
    /// Positions × states² × longest draft × pieces of a function (tens; their number is bounded by
    /// the precision, 1e-6 forwards of the target for each drafted token, by which the time may be
    /// too short).
    pub fn best(chain: &Markov, costs: Costs) -> Self {
        let (positions, states) = (chain.positions(), chain.states());
        let mut after = vec![0.0; states];
        let mut later: Vec<Vec<Concave>> = Vec::new();
        let mut bounds = vec![Vec::new(); positions];
        for position in (0..positions).rev() {
            let room = costs.room(positions, position);
            let width = if position == 0 { 1 } else { states };
            let mut layer: Vec<Vec<Concave>> = vec![Vec::with_capacity(width); room + 1];
            bounds[position] = vec![vec![1.0]; width];
            for (last, bounds) in bounds[position].iter_mut().enumerate() {
                let at = At::new(chain, position, last, &after);
                layer[0].push(Concave::line(1.0, at.bonus));
                for left in 1..=room {
                    let terms: Vec<_> = at
                        .drafts()
                        .map(|(token, (p, accepted))| (p, accepted, &later[left - 1][token]))
                        .collect();
                    let go_on = Concave::sum(costs.draft.get(), at.replaced, &terms);
                    let (best, bound) = go_on.min_with_line(1.0, at.bonus);
                    layer[left].push(best);
                    bounds.push(bound);
                }
            }
            after = layer[room].iter().map(|time| time.at(1.0)).collect();
            later = layer;
        }
        Self {
            time: after[0],
            bounds,
        }
    }

    /// Its expected time for the whole sequence, in forwards of the target.
    pub fn time(&self) -> f64 {
        self.time
    }

    /// Whether it stops at a position (counted from the sequence's start, drafted tokens included)
    /// after a token, with `left` more tokens that may be drafted, and probability `accepted` that
    /// all drafted ones are accepted.
    pub(super) fn stops(&self, position: usize, last: usize, left: usize, accepted: f64) -> bool {
        accepted <= self.bounds[position][last][left]
    }

    /// The least and the greatest probability of a rejection from which on it stops, over all
    /// states in which it could draft on; `None` if there are none. A constant threshold, as
    /// SpecDec++ uses, is the best where they are equal.
    pub fn thresholds(&self) -> Option<(f64, f64)> {
        let bounds = self.bounds.iter().flatten().flat_map(|left| &left[1..]);
        bounds.fold(None, |range, bound| {
            let threshold = 1.0 - bound;
            Some(match range {
                None => (threshold, threshold),
                Some((low, high)) => (threshold.min(low), threshold.max(high)),
            })
        })
    }
}
