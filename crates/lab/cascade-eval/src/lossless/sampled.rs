//! Tests samples against a known distribution.

use cascade_core::TokenId;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::lossless::Cells;

/// Confidence level of the bounds on the total variation distance.
const CONFIDENCE: f64 = 0.95;

/// How well samples agree with a distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    /// Number of samples.
    pub samples: u64,
    /// Number of cells.
    pub cells: usize,
    /// Pearson's chi-square statistic.
    pub statistic: f64,
    /// Number of cells minus one.
    pub degrees_of_freedom: usize,
    /// Probability of a statistic at least as large if the samples have the distribution.
    pub p_value: f64,
    /// Total variation distance of the observed frequencies from the probabilities, over the cells.
    /// Positive for a finite sample, however exact.
    pub total_variation: f64,
    /// A lower bound on the true distance, at a confidence of 95%.
    pub at_least: f64,
    /// An upper bound on the true distance over the cells, at a confidence of 95%.
    pub at_most: f64,
    /// A sample of probability 0, if there is one.
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
    for sample in samples {
        total += 1;
        match cells.cell(sample) {
            Some(cell) => counts[cell] += 1,
            None => impossible = impossible.or_else(|| Some(sample.to_vec())),
        }
    }
    let n = total as f64;
    let pairs = || cells.probabilities().iter().zip(&counts);
    let statistic = pairs()
        .filter(|(&p, _)| p > 0.0)
        .map(|(&p, &count)| (count as f64 - n * p).powi(2) / (n * p))
        .sum();
    let total_variation = 0.5
        * pairs()
            .map(|(&p, &count)| (count as f64 / n - p).abs())
            .sum::<f64>();
    let noise = 0.5 * ((cells.len() - 1) as f64 / n).sqrt();
    let deviation = ((1.0 - CONFIDENCE).recip().ln() / (2.0 * n)).sqrt();
    let degrees_of_freedom = cells.len() - 1;
    Agreement {
        samples: total,
        cells: cells.len(),
        statistic,
        degrees_of_freedom,
        p_value: if impossible.is_some() {
            0.0
        } else {
            p_value(statistic, degrees_of_freedom)
        },
        total_variation,
        at_least: (total_variation - noise - deviation).max(0.0),
        at_most: (total_variation + deviation).min(1.0),
        impossible,
    }
}

fn p_value(statistic: f64, degrees_of_freedom: usize) -> f64 {
    // One cell agrees with anything.
    ChiSquared::new(degrees_of_freedom as f64).map_or(1.0, |chi_square| chi_square.sf(statistic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::toy::ToyScorer;
    use cascade_core::{
        Architecture, Prompt, RandomSource, Sampling, Scorer, SeededRandom, TokenTree, Want,
    };

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
        assert!(same.p_value > 0.001 && same.at_least == 0.0, "{same:?}");
        assert!(same.total_variation < same.at_most && same.at_most < 0.1);
        assert_eq!(same.degrees_of_freedom + 1, same.cells);
        let other = check(ToyScorer::target("other", 6, 4));
        assert!(other.p_value < 1e-12 && other.at_least > 0.05, "{other:?}");
    }

    #[test]
    fn one_cell_agrees_with_anything() {
        assert_eq!(p_value(0.0, 0), 1.0);
    }
}
