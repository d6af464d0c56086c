//! Playing the algorithms on a chain.

use std::num::NonZeroUsize;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{AcceptMore, Markov, Pair, MOST_NUMBERS};
use crate::theory::estimate::Tally;
use crate::theory::{AcceptanceRate, Error, Estimate, Result};

/// How drafts are reviewed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Algorithm {
    /// Speculative sampling, one draft at a time.
    Speculative,
    /// Several drafts wherever drafting begins (Algorithm 4).
    Batch(NonZeroUsize),
    /// Decoding-OPT: more is accepted, with the best replacement (Theorem 4). It does not emit the
    /// target's distribution.
    OverAcceptance(AcceptMore),
}

/// A chain and an algorithm, ready to be played: nothing is looked up in a formula.
#[derive(Clone, Debug)]
pub struct Player {
    states: usize,
    positions: usize,
    /// What happens where drafting begins, and within a draft: one for the first position, then one
    /// for each later position and token.
    fresh: Vec<Review>,
    inside: Vec<Review>,
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

impl Player {
    /// Prepares the algorithm on all of the chain.
    ///
    /// # Errors
    /// [`Error::Extra`] for an over-acceptance that is negative or not finite;
    /// [`Error::TooLarge`] for a chain that is too large for that many drafts.
    pub fn new(chain: &Markov, algorithm: Algorithm) -> Result<Self> {
        let single = match algorithm {
            Algorithm::OverAcceptance(rule) => rule,
            Algorithm::Speculative | Algorithm::Batch(_) => AcceptMore::Extra(0.0),
        };
        let inside = chain
            .pairs()
            .map(|pair| Review::single(pair, single))
            .collect::<Result<Vec<_>>>()?;
        let fresh = match algorithm {
            Algorithm::Batch(drafts) => {
                let mut numbers = 0;
                let reviews = chain.pairs().map(|pair| {
                    let review = Review::batch(pair, drafts);
                    numbers += review.accept.len() * chain.states();
                    if numbers <= MOST_NUMBERS {
                        Ok(review)
                    } else {
                        Err(Error::TooLarge {
                            positions: chain.positions(),
                            states: chain.states(),
                            most: MOST_NUMBERS,
                        })
                    }
                });
                reviews.collect::<Result<_>>()?
            }
            _ => inside.clone(),
        };
        Ok(Self {
            states: chain.states(),
            positions: chain.positions(),
            fresh,
            inside,
        })
    }

    /// Decodes the whole sequence once and returns the number of rejections. `emitted` is called
    /// with every position and its token.
    pub fn play(&self, rng: &mut impl Rng, mut emitted: impl FnMut(usize, usize)) -> u64 {
        let (mut rejections, mut place, mut begins) = (0, 0, true);
        for position in 0..self.positions {
            let review = if begins {
                &self.fresh[place]
            } else {
                &self.inside[place]
            };
            let (token, rejected) = review.play(rng);
            rejections += u64::from(rejected);
            begins = rejected;
            emitted(position, token);
            place = 1 + position * self.states + token;
        }
        rejections
    }

    /// The mean number of rejections over `runs` runs, and the means on the way there: after 10,
    /// 20, 50, 100, … runs. The same seed gives the same numbers on every machine.
    ///
    /// # Errors
    /// [`Error::TooFewSteps`] below 2 runs.
    pub fn rejections(&self, runs: u64, seed: u64) -> Result<(Estimate, Vec<Estimate>)> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut tally = Tally::default();
        let mut course = Vec::new();
        let mut next = Milestones::default();
        for run in 1..=runs {
            tally.add(self.play(&mut rng, |_, _| {}) as f64);
            if next.reached(run) {
                course.extend(tally.estimate());
            }
        }
        let last = tally.estimate().ok_or(Error::TooFewSteps(runs))?;
        Ok((last, course))
    }
}

/// 10, 20, 50, 100, 200, …
struct Milestones {
    next: u64,
    place: usize,
}

impl Default for Milestones {
    fn default() -> Self {
        Self { next: 10, place: 0 }
    }
}

impl Milestones {
    fn reached(&mut self, run: u64) -> bool {
        if run < self.next {
            return false;
        }
        self.next = match self.place {
            1 => self.next / 2 * 5,
            _ => self.next * 2,
        };
        self.place = (self.place + 1) % 3;
        true
    }
}

impl Review {
    /// One draft, by speculative sampling or with over-acceptance.
    fn single(pair: &Pair, rule: AcceptMore) -> Result<Self> {
        let accept = rule.accept(pair)?;
        Ok(Self {
            drafter: Cumulative::new(pair.tokens().map(|(_, p)| p)),
            replacement: Cumulative::new(rule.replacement(pair, &accept)),
            accept: vec![accept.into_iter().map(AcceptanceRate::get).collect()],
        })
    }

    /// Several drafts, one after the other: each rejection leaves max(0, q − p), normalised.
    fn batch(pair: &Pair, drafts: NonZeroUsize) -> Self {
        let (mut left, drafter): (Vec<f64>, Vec<f64>) = pair.tokens().unzip();
        let mut accept = Vec::new();
        for _ in 0..drafts.get() {
            let rates =
                left.iter()
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
        let mut next = Milestones::default();
        let reached: Vec<u64> = (1..=1000).filter(|&run| next.reached(run)).collect();
        assert_eq!(reached, [10, 20, 50, 100, 200, 500, 1000]);
    }
}
