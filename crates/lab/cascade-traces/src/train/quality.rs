//! How good a classifier is.

use cascade_engine::ClassifierWeights;
use serde::Serialize;

use crate::train::{Example, Output};

/// Bins of a calibration.
const BINS: usize = 10;

/// Loss, F1 and calibration of a classifier over some outputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Tokens.
    pub tokens: usize,
    /// Share of them that are accepted.
    pub acceptance: f64,
    /// Mean cross-entropy, in nats.
    pub loss: f64,
    /// The share of accepted tokens among those that are predicted with 0.5 or more.
    pub precision: f64,
    /// The share of accepted tokens that are predicted with 0.5 or more.
    pub recall: f64,
    /// Harmonic mean of the two.
    pub f1: f64,
    /// Mean distance between prediction and share of accepted tokens, over the bins.
    pub calibration_error: f64,
    /// Tokens by prediction.
    pub bins: Vec<Bin>,
}

/// Tokens with similar predictions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// Number of tokens.
    pub tokens: usize,
    /// Their mean prediction.
    pub predicted: f64,
    /// Share of them that are accepted.
    pub accepted: f64,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    tokens: usize,
    predicted: f64,
    accepted: usize,
}

impl Quality {
    /// The quality of `weights` over the tokens of `outputs`.
    pub fn of(weights: &ClassifierWeights, outputs: &[Output]) -> Self {
        Self::of_predictions(
            all(outputs).map(|example| (weights.probability(&example.features), example.accepted)),
        )
    }

    /// The quality of predictions, each with whether its token is accepted.
    pub fn of_predictions(predictions: impl IntoIterator<Item = (f32, bool)>) -> Self {
        let mut bins = [Sums::default(); BINS];
        let (mut loss, mut hits, mut found) = (0.0, 0, 0);
        for (p, accepted) in predictions {
            let p = f64::from(p);
            let right = if accepted { p } else { 1.0 - p };
            // In f32 a probability may be 0 or 1; its logarithm is cut off where f32 ends.
            loss -= right.max(f64::from(f32::MIN_POSITIVE)).ln();
            hits += usize::from(p >= 0.5 && accepted);
            found += usize::from(p >= 0.5);
            let bin = &mut bins[((p * BINS as f64) as usize).min(BINS - 1)];
            bin.tokens += 1;
            bin.predicted += p;
            bin.accepted += usize::from(accepted);
        }
        let tokens: usize = bins.iter().map(|bin| bin.tokens).sum();
        let accepted: usize = bins.iter().map(|bin| bin.accepted).sum();
        let error = bins
            .iter()
            .map(|bin| (bin.predicted - bin.accepted as f64).abs());
        let (precision, recall) = (ratio(hits, found), ratio(hits, accepted));
        Self {
            tokens,
            acceptance: ratio(accepted, tokens),
            loss: loss / tokens.max(1) as f64,
            precision,
            recall,
            f1: if precision + recall > 0.0 {
                2.0 * precision * recall / (precision + recall)
            } else {
                0.0
            },
            calibration_error: error.sum::<f64>() / tokens.max(1) as f64,
            bins: bins.iter().map(Bin::of).collect(),
        }
    }
}

impl Bin {
    fn of(sums: &Sums) -> Self {
        Self {
            tokens: sums.tokens,
            predicted: sums.predicted / sums.tokens.max(1) as f64,
            accepted: ratio(sums.accepted, sums.tokens),
        }
    }
}

pub(crate) fn all(outputs: &[Output]) -> impl Iterator<Item = &Example> {
    outputs.iter().flat_map(|output| &output.0)
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}
