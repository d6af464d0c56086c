//! Tests samples against a known distribution.

use cascade_core::{TokenId, seed_of};
use std::f64::consts::PI;

use rand::distr::Distribution as _;
use rand::distr::weighted::WeightedIndex;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::cells::Cells;

/// Confidence level of the bounds on the total variation distance.
const CONFIDENCE: f64 = 0.95;

/// How well samples agree with a distribution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Number of samples.
    pub samples: u64,
    /// Number of cells.
    pub cells: usize,
    /// Target forwards spent on enumerating its distribution.
    pub forwards: usize,
    /// Pearson's chi-square statistic.
    pub chi_square: f64,
    /// Number of cells minus one.
    pub degrees_of_freedom: usize,
    /// Probability of a statistic at least as large if the samples have the distribution. `None` if
    /// all samples fall into one cell, whatever they are: the test has no power then.
    pub p_value: Option<f64>,
    /// Total variation distance of the observed frequencies from the probabilities, over the cells.
    /// Positive for a finite sample, however exact.
    pub total_variation: f64,
    /// A lower bound on the true distance, at a confidence of 95%.
    pub total_variation_at_least: f64,
    /// An upper bound on the true distance over the cells, at a confidence of 95%.
    pub total_variation_at_most: f64,
    /// A sample of probability 0, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible: Option<Vec<TokenId>>,
}

/// Compares samples with the distribution from which `cells` were computed.
///
/// The bounds on the distance hold for any number of samples: one sample changes the observed
/// distance by at most 1/N, so it is within √(ln(1/δ)/2N) of its mean with probability 1 − δ on
/// either side (McDiarmid); the mean is at least the true distance, since the distance is convex,
/// and exceeds it by at most the mean distance of the frequencies from their true probabilities qᵢ,
/// which is at most ½ Σ √(qᵢ(1 − qᵢ)/N), itself at most ½ √((cells − 1)/N) for any qᵢ.
pub fn agreement<'t>(cells: &Cells, samples: impl IntoIterator<Item = &'t [TokenId]>) -> Agreement {
    let mut counts = vec![0u64; cells.len()];
    let mut impossible = None;
    let mut total = 0;
    // Of the order in which the cells came, of which the counts say nothing.
    let mut order = 0;
    for sample in samples {
        total += 1;
        match cells.cell(sample) {
            Some(cell) => {
                counts[cell] += 1;
                order = seed_of(order, cell as u64 + 1);
            }
            None => impossible = impossible.or_else(|| Some(sample.to_vec())),
        }
    }
    let n = total as f64;
    let probabilities = cells.probabilities();
    let statistic = chi_square(probabilities, &counts);
    let pairs = probabilities.iter().zip(&counts);
    let apart: f64 = pairs.map(|(&p, &count)| (count as f64 / n - p).abs()).sum();
    let total_variation = 0.5 * apart;
    let noise = 0.5 * ((cells.len() - 1) as f64 / n).sqrt();
    let deviation = ((1.0 - CONFIDENCE).recip().ln() / (2.0 * n)).sqrt();
    Agreement {
        samples: total,
        cells: cells.len(),
        forwards: cells.forwards(),
        chi_square: statistic,
        degrees_of_freedom: cells.len() - 1,
        p_value: match impossible {
            Some(_) => Some(0.0),
            None => p_value(probabilities, total, statistic, order),
        },
        total_variation,
        total_variation_at_least: (total_variation - noise - deviation).max(0.0),
        total_variation_at_most: (total_variation + deviation).min(1.0),
        impossible,
    }
}

/// Pearson's statistic of counts.
fn chi_square(probabilities: &[f64], counts: &[u64]) -> f64 {
    let n = counts.iter().sum::<u64>() as f64;
    let pairs = probabilities.iter().zip(counts);
    pairs
        .filter(|&(&p, _)| p > 0.0)
        .map(|(&p, &count)| (count as f64 - n * p).powi(2) / (n * p))
        .sum()
}

/// Draws of all simulations at first, and simulations at most and at least.
const DRAWS: u64 = 20_000_000;
const SIMULATIONS: (u64, u64) = (200, 2_000);
/// Simulations once more, as many times as many, where the first ones say that p is below this.
const AGAIN: u64 = 25;
const SMALL: f64 = 0.02;

/// Probability that samples of the distribution have a statistic at least as large, by simulation:
/// the rank of the statistic among those of simulated samples, in which ties are broken at random.
/// So it is uniformly distributed if the samples have the distribution, for any number of cells and
/// samples, of which the chi-square distribution is only the limit. Below what simulations resolve,
/// that distribution's tail is given. `seed` has to differ between checks of the same statistic, or
/// ties would not be broken at random. `None` without two cells: nothing is tested then.
fn p_value(probabilities: &[f64], samples: u64, statistic: f64, seed: u64) -> Option<f64> {
    let degrees = probabilities
        .len()
        .checked_sub(1)
        .filter(|&degrees| degrees > 0)?;
    let draw = WeightedIndex::new(probabilities).ok()?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut ranks = Ranks::default();
    let first = (DRAWS / samples.max(1)).clamp(SIMULATIONS.0, SIMULATIONS.1);
    let mut simulate = |count: u64, ranks: &mut Ranks| {
        let mut counts = vec![0; probabilities.len()];
        for _ in 0..count {
            counts.fill(0);
            (0..samples).for_each(|_| counts[draw.sample(&mut rng)] += 1);
            ranks.add(chi_square(probabilities, &counts), statistic);
        }
    };
    simulate(first, &mut ranks);
    if ranks.share(0.5) < SMALL {
        simulate(AGAIN * first, &mut ranks);
    }
    if ranks.greater + ranks.equal == 0 {
        return Some(chi_square_tail(degrees, statistic).min(ranks.share(1.0)));
    }
    Some(ranks.share(rng.random()))
}

/// The probability that a chi-square distribution exceeds a statistic far above its mean, by the
/// continued fraction of the incomplete gamma function; 1 for statistics near the mean.
fn chi_square_tail(degrees: usize, statistic: f64) -> f64 {
    const STEPS: u32 = 1000;
    let (a, x) = (degrees as f64 / 2.0, statistic / 2.0);
    if x <= a + 1.0 {
        return 1.0;
    }
    let odd = if degrees % 2 == 1 { PI.ln() / 2.0 } else { 0.0 };
    let factors = (1..).map(|below| a - f64::from(below));
    let ln_gamma = odd + factors.take_while(|&f| f > 0.0).map(f64::ln).sum::<f64>();
    // Lentz's method.
    let (mut b, mut c) = (x + 1.0 - a, f64::INFINITY);
    let mut d = 1.0 / b;
    let mut fraction = d;
    for i in (1..=STEPS).map(f64::from) {
        let numerator = -i * (i - a);
        b += 2.0;
        d = 1.0 / (numerator * d + b);
        c = b + numerator / c;
        fraction *= d * c;
        if (d * c - 1.0).abs() < f64::EPSILON {
            break;
        }
    }
    (a * x.ln() - x - ln_gamma).exp() * fraction
}

/// How the statistics of simulations compare.
#[derive(Default)]
struct Ranks {
    greater: u64,
    equal: u64,
    all: u64,
}

impl Ranks {
    fn add(&mut self, simulated: f64, statistic: f64) {
        self.all += 1;
        // The same counts in other cells of the same probability differ by rounding.
        if (simulated - statistic).abs() <= 1e-9 * (1.0 + statistic) {
            self.equal += 1;
        } else if simulated > statistic {
            self.greater += 1;
        }
    }

    /// The share of simulations that are as far off, with this part of the equal ones.
    fn share(&self, of_equal: f64) -> f64 {
        (self.greater as f64 + of_equal * (self.equal + 1) as f64) / (self.all + 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::toy::ToyScorer;
    use cascade_core::{
        Architecture, Prompt, RandomSource, Sampling, Scorer, SeededRandom, TokenTree, Want,
    };
    use statrs::distribution::{ChiSquared, ContinuousCDF};

    /// Samples of a model after the context 1 2, two tokens each.
    fn samples(mut model: ToyScorer, count: u64) -> Vec<Vec<TokenId>> {
        let mut chance = SeededRandom::new(11);
        let sampling = Sampling::new(1.5).expect("valid");
        let mut draw = |context: &[TokenId]| {
            let scores = model.score(context, &TokenTree::new(), Want::LOGITS);
            let logits = scores.expect("a toy does not fail").logits.expect("wanted");
            chance.draw(&sampling.distribution(logits.row(0)).expect("proper"))
        };
        let text = |_| {
            let first = draw(&[1, 2]);
            vec![first, draw(&[1, 2, first])]
        };
        (0..count).map(text).collect()
    }

    fn check(model: ToyScorer) -> Agreement {
        let prompt = Prompt::new(Architecture::DecoderOnly, vec![1, 2]);
        let sampling = Sampling::new(1.5).expect("valid");
        let mut target = ToyScorer::target("target", 6, 3);
        let cells = Cells::new(&mut target, &prompt, &sampling, &[], 2, 5_000);
        let samples = samples(model, 5_000);
        agreement(
            &cells.expect("a toy does not fail"),
            samples.iter().map(Vec::as_slice),
        )
    }

    #[test]
    fn samples_of_the_target_agree_and_those_of_another_model_do_not() {
        let same = check(ToyScorer::target("same", 6, 3));
        assert!(
            same.p_value > Some(0.001) && same.total_variation_at_least == 0.0,
            "{same:?}"
        );
        assert!(
            same.total_variation < same.total_variation_at_most
                && same.total_variation_at_most < 0.1
        );
        assert_eq!(same.degrees_of_freedom + 1, same.cells);
        let other = check(ToyScorer::target("other", 6, 4));
        assert!(
            other.p_value < Some(1e-12) && other.total_variation_at_least > 0.05,
            "{other:?}"
        );
    }

    #[test]
    fn one_cell_tests_nothing() {
        assert_eq!(p_value(&[1.0], 1500, 0.0, 1), None);
        assert!(p_value(&[0.5, 0.5], 1500, 0.0, 1).is_some());
    }

    #[test]
    fn tails_are_those_of_the_chi_square_distribution() {
        for degrees in [1, 2, 3, 10, 41, 800] {
            let limit = ChiSquared::new(degrees as f64).expect("above 0");
            for factor in [3.0, 5.0, 20.0] {
                let statistic = factor * (degrees as f64 + 2.0);
                let (found, known) = (chi_square_tail(degrees, statistic), limit.sf(statistic));
                assert!(
                    (found - known).abs() <= 1e-9 * known,
                    "{degrees}: {found} {known}"
                );
            }
        }
        assert_eq!(chi_square_tail(4, 4.0), 1.0);
    }

    /// Beyond what is simulated, p still falls.
    #[test]
    fn a_great_difference_has_a_tiny_p() {
        assert!(p_value(&[0.5, 0.5], 1000, 100.0, 1).is_some_and(|p| p < 1e-20));
    }
}
