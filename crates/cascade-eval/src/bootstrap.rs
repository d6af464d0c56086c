//! Confidence intervals by the bootstrap.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Estimates how a statistic varies by resampling its samples with replacement.
///
/// Computes percentile intervals. For ratios of sums over hundreds of prompts, they differ from
/// bias-corrected ones in the third digit. They are deterministic for a given seed.
///
/// ```
/// use cascade_eval::Bootstrap;
///
/// let lengths = [3.0, 4.0, 5.0, 4.0, 3.5, 4.5];
/// let mean = |chosen: &[usize]| {
///     chosen.iter().map(|&i| lengths[i]).sum::<f64>() / chosen.len() as f64
/// };
/// let (low, high) = Bootstrap::default().interval(lengths.len(), mean).unwrap();
/// assert!(3.0 < low && low < 4.0 && 4.0 < high && high < 5.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// Number of resamples.
    pub resamples: usize,
    /// Confidence level of the interval.
    pub confidence: f64,
    /// Seed of the resampling.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            resamples: 2000,
            confidence: 0.95,
            seed: 0,
        }
    }
}

impl Bootstrap {
    /// The confidence interval of a statistic of `samples` samples. The statistic is called with
    /// the indices of each resample. `None` if there are fewer than two samples or no resamples, or
    /// if the statistic of some resample is NaN.
    pub fn interval(
        &self,
        samples: usize,
        statistic: impl Fn(&[usize]) -> f64,
    ) -> Option<(f64, f64)> {
        if samples < 2 || self.resamples == 0 {
            return None;
        }
        let mut words = ChaCha8Rng::seed_from_u64(self.seed);
        let mut chosen = vec![0; samples];
        let mut values = Vec::with_capacity(self.resamples);
        for _ in 0..self.resamples {
            chosen.fill_with(|| below(words.next_u64(), samples));
            values.push(statistic(&chosen));
        }
        if values.iter().any(|value| value.is_nan()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let tail = (1.0 - self.confidence) / 2.0;
        Some((quantile(&values, tail), quantile(&values, 1.0 - tail)))
    }
}

/// Maps a random word to an integer below `bound`: the upper half of the product. The relative bias
/// is at most 2^-64 times `bound`.
fn below(word: u64, bound: usize) -> usize {
    ((u128::from(word) * bound as u128) >> 64) as usize
}

/// Quantile of sorted values, at least one, with linear interpolation between neighbours.
fn quantile(sorted: &[f64], probability: f64) -> f64 {
    let place = probability.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

/// The median; `None` if there are no values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| quantile(&values, 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(values: &[f64]) -> impl Fn(&[usize]) -> f64 + '_ {
        |chosen| chosen.iter().map(|&i| values[i]).sum::<f64>() / chosen.len() as f64
    }

    #[test]
    fn the_seed_determines_the_interval() {
        let values: Vec<f64> = (0..50).map(|i| f64::from(i * i % 17)).collect();
        let of = |seed| {
            Bootstrap {
                seed,
                ..Bootstrap::default()
            }
            .interval(50, mean_of(&values))
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    #[test]
    fn its_width_matches_theory() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let (low, high) = Bootstrap::default()
            .interval(400, mean_of(&values))
            .unwrap();
        // Half ± 1.96 · 0.5 / √400.
        assert!((low - 0.451).abs() < 0.006, "{low}");
        assert!((high - 0.549).abs() < 0.006, "{high}");
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        assert_eq!(Bootstrap::default().interval(1, |_| 1.0), None);
        assert_eq!(Bootstrap::default().interval(3, |_| f64::NAN), None);
        assert_eq!(median(Vec::new()), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
    }
}
