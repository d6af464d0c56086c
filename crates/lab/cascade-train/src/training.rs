//! Epochs.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{Device, Tensor};
use cascade_engine::{ClassifierWeights, CLASSIFIER_FEATURES};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::checkpoint::{self, State};
use crate::optimiser::{cosine, Parameter};
use crate::quality::{all, Quality};
use crate::{Error, Example, Result, Split};

/// How to train.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Units of the hidden layer.
    pub units: usize,
    /// Epochs at most.
    pub epochs: usize,
    /// Examples of a step.
    pub batch: usize,
    /// Learning rate of the first step; it falls along a cosine.
    pub learning_rate: f64,
    /// Weight of rejected tokens in the loss; that of accepted ones is 1.
    pub reject_weight: f64,
    /// Epochs without a lesser loss on the outputs to choose by after which training stops.
    pub patience: usize,
    /// Of the first weights and of the order of the examples.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            units: 32,
            epochs: 40,
            batch: 256,
            learning_rate: 1e-3,
            reject_weight: 1.0,
            patience: 8,
            seed: 0,
        }
    }
}

/// What an epoch gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// Its number, from 1.
    pub epoch: usize,
    /// Mean weighted loss over the training examples, while they were learned.
    pub training_loss: f64,
    /// Mean loss over the outputs to choose by, after it.
    pub choice_loss: f64,
    /// Whether that is the least so far.
    pub best: bool,
}

/// The parts of the network, in this order everywhere.
const PARTS: [&str; 4] = [
    "hidden.weight",
    "hidden.bias",
    "output.weight",
    "output.bias",
];

/// A training in progress.
pub struct Training<'a> {
    split: &'a Split,
    settings: Settings,
    examples: Vec<&'a Example>,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    parameters: Vec<Parameter>,
    best: Vec<Tensor>,
    state: State,
}

impl<'a> Training<'a> {
    /// Begins a training.
    ///
    /// # Errors
    /// [`Error::OneClass`] if there is nothing to tell apart; [`Error::Setting`].
    pub fn new(split: &'a Split, settings: Settings) -> Result<Self> {
        check(&settings)?;
        let examples: Vec<&Example> = all(&split.training).collect();
        let accepted = examples.iter().filter(|example| example.accepted).count();
        let class = match accepted {
            0 => Some("rejected"),
            some if some == examples.len() => Some("accepted"),
            _ => None,
        };
        if let Some(class) = class {
            let examples = examples.len();
            return Err(Error::OneClass { examples, class });
        }
        let (mean, deviation) = moments(&examples);
        let parameters = first_weights(&settings)?;
        Ok(Self {
            best: copies(&parameters)?,
            parameters,
            state: State {
                fingerprint: fingerprint(split, &settings),
                best_loss: f64::INFINITY.to_bits(),
                ..State::default()
            },
            split,
            settings,
            examples,
            mean,
            deviation,
        })
    }

    /// Goes on where a checkpoint was saved, or begins if there is none.
    ///
    /// # Errors
    /// As [`new`](Self::new); [`Error::Checkpoint`] if it is of another training.
    pub fn resume(split: &'a Split, settings: Settings, path: &Path) -> Result<Self> {
        let mut training = Self::new(split, settings)?;
        let Some((state, mut tensors)) = checkpoint::load(path)? else {
            return Ok(training);
        };
        if state.fingerprint != training.state.fingerprint {
            return Err(Error::Checkpoint {
                file: path.to_owned(),
                problem: "it was saved by a training with other examples or settings".to_owned(),
            });
        }
        for (i, part) in PARTS.into_iter().enumerate() {
            let parameter = &mut training.parameters[i];
            let shape = parameter.value.as_tensor().dims().to_vec();
            let mut take = |kind: &str| take(&mut tensors, path, &format!("{kind}.{part}"), &shape);
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
        for (i, part) in PARTS.into_iter().enumerate() {
            let parameter = &self.parameters[i];
            let kinds = [
                ("value", parameter.value.as_tensor()),
                ("first", &parameter.first),
                ("second", &parameter.second),
                ("best", &self.best[i]),
            ];
            tensors.extend(kinds.map(|(kind, t)| (format!("{kind}.{part}"), t.clone())));
        }
        checkpoint::save(path, &self.state, &tensors)
    }

    /// Epochs that are done.
    pub fn epochs(&self) -> usize {
        self.state.epochs
    }

    /// The epoch whose weights are the best so far, from 1; 0 before the first.
    pub fn best_epoch(&self) -> usize {
        self.state.best_epoch
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
        if !training_loss.is_finite() {
            return Err(Error::Diverged {
                epoch,
                loss: training_loss,
            });
        }
        let now = self.read(&values(&self.parameters))?;
        let choice_loss = Quality::of(&now, &self.split.choice).loss;
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

    /// What all epochs gave, those before a resumption included.
    pub fn history(&self) -> Vec<Epoch> {
        history(&self.state)
    }

    /// The weights of the best epoch.
    ///
    /// # Errors
    /// None that is known of.
    pub fn weights(&self) -> Result<ClassifierWeights> {
        self.read(&self.best)
    }

    /// One pass over the examples, in an order that depends on seed and epoch alone; the mean loss.
    fn learn(&mut self, epoch: usize) -> Result<f64> {
        let mut order: Vec<usize> = (0..self.examples.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(self.settings.seed);
        rng.set_stream(epoch as u64);
        order.shuffle(&mut rng);
        let per_epoch = order.len().div_ceil(self.settings.batch);
        let steps = per_epoch * self.settings.epochs;
        let mut sum = 0.0;
        for (i, batch) in order.chunks(self.settings.batch).enumerate() {
            let step = (epoch - 1) * per_epoch + i + 1;
            let rate = cosine(self.settings.learning_rate, step, steps);
            let loss = self.loss(batch)?;
            sum += f64::from(loss.to_scalar::<f32>()?) * batch.len() as f64;
            let gradients = loss.backward()?;
            for parameter in &mut self.parameters {
                parameter.update(&gradients, step, rate)?;
            }
        }
        Ok(sum / order.len() as f64)
    }

    /// The mean weighted cross-entropy of some examples.
    fn loss(&self, batch: &[usize]) -> Result<Tensor> {
        let mut inputs = Vec::with_capacity(batch.len() * CLASSIFIER_FEATURES);
        let mut labels = Vec::with_capacity(batch.len());
        for &i in batch {
            let example = self.examples[i];
            let scaled = example
                .features
                .iter()
                .zip(self.mean.iter().zip(&self.deviation));
            inputs.extend(scaled.map(|(x, (mean, deviation))| (x - mean) / deviation));
            labels.push(f32::from(u8::from(example.accepted)));
        }
        let weight = self.settings.reject_weight as f32;
        let weights = labels.iter().map(|y| y + (1.0 - y) * weight);
        let weights = Tensor::from_iter(weights, &Device::Cpu)?;
        let inputs = Tensor::from_vec(inputs, (batch.len(), CLASSIFIER_FEATURES), &Device::Cpu)?;
        let labels = Tensor::from_vec(labels, batch.len(), &Device::Cpu)?;
        let part = |i: usize| self.parameters[i].value.as_tensor();
        let hidden = inputs
            .matmul(&part(0).t()?)?
            .broadcast_add(part(1))?
            .relu()?;
        let z = hidden
            .matmul(&part(2).t()?)?
            .broadcast_add(part(3))?
            .squeeze(1)?;
        // −y·ln σ(z) − (1 − y)·ln(1 − σ(z)), without overflow.
        let tail = (z.abs()?.neg()?.exp()? + 1.0)?.log()?;
        let entropy = ((z.relu()? - (&z * &labels)?)? + tail)?;
        Ok((entropy * weights)?.mean_all()?)
    }

    fn read(&self, parts: &[Tensor]) -> Result<ClassifierWeights> {
        let numbers = |i: usize| parts[i].flatten_all()?.to_vec1::<f32>();
        let output_bias = numbers(3)?.first().copied().unwrap_or_default();
        Ok(ClassifierWeights {
            mean: self.mean.clone(),
            deviation: self.deviation.clone(),
            hidden: numbers(0)?,
            hidden_bias: numbers(1)?,
            output: numbers(2)?,
            output_bias,
        })
    }
}

/// The epochs of a state.
pub(crate) fn history(state: &State) -> Vec<Epoch> {
    let mut least = f64::INFINITY;
    let losses = state.losses.chunks_exact(2).enumerate();
    losses
        .map(|(i, pair)| {
            let (training_loss, choice_loss) = (f64::from_bits(pair[0]), f64::from_bits(pair[1]));
            let best = choice_loss < least;
            least = least.min(choice_loss);
            Epoch {
                epoch: i + 1,
                training_loss,
                choice_loss,
                best,
            }
        })
        .collect()
}

pub(crate) fn take(
    tensors: &mut HashMap<String, Tensor>,
    path: &Path,
    name: &str,
    shape: &[usize],
) -> Result<Tensor> {
    let found = tensors.remove(name);
    found
        .filter(|tensor| tensor.dims() == shape)
        .ok_or_else(|| Error::Checkpoint {
            file: path.to_owned(),
            problem: format!("it has no `{name}` of shape {shape:?}"),
        })
}

fn check(settings: &Settings) -> Result<()> {
    let counts = [
        ("the number of units", settings.units, 4096),
        ("the number of epochs", settings.epochs, 100_000),
        ("the batch", settings.batch, 1 << 20),
        ("the patience", settings.patience, 100_000),
    ];
    for (what, value, most) in counts {
        if value == 0 || value > most {
            return Err(Error::Setting {
                what,
                value: value.to_string(),
                cure: "give 1 or more, and no more than a network of this size can use",
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

/// Mean and standard deviation of each feature; 1 where it is always the same.
fn moments(examples: &[&Example]) -> (Vec<f32>, Vec<f32>) {
    let n = examples.len() as f64;
    let column = |i: usize| examples.iter().map(move |e| f64::from(e.features[i]));
    let features = 0..CLASSIFIER_FEATURES;
    let of = |i: usize| {
        let mean = column(i).sum::<f64>() / n;
        let variance = column(i).map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        let deviation = variance.sqrt() as f32;
        (mean as f32, if deviation > 1e-6 { deviation } else { 1.0 })
    };
    features.map(of).unzip()
}

/// Uniform in ±1/√inputs; the biases 0.
fn first_weights(settings: &Settings) -> Result<Vec<Parameter>> {
    let mut rng = ChaCha8Rng::seed_from_u64(settings.seed);
    let units = settings.units;
    let mut uniform = |rows: usize, columns: usize| {
        let bound = 1.0 / (columns as f32).sqrt();
        let numbers = (0..rows * columns).map(|_| rng.random_range(-bound..bound));
        Tensor::from_vec(numbers.collect(), (rows, columns), &Device::Cpu)
    };
    let zeros = |n: usize| Tensor::from_vec(vec![0.0f32; n], n, &Device::Cpu);
    let parts = [
        uniform(units, CLASSIFIER_FEATURES)?,
        zeros(units)?,
        uniform(1, units)?,
        zeros(1)?,
    ];
    let parameters = parts.iter().map(Parameter::new);
    Ok(parameters.collect::<candle_core::Result<_>>()?)
}

fn values(parameters: &[Parameter]) -> Vec<Tensor> {
    let values = parameters
        .iter()
        .map(|parameter| parameter.value.as_tensor());
    values.cloned().collect()
}

/// Copies that later steps do not change.
pub(crate) fn copies(parameters: &[Parameter]) -> Result<Vec<Tensor>> {
    let values = parameters
        .iter()
        .map(|parameter| parameter.value.as_tensor());
    Ok(values
        .map(Tensor::copy)
        .collect::<candle_core::Result<_>>()?)
}

fn fingerprint(split: &Split, settings: &Settings) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{settings:?}"));
    for part in [&split.training, &split.choice] {
        hash.update((part.len() as u64).to_le_bytes());
        for output in part {
            hash.update((output.0.len() as u64).to_le_bytes());
            for example in &output.0 {
                hash.update([u8::from(example.accepted)]);
                example
                    .features
                    .iter()
                    .for_each(|x| hash.update(x.to_le_bytes()));
            }
        }
    }
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
