//! SpecDec++'s head: a small network on the drafter's hidden state that says whether a drafted
//! token will be accepted (Huang et al., SpecDec++: Boosting Speculative Decoding via Adaptive
//! Candidate Lengths, §4).

use std::sync::Arc;

use cascade_core::Want;
use cascade_core::exp::exp_clamped;

use super::network::{InvalidNetwork, check_part, check_threshold};
use super::{DraftedToken, StopRule};

/// What a drafter's scores must have for its head.
pub const HEAD_WANT: Want = Want::ARGMAX.with_last_hidden();

/// One residual layer: x + silu(W·x + b).
#[derive(Clone, Debug, PartialEq)]
pub struct HeadLayer {
    /// W, `[size, size]`, row by row.
    pub weight: Vec<f32>,
    /// b, `[size]`.
    pub bias: Vec<f32>,
}

/// The weights of a head of depth D: D residual layers and a linear one, p = σ(v·x + c). The input
/// is the hidden state after the final norm that belongs to the token in question.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadWeights {
    /// D layers, first to last. Layers that share their weights are the same `Arc`.
    pub layers: Vec<Arc<HeadLayer>>,
    /// v; as long as hidden states are.
    pub output: Vec<f32>,
    /// c.
    pub output_bias: f32,
}

impl HeadWeights {
    /// Length of the hidden states that it reads.
    pub fn size(&self) -> usize {
        self.output.len()
    }

    /// Checks sizes and numbers.
    ///
    /// # Errors
    /// [`InvalidNetwork`], which names the part.
    pub fn check(&self) -> Result<(), InvalidNetwork> {
        let size = self.size();
        for (layer, own) in self.layers.iter().enumerate() {
            let square = size.saturating_mul(size);
            check(layer, "weight", &own.weight, square)?;
            check(layer, "bias", &own.bias, size)?;
        }
        let last = self.layers.len();
        check(last, "weight", &self.output, size.max(1))?;
        check(last, "bias", &[self.output_bias], 1)
    }

    /// The probability that the token of this hidden state is accepted; `None` if a hidden state of
    /// its drafter has another length.
    ///
    /// # Cost
    /// Depth × size² multiplications.
    pub fn probability(&self, hidden: &[f32]) -> Option<f32> {
        if hidden.len() != self.size() {
            return None;
        }
        let mut state = hidden.to_vec();
        let mut sums = vec![0.0; state.len()];
        for layer in &self.layers {
            let rows = layer.weight.chunks_exact(state.len()).zip(&layer.bias);
            for (sum, (row, bias)) in sums.iter_mut().zip(rows) {
                *sum = dot(row, &state) + bias;
            }
            // On its own, so that it is vectorised.
            for (x, &sum) in state.iter_mut().zip(&sums) {
                *x += sum / (1.0 + exp_clamped(-sum));
            }
        }
        let logit = dot(&self.output, &state) + self.output_bias;
        Some(1.0 / (1.0 + (-logit).exp()))
    }
}

/// Checks a part of a layer, from 0; the linear one is the last.
fn check(layer: usize, part: &str, numbers: &[f32], expected: usize) -> Result<(), InvalidNetwork> {
    let name = || format!("`{part}` of layer {layer}");
    check_part(name, numbers, expected, f32::is_finite)
}

/// The scalar product, in sixteen sums, which a processor adds side by side.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0f32; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = left
        .remainder()
        .iter()
        .zip(right.remainder())
        .map(|(a, b)| a * b)
        .sum();
    for (a, b) in left.zip(right) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

/// Ends a turn once the probability that a token of it is rejected exceeds a threshold:
/// 1 − Π p > h.
///
/// The estimate for a token needs the drafter's hidden state of that token, which the forward that
/// draws the next one computes. So after each token the rule knows of those before it; the state
/// that the first is drawn from belongs to a token of the text, which counts as accepted. Hence the
/// forward that changes its mind is not wasted: its token stays in the draft.
///
/// Tokens without hidden states (of a statistical drafter) count as accepted. A drafter whose
/// hidden states have another length than the head's ends each turn after the shortest number of
/// tokens.
#[derive(Clone, Debug)]
pub struct AcceptanceHead {
    weights: Arc<HeadWeights>,
    threshold: f32,
    shortest: usize,
    longest: usize,
    /// Π p of the turn in progress.
    survival: f32,
}

impl AcceptanceHead {
    /// Tokens of a turn at least and at most, and the threshold, that the paper found best.
    pub const SHORTEST: usize = 2;
    /// See [`SHORTEST`](Self::SHORTEST).
    pub const LONGEST: usize = 20;
    /// See [`SHORTEST`](Self::SHORTEST).
    pub const THRESHOLD: f32 = 0.7;

    /// The rule with threshold h and turns of `shortest` to `longest` tokens.
    ///
    /// # Errors
    /// [`InvalidNetwork`].
    pub fn new(
        weights: Arc<HeadWeights>,
        threshold: f32,
        shortest: usize,
        longest: usize,
    ) -> Result<Self, InvalidNetwork> {
        weights.check()?;
        check_threshold("a head", threshold)?;
        if 1 <= shortest && shortest <= longest {
            Ok(Self {
                weights,
                threshold,
                shortest,
                longest,
                survival: 1.0,
            })
        } else {
            Err(InvalidNetwork::Lengths { shortest, longest })
        }
    }
}

impl StopRule for AcceptanceHead {
    fn want(&self) -> Want {
        HEAD_WANT
    }

    fn stop(&mut self, drafted: &DraftedToken<'_>) -> bool {
        match (drafted.turn_position, drafted.hidden) {
            (0, _) => self.survival = 1.0,
            (_, None) => {}
            (_, Some(hidden)) => {
                self.survival *= self.weights.probability(hidden).unwrap_or(0.0);
            }
        }
        let tokens = drafted.turn_position + 1;
        let rejection = 1.0 - self.survival;
        // NaN, of weights that overflow, ends a turn too.
        let likely = rejection > self.threshold || rejection.is_nan();
        tokens >= self.longest || (tokens >= self.shortest && likely)
    }
}
