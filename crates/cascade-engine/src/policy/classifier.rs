//! DISCO's classifier: a small network that says whether a drafted token will be accepted (Mamou et
//! al., Accelerating Speculative Decoding using Dynamic Speculation Length).

use std::sync::Arc;

use cascade_core::{TokenId, Want};

use super::network::{InvalidNetwork, check_part, check_threshold};
use super::{DraftedToken, StopRule};

/// Probabilities of the drafter that the classifier reads: those of its most probable tokens.
const TOP: usize = 10;

/// Features of a drafted token.
pub const CLASSIFIER_FEATURES: usize = TOP + 2;

/// The features of a drafted token: the probabilities of the drafter's ten most probable tokens
/// (0 where a vocabulary has fewer), the entropy of its distribution in nats, and the position of
/// the token, counted from the beginning of the generation.
pub fn classifier_features(
    top: &[(TokenId, f32)],
    entropy: f32,
    position: usize,
) -> [f32; CLASSIFIER_FEATURES] {
    let mut features = [0.0; CLASSIFIER_FEATURES];
    for (feature, (_, probability)) in features[..TOP].iter_mut().zip(top) {
        *feature = *probability;
    }
    features[TOP] = entropy;
    features[TOP + 1] = position as f32;
    features
}

/// What a drafter's scores must have for its features.
pub const CLASSIFIER_WANT: Want = Want::ARGMAX.with_top(TOP).with_entropy();

/// The weights of a classifier: p = σ(v·relu(W·z + b) + c), where z are the features, of each its
/// mean subtracted and divided by its deviation.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierWeights {
    /// Mean of each feature.
    pub mean: Vec<f32>,
    /// Standard deviation of each feature, positive.
    pub deviation: Vec<f32>,
    /// W, `[units, CLASSIFIER_FEATURES]`, row by row.
    pub hidden: Vec<f32>,
    /// b, `[units]`.
    pub hidden_bias: Vec<f32>,
    /// v, `[units]`.
    pub output: Vec<f32>,
    /// c.
    pub output_bias: f32,
}

impl ClassifierWeights {
    /// Checks sizes and numbers.
    ///
    /// # Errors
    /// [`InvalidNetwork`], which names the part.
    pub fn check(&self) -> Result<(), InvalidNetwork> {
        let units = self.output.len();
        let bias = [self.output_bias];
        let parts: [(&'static str, &[f32], usize); 6] = [
            ("mean", &self.mean, CLASSIFIER_FEATURES),
            ("deviation", &self.deviation, CLASSIFIER_FEATURES),
            ("hidden.weight", &self.hidden, units * CLASSIFIER_FEATURES),
            ("hidden.bias", &self.hidden_bias, units),
            ("output.weight", &self.output, units.max(1)),
            ("output.bias", &bias, 1),
        ];
        for (part, numbers, expected) in parts {
            let good = |number: f32| number.is_finite() && (part != "deviation" || number > 0.0);
            check_part(|| format!("`{part}`"), numbers, expected, good)?;
        }
        Ok(())
    }

    /// The probability that a token with these features is accepted.
    ///
    /// # Cost
    /// Units × features multiplications; nothing is allocated.
    pub fn probability(&self, features: &[f32; CLASSIFIER_FEATURES]) -> f32 {
        let mut inputs = [0.0f32; CLASSIFIER_FEATURES];
        for (i, input) in inputs.iter_mut().enumerate() {
            *input = (features[i] - self.mean[i]) / self.deviation[i];
        }
        let rows = self.hidden.chunks_exact(CLASSIFIER_FEATURES);
        let units = rows.zip(&self.hidden_bias).zip(&self.output);
        let sum: f32 = units
            .map(|((row, bias), out)| {
                let dot: f32 = row.iter().zip(&inputs).map(|(w, x)| w * x).sum();
                out * (dot + bias).max(0.0)
            })
            .sum();
        1.0 / (1.0 + (-(sum + self.output_bias)).exp())
    }
}

/// Ends a turn after a token whose acceptance the classifier finds less probable than a threshold,
/// and after a longest number of tokens.
///
/// Tokens without the drafter's distribution (of a statistical drafter) end a turn by the number
/// alone.
#[derive(Clone, Debug)]
pub struct Classifier {
    weights: Arc<ClassifierWeights>,
    threshold: f32,
    longest: usize,
}

impl Classifier {
    /// The rule with threshold τ and drafts of `longest` tokens at most.
    ///
    /// # Errors
    /// [`InvalidNetwork`].
    pub fn new(
        weights: Arc<ClassifierWeights>,
        threshold: f32,
        longest: usize,
    ) -> Result<Self, InvalidNetwork> {
        weights.check()?;
        check_threshold("a classifier", threshold)?;
        match longest {
            0 => Err(InvalidNetwork::NoTokens),
            longest => Ok(Self {
                weights,
                threshold,
                longest,
            }),
        }
    }
}

impl StopRule for Classifier {
    fn want(&self) -> Want {
        CLASSIFIER_WANT
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        if drafted.turn_position + 1 >= self.longest {
            return true;
        }
        let Some(entropy) = drafted.entropy else {
            return false;
        };
        let position = drafted.generated + drafted.turn_position;
        let features = classifier_features(drafted.top, entropy, position);
        self.weights.probability(&features) < self.threshold
    }
}
