//! Playing the algorithms on a chain.

use std::num::NonZeroUsize;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::chain::check_numbers;
use super::{AcceptMore, Markov, Pair};
use crate::theory::Estimate;
use crate::theory::estimate::Tally;
use crate::{Error, Result};

/// A chain and an algorithm, ready to be played: nothing is looked up in a formula.
#[derive(Clone, Debug)]
pub struct Player<'c> {
    chain: &'c Markov,
    /// What happens within a draft, one for each pair of the chain.
    inside: Vec<Review>,
    /// What happens where drafting begins, if it is something else.
    fresh: Option<Vec<Review>>,
}

/// The review of one token.
#[derive(Clone, Debug)]
struct Review {
    drafter: Cumulative,
    /// For each draft in turn, the probability that each token is accepted.
    accept: Vec<Vec<f64>>,
    replacement: Cumulative,
}

/// A distribution to draw from: cumulative weights.
#[derive(Clone, Debug)]
pub(crate) struct Cumulative(Vec<f64>);

impl Cumulative {
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let add = |weight: f64| {
            sum += weight;
            sum
        };
        Self(weights.into_iter().map(add).collect())
    }

    /// A token with probability proportional to its weight.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> usize {
        let total = self.0.last().copied().unwrap_or(0.0);
        let mass = rng.random::<f64>() * total;
        // The product may round up to the total, which no token exceeds.
        let found = self.0.partition_point(|&below| below <= mass);
        if found < self.0.len() {
            found
        } else {
            self.0.partition_point(|&below| below < total)
        }
    }
}

impl<'c> Player<'c> {
    /// One draft at a time: speculative sampling, or a rule that accepts more and does not emit the
    /// target's distribution (Decoding-OPT, Theorem 4).
    ///
    /// # Errors
    /// An over-acceptance that is negative or not finite.
    pub fn new(chain: &'c Markov, rule: AcceptMore) -> Result<Self> {
        rule.check()?;
        let pairs = chain.pairs().iter();
        Ok(Self {
            chain,
            inside: pairs.map(|pair| Review::single(pair, rule)).collect(),
            fresh: None,
        })
    }

    /// Several drafts wherever drafting begins (Algorithm 4).
    ///
    /// # Errors
    /// A chain that is too large for that many drafts.
    pub fn batch(chain: &'c Markov, drafts: NonZeroUsize) -> Result<Self> {
        let mut numbers = 0;
        let reviews = chain.pairs().iter().map(|pair| {
            let review = Review::batch(pair, drafts);
            numbers += review.accept.len() * chain.states();
            check_numbers(Some(numbers), (chain.positions(), chain.states()))?;
            Ok(review)
        });
        Ok(Self {
            fresh: Some(reviews.collect::<Result<_>>()?),
            ..Self::new(chain, AcceptMore::NOTHING_MORE)?
        })
    }

    /// Decodes the whole sequence once and returns the number of rejections.
    fn play(&self, rng: &mut impl Rng) -> u64 {
        let (mut rejections, mut last, mut rejected) = (0, 0, true);
        for position in 0..self.chain.positions() {
            let fresh = self.fresh.as_ref().filter(|_| rejected);
            let review = &fresh.unwrap_or(&self.inside)[self.chain.place(position, last)];
            (last, rejected) = review.play(rng);
            rejections += u64::from(rejected);
        }
        rejections
    }

    /// The mean number of rejections over `runs` runs, and the means on the way there: after 10,
    /// 20, 50, 100, … runs. The same seed gives the same numbers on every machine.
    ///
    /// # Errors
    /// Fewer than 2 runs.
    pub fn rejections(&self, runs: u64, seed: u64) -> Result<(Estimate, Vec<Estimate>)> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut tally = Tally::default();
        let mut course = Vec::new();
        for run in 1..=runs {
            tally.add(self.play(&mut rng) as f64);
            if is_milestone(run) {
                course.extend(tally.estimate());
            }
        }
        let last = tally.estimate().ok_or_else(|| Error::too_few(runs))?;
        Ok((last, course))
    }
}

/// 10, 20, 50, 100, 200, …
fn is_milestone(run: u64) -> bool {
    let unit = 10_u64.pow(run.ilog10());
    run >= 10 && [1, 2, 5].map(|times| times * unit).contains(&run)
}

impl Review {
    /// One draft, by speculative sampling or with over-acceptance.
    fn single(pair: &Pair, rule: AcceptMore) -> Self {
        let at = rule.at(pair);
        Self {
            drafter: Cumulative::new(pair.tokens().map(|(_, p)| p)),
            replacement: Cumulative::new(at.replacement),
            accept: vec![at.accept],
        }
    }

    /// Several drafts, one after the other: each rejection leaves max(0, q − p), normalised.
    fn batch(pair: &Pair, drafts: NonZeroUsize) -> Self {
        let (mut left, drafter): (Vec<f64>, Vec<f64>) = pair.tokens().unzip();
        let mut accept = Vec::new();
        for _ in 0..drafts.get() {
            let rates = left
                .iter()
                .zip(&drafter)
                .map(|(q, p)| if *p > 0.0 { (q / p).min(1.0) } else { 1.0 });
            accept.push(rates.collect());
            let residual: Vec<f64> = left
                .iter()
                .zip(&drafter)
                .map(|(q, p)| (q - p).max(0.0))
                .collect();
            let mass: f64 = residual.iter().sum();
            if mass <= 0.0 {
                break;
            }
            left = residual.into_iter().map(|q| q / mass).collect();
        }
        Self {
            drafter: Cumulative::new(drafter),
            accept,
            replacement: Cumulative::new(left),
        }
    }

    /// The token that is emitted, and whether all drafts were rejected.
    fn play(&self, rng: &mut impl Rng) -> (usize, bool) {
        for accept in &self.accept {
            let token = self.drafter.draw(rng);
            if rng.random::<f64>() < accept[token] {
                return (token, false);
            }
        }
        (self.replacement.draw(rng), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_weights_and_never_hit_an_impossible_token() {
        let from = Cumulative::new([0.0, 1.0, 0.0, 3.0, 0.0]);
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut counts = [0; 5];
        (0..40_000).for_each(|_| counts[from.draw(&mut rng)] += 1);
        assert_eq!((counts[0], counts[2], counts[4]), (0, 0, 0));
        assert!((counts[1] - 10_000i32).abs() < 400, "{counts:?}");
    }

    #[test]
    fn milestones_are_round() {
        let reached: Vec<u64> = (1..=1000).filter(|&run| is_milestone(run)).collect();
        assert_eq!(reached, [10, 20, 50, 100, 200, 500, 1000]);
    }
}
