//! Playing a policy, token by token.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Costs, Policy};
use crate::theory::Estimate;
use crate::theory::estimate::Tally;
use crate::theory::rejection::{Cumulative, Markov, Pair};
use crate::{Error, Result};

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
/// Fewer than 2 runs, and a threshold that is no probability.
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
    let mut tallies = [Tally::default(); 3];
    for _ in 0..runs {
        let counts = game.sequence(&mut rng);
        let time = counts.drafted as f64 * costs.draft.get() + counts.reviews as f64;
        let numbers = [time, counts.discarded as f64, counts.reviews as f64];
        for (tally, number) in tallies.iter_mut().zip(numbers) {
            tally.add(number);
        }
    }
    let [time, discarded, reviews] = tallies.map(|tally| tally.estimate());
    let all = time.zip(discarded).zip(reviews);
    let ((time, discarded), reviews) = all.ok_or_else(|| Error::too_few(runs))?;
    Ok(Played {
        time,
        discarded,
        reviews,
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
    chain: &'a Markov,
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
    fn new(chain: &'a Markov, costs: Costs, policy: Policy<'a>) -> Self {
        let node = |pair: &Pair| Node {
            target: Cumulative::new(pair.tokens().map(|(q, _)| q)),
            drafter: Cumulative::new(pair.tokens().map(|(_, p)| p)),
            residual: Cumulative::new(pair.tokens().map(|(q, p)| (q - p).max(0.0))),
            accept: pair
                .tokens()
                .map(|(q, p)| if p > 0.0 { (q / p).min(1.0) } else { 1.0 })
                .collect(),
        };
        Self {
            chain,
            costs,
            policy,
            nodes: chain.pairs().iter().map(node).collect(),
        }
    }

    fn node(&self, position: usize, last: usize) -> &Node {
        &self.nodes[self.chain.place(position, last)]
    }

    fn sequence(&self, rng: &mut impl Rng) -> Counts {
        let mut counts = Counts::default();
        let (mut emitted, mut last) = (0, 0);
        while emitted < self.chain.positions() {
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
        let room = self.costs.room(self.chain.positions(), start);
        let (mut position, mut last, mut drafted) = (start, start_last, 0);
        // The probability that all drafted tokens are accepted, and the place of the first that is
        // not: the review's outcome, which a policy does not see.
        let mut probability = 1.0;
        let mut rejected = None;
        while drafted < room && !self.stops(position, last, drafted, room - drafted, probability) {
            let node = self.node(position, last);
            let token = node.drafter.draw(rng);
            let accepted = rng.random::<f64>() < node.accept[token];
            if !accepted {
                rejected = rejected.or(Some((position, last)));
                if matches!(self.policy, Policy::Oracle) {
                    // The target says the replacement itself.
                    break;
                }
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
