//! Epochs of a network of any kind: the order of examples, steps, early stop, checkpoints.

use std::collections::HashMap;
use std::path::Path;

use candle_core::Tensor;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use crate::train::checkpoint::{self, State, wrong};
use crate::train::error::ErrorKind;
use crate::train::optimiser::{Parameter, cosine};
use crate::train::{Error, Result};

/// What a network learns, and from what.
pub trait Network {
    /// What a batch holds.
    type Example;

    /// The examples to train on.
    fn examples(&self) -> &[Self::Example];

    /// The mean loss of a batch with these parameters, and over how many terms; `None` if the batch
    /// has none. `step` is the number of the step that learns from it, for what is drawn at random.
    ///
    /// # Errors
    /// Errors of the tensor library.
    fn loss(
        &self,
        parameters: &[Tensor],
        batch: &[&Self::Example],
        step: usize,
    ) -> Result<Option<(Tensor, usize)>>;

    /// The mean loss on the outputs to choose by.
    ///
    /// # Errors
    /// Errors of the tensor library.
    fn choice_loss(&self, parameters: &[Tensor]) -> Result<f64>;
}

/// How long and how fast to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Epochs at most.
    pub epochs: usize,
    /// Examples of a step.
    pub batch: usize,
    /// The greatest learning rate; it falls along a cosine.
    pub learning_rate: f64,
    /// Epochs without a lesser loss on the outputs to choose by after which training stops.
    pub patience: usize,
    /// Seed of the first weights, of noise and of the order of the examples.
    pub seed: u64,
    /// The share of the steps in which the learning rate rises.
    pub warm_up: f64,
    /// Weight decay of AdamW; without it the optimiser is Adam.
    pub decay: f64,
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

/// A training in progress.
pub struct Fit<N> {
    pub(crate) network: N,
    plan: Plan,
    parameters: Vec<Parameter>,
    best: Vec<Tensor>,
    state: State,
}

impl Plan {
    pub(crate) fn check(&self) -> Result<()> {
        check_counts(&[
            ("the number of epochs", self.epochs, 1, 100_000),
            ("the batch", self.batch, 1, 1 << 20),
            ("the patience", self.patience, 1, 100_000),
        ])?;
        check_rates(&[("the learning rate", self.learning_rate)])
    }
}

/// Checks settings that count something, each with its least and greatest value.
pub(crate) fn check_counts(counts: &[(&'static str, usize, usize, usize)]) -> Result<()> {
    let outside =
        |&&(_, value, least, most): &&(_, usize, usize, usize)| value < least || value > most;
    match counts.iter().find(outside) {
        Some(&(what, value, least, most)) => Err(Error::setting(
            what,
            value,
            &format!("give {least} to {most}"),
        )),
        None => Ok(()),
    }
}

/// Checks settings that are above 0.
pub(crate) fn check_rates(rates: &[(&'static str, f64)]) -> Result<()> {
    let wrong = |&&(_, value): &&(_, f64)| !(value.is_finite() && value > 0.0);
    match rates.iter().find(wrong) {
        Some(&(what, value)) => Err(Error::setting(what, value, "give a number above 0")),
        None => Ok(()),
    }
}

/// Refuses examples with nothing to tell apart. Labels are probabilities of acceptance.
pub(crate) fn check_classes(labels: impl Iterator<Item = f32> + Clone) -> Result<()> {
    let class = match (
        labels.clone().all(|p| p <= 0.0),
        labels.clone().all(|p| p >= 1.0),
    ) {
        (true, _) => "rejected",
        (_, true) => "accepted",
        _ => return Ok(()),
    };
    let message = format!(
        "all {} tokens to train on are {class}, so there is nothing to tell apart; record other \
         prompts, or use another drafter",
        labels.count()
    );
    Err(Error::new(ErrorKind::OneClass, message))
}

/// A digest in hexadecimal digits.
pub(crate) fn digits(hash: Sha256) -> String {
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl<N: Network> Fit<N> {
    /// A training with the first weights. `fingerprint` is of settings and examples.
    pub(crate) fn start(
        network: N,
        plan: Plan,
        weights: &[Tensor],
        fingerprint: String,
    ) -> Result<Self> {
        let parameters = weights
            .iter()
            .map(Parameter::new)
            .collect::<candle_core::Result<Vec<_>>>()?;
        Ok(Self {
            network,
            plan,
            best: copies(&parameters)?,
            parameters,
            state: State {
                fingerprint,
                ..State::default()
            },
        })
    }

    /// Goes on where a checkpoint was saved, or begins if there is none.
    ///
    /// # Errors
    /// A checkpoint of another training; a file that cannot be read.
    pub fn resumed(mut self, path: &Path) -> Result<Self> {
        let Some((state, mut tensors)) = checkpoint::load(path)? else {
            return Ok(self);
        };
        if state.fingerprint != self.state.fingerprint {
            let problem = "it was saved by a training with other examples or settings";
            return Err(wrong(path, problem));
        }
        for (i, parameter) in self.parameters.iter_mut().enumerate() {
            let shape = parameter.value.as_tensor().dims().to_vec();
            let mut take = |kind: &str| take(&mut tensors, path, &format!("{kind}.{i}"), &shape);
            parameter.value.set(&take("value")?)?;
            parameter.first = take("first")?;
            parameter.second = take("second")?;
            self.best[i] = take("best")?;
        }
        self.state = state;
        Ok(self)
    }

    /// Saves everything that a resumed training needs, as a whole.
    ///
    /// # Errors
    /// A file that cannot be written.
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
        checkpoint::save(path, &self.state, tensors)
    }

    /// Epochs that are done.
    pub fn epochs(&self) -> usize {
        self.state.losses.len()
    }

    /// The epoch whose weights are the best so far, from 1; 0 before the first.
    pub fn best_epoch(&self) -> usize {
        let best = self.history().into_iter().rev().find(|epoch| epoch.best);
        best.map_or(0, |epoch| epoch.epoch)
    }

    /// What all epochs gave, those before a resumption included.
    pub fn history(&self) -> Vec<Epoch> {
        let mut least = f64::INFINITY;
        let losses = self.state.losses.iter().enumerate();
        losses
            .map(|(i, bits)| {
                let [training_loss, choice_loss] = bits.map(f64::from_bits);
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

    /// The next epoch; `None` if there is none, or training has stopped early.
    ///
    /// # Errors
    /// A loss that is not finite.
    pub fn epoch(&mut self) -> Result<Option<Epoch>> {
        let done = self.epochs();
        let idle = done - self.best_epoch();
        if done == self.plan.epochs || (done > 0 && idle >= self.plan.patience) {
            return Ok(None);
        }
        let epoch = done + 1;
        let training_loss = self.learn(epoch)?;
        let choice_loss = self.network.choice_loss(&self.values())?;
        let losses = [training_loss, choice_loss];
        if let Some(&loss) = losses.iter().find(|loss| !loss.is_finite()) {
            let cure = "give a smaller learning rate";
            let message = format!("the loss of epoch {epoch} is {loss}; {cure}");
            return Err(Error::new(ErrorKind::Diverged, message));
        }
        self.state.losses.push(losses.map(f64::to_bits));
        let last = self.history().pop();
        if last.is_some_and(|epoch| epoch.best) {
            self.best = copies(&self.parameters)?;
        }
        Ok(last)
    }

    /// The parameters of the best epoch.
    pub(crate) fn best(&self) -> &[Tensor] {
        &self.best
    }

    /// One pass over the examples, in an order that depends on seed and epoch alone; the mean loss.
    fn learn(&mut self, epoch: usize) -> Result<f64> {
        let examples = self.network.examples();
        let mut order: Vec<usize> = (0..examples.len()).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(self.plan.seed);
        rng.set_stream(epoch as u64);
        order.shuffle(&mut rng);
        let per_epoch = order.len().div_ceil(self.plan.batch);
        let steps = per_epoch * self.plan.epochs;
        let (mut sum, mut terms) = (0.0, 0);
        for (i, batch) in order.chunks(self.plan.batch).enumerate() {
            let batch: Vec<&N::Example> = batch.iter().map(|&at| &examples[at]).collect();
            let step = (epoch - 1) * per_epoch + i + 1;
            let Some((loss, count)) = self.network.loss(&self.values(), &batch, step)? else {
                continue;
            };
            sum += f64::from(loss.to_scalar::<f32>()?) * count as f64;
            terms += count;
            let gradients = loss.backward()?;
            let rate = cosine(self.plan.learning_rate, step, steps, self.plan.warm_up);
            for parameter in &mut self.parameters {
                parameter.update(&gradients, step, rate, self.plan.decay)?;
            }
        }
        Ok(sum / terms.max(1) as f64)
    }

    fn values(&self) -> Vec<Tensor> {
        let values = self.parameters.iter();
        values
            .map(|parameter| parameter.value.as_tensor().clone())
            .collect()
    }
}

/// The mean loss of examples, a batch at a time.
pub(crate) fn mean_loss<E>(
    examples: &[E],
    batch: usize,
    loss: impl Fn(&[&E]) -> Result<Option<(Tensor, usize)>>,
) -> Result<f64> {
    let (mut sum, mut terms) = (0.0, 0);
    for batch in examples.chunks(batch) {
        let batch: Vec<&E> = batch.iter().collect();
        if let Some((loss, count)) = loss(&batch)? {
            sum += f64::from(loss.to_scalar::<f32>()?) * count as f64;
            terms += count;
        }
    }
    Ok(sum / terms.max(1) as f64)
}

fn take(
    tensors: &mut HashMap<String, Tensor>,
    path: &Path,
    name: &str,
    shape: &[usize],
) -> Result<Tensor> {
    let found = tensors.remove(name);
    found
        .filter(|tensor| tensor.dims() == shape)
        .ok_or_else(|| wrong(path, format!("it has no `{name}` of shape {shape:?}")))
}

/// Copies that later steps do not change.
fn copies(parameters: &[Parameter]) -> Result<Vec<Tensor>> {
    let values = parameters
        .iter()
        .map(|parameter| parameter.value.as_tensor());
    Ok(values
        .map(Tensor::copy)
        .collect::<candle_core::Result<_>>()?)
}
