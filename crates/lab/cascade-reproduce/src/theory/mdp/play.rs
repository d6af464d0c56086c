//! Playing a policy, token by token.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Costs, Policy};
use crate::theory::estimate::Tally;
use crate::theory::rejection::{Cumulative, Markov};
use crate::theory::{Error, Estimate, Result};

/// What a simulation of a policy found. All sequences have the same number of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Played {
    /// Time of a sequence, in forwards of the target.
    pub time: Estimate,
    /// Drafted tokens of a sequence that are discarded: N_discarded.
    pub discarded: Estimate,
    /// Forwards of the target of a sequence: N_target.
    pub reviews: Estimate,
    /// Tokens of a sequence: N.
    pub tokens: usize,
}

impl Played {
    /// N_discarded / N.
    pub fn discard_rate(&self) -> f64 {
        self.discarded.mean / self.tokens as f64
    }

    /// N_target / N.
    pub fn verification_rate(&self) -> f64 {
        self.reviews.mean / self.tokens as f64
    }

    /// Time over that of plain decoding, inverted, with its 95% interval.
    pub fn speedup(&self) -> (f64, (f64, f64)) {
        let plain = self.tokens as f64;
        let (low, high) = self.time.interval();
        (plain / self.time.mean, (plain / high, plain / low))
    }
}

/// Plays `runs` sequences of `chain` under a policy. The same seed gives the same result on every
/// machine.
///
/// # Errors
/// [`Error::TooFewSteps`] below 2 runs; [`Error::Threshold`].
pub fn simulate_policy(
    chain: &Markov,
    costs: Costs,
    policy: Policy<'_>,
    runs: u64,
    seed: u64,
) -> Result<Played> {
    policy.check()?;
    let game = Game::new(chain, costs, policy);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (mut time, mut discarded, mut reviews) = Default::default();
    let add = |tally: &mut Tally, value: f64| tally.add(value);
    for _ in 0..runs {
        let counts = game.sequence(&mut rng);
        let spent = counts.drafted as f64 * costs.draft.get() + counts.reviews as f64;
        add(&mut time, spent);
        add(&mut discarded, counts.discarded as f64);
        add(&mut reviews, counts.reviews as f64);
    }
    let estimate = |tally: Tally| tally.estimate().ok_or(Error::TooFewSteps(runs));
    Ok(Played {
        time: estimate(time)?,
        discarded: estimate(discarded)?,
        reviews: estimate(reviews)?,
        tokens: chain.positions(),
    })
}

#[derive(Default)]
struct Counts {
    drafted: usize,
    discarded: usize,
    reviews: usize,
}

struct Game<'a> {
    positions: usize,
    states: usize,
    costs: Costs,
    policy: Policy<'a>,
    nodes: Vec<Node>,
}

/// A position after a token.
struct Node {
    target: Cumulative,
    drafter: Cumulative,
    residual: Cumulative,
    accept: Vec<f64>,
}

impl<'a> Game<'a> {
    fn new(chain: &Markov, costs: Costs, policy: Policy<'a>) -> Self {
        let node = |pair: &crate::theory::rejection::Pair| Node {
            target: Cumulative::new(pair.tokens().map(|(q, _)| q)),
            drafter: Cumulative::new(pair.tokens().map(|(_, p)| p)),
            residual: Cumulative::new(pair.tokens().map(|(q, p)| (q - p).max(0.0))),
            accept: pair
                .tokens()
                .map(|(q, p)| if p > 0.0 { (q / p).min(1.0) } else { 1.0 })
                .collect(),
        };
        Self {
            positions: chain.positions(),
            states: chain.states(),
            costs,
            policy,
            nodes: chain.pairs().map(node).collect(),
        }
    }

    fn node(&self, position: usize, last: usize) -> &Node {
        match position {
            0 => &self.nodes[0],
            position => &self.nodes[1 + (position - 1) * self.states + last],
        }
    }

    fn sequence(&self, rng: &mut impl Rng) -> Counts {
        let mut counts = Counts::default();
        let (mut emitted, mut last) = (0, 0);
        while emitted < self.positions {
            (emitted, last) = self.round(emitted, last, &mut counts, rng);
        }
        counts
    }

    /// Drafts and reviews, and returns how many tokens have been emitted then, and the last.
    fn round(
        &self,
        start: usize,
        start_last: usize,
        counts: &mut Counts,
        rng: &mut impl Rng,
    ) -> (usize, usize) {
        let room = self.costs.room(self.positions, start);
        let (mut position, mut last, mut drafted) = (start, start_last, 0);
        // The probability that all drafted tokens are accepted, and the place of the first that is
        // not: the review's outcome, which a policy does not see.
        let mut probability = 1.0;
        let mut rejected = None;
        while drafted < room && !self.stops(position, last, drafted, room - drafted, probability) {
            let node = self.node(position, last);
            let token = node.drafter.draw(rng);
            let accepted = rng.random::<f64>() < node.accept[token];
            if !accepted && matches!(self.policy, Policy::Oracle) {
                // The oracle lets the target say the replacement itself.
                rejected = Some((position, last));
                break;
            }
            if !accepted && rejected.is_none() {
                rejected = Some((position, last));
            }
            probability *= node.accept[token];
            drafted += 1;
            (position, last) = (position + 1, token);
        }
        counts.drafted += drafted;
        counts.reviews += 1;
        match rejected {
            Some((place, last)) => {
                counts.discarded += drafted - (place - start);
                (place + 1, self.node(place, last).residual.draw(rng))
            }
            None => (position + 1, self.node(position, last).target.draw(rng)),
        }
    }

    fn stops(
        &self,
        position: usize,
        last: usize,
        drafted: usize,
        left: usize,
        probability: f64,
    ) -> bool {
        match self.policy {
            Policy::Plain => true,
            Policy::Length(length) => drafted >= length,
            Policy::Threshold(threshold) => drafted > 0 && 1.0 - probability > threshold,
            Policy::Best(solution) => solution.stops(position, last, left, probability),
            Policy::Oracle => false,
        }
    }
}
