//! The training of a head.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use cascade_engine::{HeadLayer, HeadWeights};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use super::{HeadExamples, HeadOutput};
use crate::train::fit::{
    Fit, Network, Plan, check_classes, check_counts, check_rates, digits, mean_loss,
};
use crate::train::{Quality, Result};

/// How to train a head; by default as the paper does.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadSettings {
    /// D: residual layers, each with its own weights.
    pub depth: usize,
    /// w_rej: weight of rejection in the loss; that of acceptance is 1.
    pub reject_weight: f64,
    /// How long and how fast; batches are of outputs.
    pub plan: Plan,
}

impl Default for HeadSettings {
    fn default() -> Self {
        Self {
            depth: 3,
            reject_weight: 6.0,
            plan: Plan {
                epochs: 3,
                batch: 32,
                learning_rate: 5e-5,
                patience: 3,
                seed: 0,
                warm_up: 0.0,
                decay: 0.0,
            },
        }
    }
}

/// A head that is being trained.
pub type HeadTraining<'a> = Fit<Head<'a>>;

/// What a head learns.
pub struct Head<'a> {
    examples: &'a HeadExamples,
    settings: HeadSettings,
}

impl<'a> HeadTraining<'a> {
    /// Begins a training.
    ///
    /// # Errors
    /// Examples of one class, with nothing to tell apart; an invalid setting.
    pub fn new(examples: &'a HeadExamples, settings: HeadSettings) -> Result<Self> {
        settings.check()?;
        let outputs = examples.split.training.iter();
        check_classes(outputs.flat_map(|output| output.acceptance.iter().copied()))?;
        let plan = settings.plan;
        let weights = first_weights(&settings, examples.size)?;
        let fingerprint = fingerprint(examples, &settings);
        let network = Head { examples, settings };
        Self::start(network, plan, &weights, fingerprint)
    }

    /// The weights of the best epoch.
    ///
    /// # Errors
    /// Errors of the tensor library.
    pub fn weights(&self) -> Result<HeadWeights> {
        read(self.best())
    }

    /// Loss, F1 and calibration of the best weights, on the held-out outputs.
    ///
    /// # Errors
    /// Errors of the tensor library.
    pub fn held_out(&self) -> Result<Quality> {
        let weights = self.weights()?;
        let outputs = self.network.examples.split.held_out.iter();
        let tokens = outputs.flat_map(|output| output.tokens().zip(&output.accepted));
        Ok(Quality::of_predictions(tokens.map(
            |((state, _), &accepted)| (weights.probability(state).unwrap_or(0.0), accepted),
        )))
    }
}

impl HeadSettings {
    fn check(&self) -> Result<()> {
        self.plan.check()?;
        check_counts(&[("the depth", self.depth, 0, 16)])?;
        check_rates(&[("the weight of rejected tokens", self.reject_weight)])
    }
}

impl Network for Head<'_> {
    type Example = HeadOutput;

    fn examples(&self) -> &[HeadOutput] {
        &self.examples.split.training
    }

    /// The weighted loss of the outputs' tokens: −P·ln p − w_rej·(1 − P)·ln(1 − p).
    fn loss(
        &self,
        parameters: &[Tensor],
        batch: &[&HeadOutput],
        _: usize,
    ) -> Result<Option<(Tensor, usize)>> {
        let size = self.examples.size;
        let hidden: Vec<f32> = batch
            .iter()
            .flat_map(|o| o.hidden.iter().copied())
            .collect();
        let acceptance: Vec<f32> = batch
            .iter()
            .flat_map(|o| o.acceptance.iter().copied())
            .collect();
        let count = acceptance.len();
        if count == 0 {
            return Ok(None);
        }
        let mut state = Tensor::from_vec(hidden, (count, size), &Device::Cpu)?;
        let acceptance = Tensor::from_vec(acceptance, count, &Device::Cpu)?;
        let (layers, output) = parameters.split_at(2 * self.settings.depth);
        for layer in layers.chunks_exact(2) {
            let sum = state.matmul(&layer[0].t()?)?.broadcast_add(&layer[1])?;
            state = (state + sum.silu()?)?;
        }
        let z = state
            .matmul(&output[0].t()?)?
            .broadcast_add(&output[1])?
            .squeeze(1)?;
        // −ln σ(z) and −ln(1 − σ(z)), without overflow.
        let tail = (z.abs()?.neg()?.exp()? + 1.0)?.log()?;
        let accept = (z.neg()?.relu()? + &tail)?;
        let reject = (z.relu()? + tail)?;
        let rejection = (1.0 - &acceptance)?;
        let weighted = (rejection * reject)? * self.settings.reject_weight;
        let loss = ((acceptance * accept)? + weighted?)?.mean_all()?;
        Ok(Some((loss, count)))
    }

    fn choice_loss(&self, parameters: &[Tensor]) -> Result<f64> {
        mean_loss(
            &self.examples.split.choice,
            self.settings.plan.batch,
            |batch| self.loss(parameters, batch, 0),
        )
    }
}

/// Weights as the engine reads them.
fn read(parts: &[Tensor]) -> Result<HeadWeights> {
    let numbers = |i: usize| parts[i].flatten_all()?.to_vec1::<f32>();
    let depth = (parts.len() - 2) / 2;
    let mut layers = Vec::with_capacity(depth);
    for layer in 0..depth {
        layers.push(Arc::new(HeadLayer {
            weight: numbers(2 * layer)?,
            bias: numbers(2 * layer + 1)?,
        }));
    }
    Ok(HeadWeights {
        layers,
        output: numbers(2 * depth)?,
        output_bias: numbers(2 * depth + 1)?[0],
    })
}

/// Residual layers that begin as the identity, and a linear one that is uniform in ±1/√size.
fn first_weights(settings: &HeadSettings, size: usize) -> Result<Vec<Tensor>> {
    let mut rng = ChaCha8Rng::seed_from_u64(settings.plan.seed);
    let bound = 1.0 / (size as f32).sqrt();
    let zeros = |n: usize| vec![0.0f32; n];
    let mut parts = Vec::new();
    for _ in 0..settings.depth {
        parts.push(Tensor::from_vec(
            zeros(size * size),
            (size, size),
            &Device::Cpu,
        )?);
        parts.push(Tensor::from_vec(zeros(size), size, &Device::Cpu)?);
    }
    let output: Vec<f32> = (0..size).map(|_| rng.random_range(-bound..bound)).collect();
    parts.push(Tensor::from_vec(output, (1, size), &Device::Cpu)?);
    parts.push(Tensor::from_vec(zeros(1), 1, &Device::Cpu)?);
    Ok(parts)
}

fn fingerprint(examples: &HeadExamples, settings: &HeadSettings) -> String {
    let (
        HeadSettings {
            depth,
            reject_weight,
            plan,
        },
        mut hash,
    ) = (settings, Sha256::new());
    hash.update(format!(
        "head HeadSettings {{ depth: {depth}, reject_weight: {reject_weight:?}, epochs: {}, batch: {}, learning_rate: {:?}, \
         patience: {}, seed: {} }} {}",
        plan.epochs, plan.batch, plan.learning_rate, plan.patience, plan.seed, examples.size
    ));
    for part in [&examples.split.training, &examples.split.choice] {
        hash.update((part.len() as u64).to_le_bytes());
        for output in part {
            hash.update((output.acceptance.len() as u64).to_le_bytes());
            let numbers = output.acceptance.iter().chain(&output.hidden);
            numbers.for_each(|x| hash.update(x.to_le_bytes()));
        }
    }
    digits(hash)
}
