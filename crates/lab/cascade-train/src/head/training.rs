//! Epochs of a head.

use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use cascade_engine::{HeadLayer, HeadWeights};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{HeadExamples, HeadOutput};
use crate::checkpoint::{self, State};
use crate::optimiser::{cosine, Parameter};
use crate::training::{copies, history, take};
use crate::{Epoch, Error, Quality, Result};

/// How to train a head; by default as the paper does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeadSettings {
    /// D: residual layers, each with its own weights.
    pub depth: usize,
    /// w_rej: weight of rejection in the loss; that of acceptance is 1.
    pub reject_weight: f64,
    /// Epochs at most.
    pub epochs: usize,
    /// Outputs of a step.
    pub batch: usize,
    /// Learning rate of the first step; it falls along a cosine.
    pub learning_rate: f64,
    /// Epochs without a lesser loss on the outputs to choose by after which training stops.
    pub patience: usize,
    /// Of the first weights and of the order of the outputs.
    pub seed: u64,
}

impl Default for HeadSettings {
    fn default() -> Self {
        Self {
            depth: 3,
            reject_weight: 6.0,
            epochs: 3,
            batch: 32,
            learning_rate: 5e-5,
            patience: 3,
            seed: 0,
        }
    }
}

/// A training of a head in progress.
pub struct HeadTraining<'a> {
    examples: &'a HeadExamples,
    settings: HeadSettings,
    parameters: Vec<Parameter>,
    best: Vec<Tensor>,
    state: State,
}

impl<'a> HeadTraining<'a> {
    /// Begins a training.
    ///
    /// # Errors
    /// [`Error::OneClass`] if there is nothing to tell apart; [`Error::Setting`].
    pub fn new(examples: &'a HeadExamples, settings: HeadSettings) -> Result<Self> {
        check(&settings)?;
        check_classes(&examples.split.training)?;
        let parameters = first_weights(&settings, examples.size)?;
        Ok(Self {
            best: copies(&parameters)?,
            parameters,
            state: State {
                fingerprint: fingerprint(examples, &settings),
                best_loss: f64::INFINITY.to_bits(),
                ..State::default()
            },
            examples,
            settings,
        })
    }

    /// Goes on where a checkpoint was saved, or begins if there is none.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Checkpoint`] if it is of another training.
    pub fn resume(examples: &'a HeadExamples, settings: HeadSettings, path: &Path) -> Result<Self> {
        let mut training = Self::new(examples, settings)?;
        let Some((state, mut tensors)) = checkpoint::load(path)? else {
            return Ok(training);
        };
        if state.fingerprint != training.state.fingerprint {
            return Err(Error::Checkpoint {
                file: path.to_owned(),
                problem: "it was saved by a training with other examples or settings".to_owned(),
            });
        }
        for (i, parameter) in training.parameters.iter_mut().enumerate() {
            let shape = parameter.value.as_tensor().dims().to_vec();
            let mut take = |kind: &str| take(&mut tensors, path, &format!("{kind}.{i}"), &shape);
            parameter.value.set(&take("value")?)?;
            parameter.first = take("first")?;
            parameter.second = take("second")?;
            training.best[i] = take("best")?;
        }
        training.state = state;
        Ok(training)
    }

    /// Saves everything that [`resume`](Self::resume) needs, as a whole.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut tensors = Vec::new();
        for (i, parameter) in self.parameters.iter().enumerate() {
            let kinds = [
                ("value", parameter.value.as_tensor()),
                ("first", &parameter.first),
                ("second", &parameter.second),
                ("best", &self.best[i]),
            ];
            tensors.extend(kinds.map(|(kind, t)| (format!("{kind}.{i}"), t.clone())));
        }
        checkpoint::save(path, &self.state, &tensors)
    }

    /// The epoch whose weights are the best so far, from 1; 0 before the first.
    pub fn best_epoch(&self) -> usize {
        self.state.best_epoch
    }

    /// What all epochs gave, those before a resumption included.
    pub fn history(&self) -> Vec<Epoch> {
        history(&self.state)
    }

    /// The next epoch; `None` if there is none, or training has stopped early.
    ///
    /// # Errors
    /// [`Error::Diverged`].
    pub fn epoch(&mut self) -> Result<Option<Epoch>> {
        let done = self.state.epochs;
        let idle = done - self.state.best_epoch.min(done);
        if done == self.settings.epochs || (done > 0 && idle >= self.settings.patience) {
            return Ok(None);
        }
        let epoch = done + 1;
        let training_loss = self.learn(epoch)?;
        let choice_loss = self.loss_on_choice()?;
        for loss in [training_loss, choice_loss] {
            if !loss.is_finite() {
                return Err(Error::Diverged { epoch, loss });
            }
        }
        let best = choice_loss < f64::from_bits(self.state.best_loss);
        if best {
            self.best = copies(&self.parameters)?;
            self.state.best_loss = choice_loss.to_bits();
            self.state.best_epoch = epoch;
        }
        self.state.epochs = epoch;
        self.state.losses.push(training_loss.to_bits());
        self.state.losses.push(choice_loss.to_bits());
        Ok(Some(Epoch {
            epoch,
            training_loss,
            choice_loss,
            best,
        }))
    }

    /// The weights of the best epoch.
    ///
    /// # Errors
    /// None that is known of.
    pub fn weights(&self) -> Result<HeadWeights> {
        read(&self.best)
    }

    /// Loss, F1 and calibration of the best weights, on the held-out outputs.
    ///
    /// # Errors
    /// None that is known of.
    pub fn held_out(&self) -> Result<Quality> {
        let weights = self.weights()?;
        let outputs = self.examples.split.held_out.iter();
        let tokens = outputs.flat_map(|output| output.tokens().zip(&output.accepted));
        Ok(Quality::of_predictions(tokens.map(
            |((state, _), &accepted)| (weights.probability(state).unwrap_or(0.0), accepted),
        )))
    }

    /// One pass over the outputs, in an order that depends on seed and epoch alone; the mean loss
    /// of a token.
    fn learn(&mut self, epoch: usize) -> Result<f64> {
        let outputs = &self.examples.split.training;
        let mut order: Vec<usize> = (0..outputs.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(self.settings.seed);
        rng.set_stream(epoch as u64);
        order.shuffle(&mut rng);
        let per_epoch = order.len().div_ceil(self.settings.batch);
        let steps = per_epoch * self.settings.epochs;
        let (mut sum, mut tokens) = (0.0, 0);
        for (i, batch) in order.chunks(self.settings.batch).enumerate() {
            let batch: Vec<&HeadOutput> = batch.iter().map(|&at| &outputs[at]).collect();
            let count: usize = batch.iter().map(|output| output.acceptance.len()).sum();
            if count == 0 {
                continue;
            }
            let step = (epoch - 1) * per_epoch + i + 1;
            let rate = cosine(self.settings.learning_rate, step, steps);
            let loss = self.loss(&batch)?;
            sum += f64::from(loss.to_scalar::<f32>()?) * count as f64;
            tokens += count;
            let gradients = loss.backward()?;
            for parameter in &mut self.parameters {
                parameter.update(&gradients, step, rate)?;
            }
        }
        Ok(sum / tokens.max(1) as f64)
    }

    /// The mean weighted loss of some outputs' tokens: −P·ln p − w_rej·(1 − P)·ln(1 − p).
    fn loss(&self, batch: &[&HeadOutput]) -> Result<Tensor> {
        let size = self.examples.size;
        let hidden: Vec<f32> = batch
            .iter()
            .flat_map(|o| o.hidden.iter().copied())
            .collect();
        let acceptance = batch.iter().flat_map(|o| o.acceptance.iter().copied());
        let acceptance: Vec<f32> = acceptance.collect();
        let count = acceptance.len();
        let mut state = Tensor::from_vec(hidden, (count, size), &Device::Cpu)?;
        let acceptance = Tensor::from_vec(acceptance, count, &Device::Cpu)?;
        let (layers, output) = self.parameters.split_at(2 * self.settings.depth);
        for layer in layers.chunks_exact(2) {
            let sum = state
                .matmul(&layer[0].value.as_tensor().t()?)?
                .broadcast_add(layer[1].value.as_tensor())?;
            state = (state + sum.silu()?)?;
        }
        let z = state
            .matmul(&output[0].value.as_tensor().t()?)?
            .broadcast_add(output[1].value.as_tensor())?
            .squeeze(1)?;
        // −ln σ(z) and −ln(1 − σ(z)), without overflow.
        let tail = (z.abs()?.neg()?.exp()? + 1.0)?.log()?;
        let accept = (z.neg()?.relu()? + &tail)?;
        let reject = (z.relu()? + tail)?;
        let rejection = (1.0 - &acceptance)?;
        let weighted = (rejection * reject)? * self.settings.reject_weight;
        Ok(((acceptance * accept)? + weighted?)?.mean_all()?)
    }

    /// The same loss on the outputs to choose by, with the weights as they are.
    fn loss_on_choice(&self) -> Result<f64> {
        let outputs: Vec<&HeadOutput> = self.examples.split.choice.iter().collect();
        let (mut sum, mut tokens) = (0.0, 0);
        for batch in outputs.chunks(self.settings.batch) {
            let count: usize = batch.iter().map(|output| output.acceptance.len()).sum();
            if count > 0 {
                sum += f64::from(self.loss(batch)?.to_scalar::<f32>()?) * count as f64;
                tokens += count;
            }
        }
        Ok(sum / tokens.max(1) as f64)
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
fn first_weights(settings: &HeadSettings, size: usize) -> Result<Vec<Parameter>> {
    let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
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
    let parameters = parts.iter().map(Parameter::new);
    Ok(parameters.collect::<candle_core::Result<_>>()?)
}

fn check(settings: &HeadSettings) -> Result<()> {
    let counts = [
        ("the number of epochs", settings.epochs, 1, 100_000),
        ("the batch", settings.batch, 1, 1 << 20),
        ("the patience", settings.patience, 1, 100_000),
        ("the depth", settings.depth, 0, 16),
    ];
    for (what, value, least, most) in counts {
        if value < least || value > most {
            return Err(Error::Setting {
                what,
                value: value.to_string(),
                cure: "give a depth of 0 to 16, and 1 or more of everything else",
            });
        }
    }
    let rates = [
        ("the learning rate", settings.learning_rate),
        ("the weight of rejected tokens", settings.reject_weight),
    ];
    for (what, value) in rates {
        if !(value.is_finite() && value > 0.0) {
            return Err(Error::Setting {
                what,
                value: value.to_string(),
                cure: "give a number above 0",
            });
        }
    }
    Ok(())
}

fn check_classes(outputs: &[HeadOutput]) -> Result<()> {
    let all = || outputs.iter().flat_map(|output| &output.acceptance);
    let examples = all().count();
    let class = match (all().all(|&p| p <= 0.0), all().all(|&p| p >= 1.0)) {
        (true, _) => "rejected",
        (_, true) => "accepted",
        _ => return Ok(()),
    };
    Err(Error::OneClass { examples, class })
}

fn fingerprint(examples: &HeadExamples, settings: &HeadSettings) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("head {settings:?} {}", examples.size));
    for part in [&examples.split.training, &examples.split.choice] {
        hash.update((part.len() as u64).to_le_bytes());
        for output in part {
            hash.update((output.acceptance.len() as u64).to_le_bytes());
            let numbers = output.acceptance.iter().chain(&output.hidden);
            numbers.for_each(|x| hash.update(x.to_le_bytes()));
        }
    }
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
