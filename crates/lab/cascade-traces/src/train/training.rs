//! The training of a classifier.

use candle_core::{Device, Tensor};
use cascade_engine::{CLASSIFIER_FEATURES, ClassifierWeights};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};

use crate::train::fit::{Fit, Network, Plan, check_classes, check_counts, check_rates, digits};
use crate::train::quality::{Quality, all};
use crate::train::{Example, Result, Split};

/// How to train.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Units of the hidden layer.
    pub units: usize,
    /// Weight of rejected tokens in the loss; that of accepted ones is 1.
    pub reject_weight: f64,
    /// How long and how fast.
    pub plan: Plan,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            units: 32,
            reject_weight: 1.0,
            plan: Plan {
                epochs: 40,
                batch: 256,
                learning_rate: 1e-3,
                patience: 8,
                seed: 0,
                warm_up: 0.0,
                decay: 0.0,
            },
        }
    }
}

/// A classifier that is being trained.
pub type Training<'a> = Fit<Classifier<'a>>;

/// What a classifier learns.
pub struct Classifier<'a> {
    split: &'a Split,
    examples: Vec<&'a Example>,
    mean: Vec<f32>,
    deviation: Vec<f32>,
    reject_weight: f32,
}

impl<'a> Training<'a> {
    /// Begins a training.
    ///
    /// # Errors
    /// Examples of one class, with nothing to tell apart; an invalid setting.
    pub fn new(split: &'a Split, settings: Settings) -> Result<Self> {
        settings.check()?;
        let examples: Vec<&Example> = all(&split.training).collect();
        check_classes(examples.iter().map(|example| example.label()))?;
        let (mean, deviation) = moments(&examples);
        let network = Classifier {
            split,
            examples,
            mean,
            deviation,
            reject_weight: settings.reject_weight as f32,
        };
        let weights = first_weights(&settings)?;
        let fingerprint = fingerprint(split, &settings);
        Self::start(network, settings.plan, &weights, fingerprint)
    }

    /// The weights of the best epoch.
    ///
    /// # Errors
    /// Errors of the tensor library.
    pub fn weights(&self) -> Result<ClassifierWeights> {
        self.network.read(self.best())
    }
}

impl Settings {
    fn check(&self) -> Result<()> {
        self.plan.check()?;
        check_counts(&[("the number of units", self.units, 1, 4096)])?;
        check_rates(&[("the weight of rejected tokens", self.reject_weight)])
    }
}

impl<'a> Network for Classifier<'a> {
    type Example = &'a Example;

    fn examples(&self) -> &[&'a Example] {
        &self.examples
    }

    /// The weighted cross-entropy.
    fn loss(
        &self,
        parameters: &[Tensor],
        batch: &[&&'a Example],
        _: usize,
    ) -> Result<Option<(Tensor, usize)>> {
        let mut inputs = Vec::with_capacity(batch.len() * CLASSIFIER_FEATURES);
        let mut labels = Vec::with_capacity(batch.len());
        for example in batch {
            let scaled = example
                .features
                .iter()
                .zip(self.mean.iter().zip(&self.deviation));
            inputs.extend(scaled.map(|(x, (mean, deviation))| (x - mean) / deviation));
            labels.push(example.label());
        }
        let weights = labels.iter().map(|y| y + (1.0 - y) * self.reject_weight);
        let weights = Tensor::from_iter(weights, &Device::Cpu)?;
        let inputs = Tensor::from_vec(inputs, (batch.len(), CLASSIFIER_FEATURES), &Device::Cpu)?;
        let labels = Tensor::from_vec(labels, batch.len(), &Device::Cpu)?;
        let hidden = inputs
            .matmul(&parameters[0].t()?)?
            .broadcast_add(&parameters[1])?
            .relu()?;
        let z = hidden
            .matmul(&parameters[2].t()?)?
            .broadcast_add(&parameters[3])?
            .squeeze(1)?;
        // −y·ln σ(z) − (1 − y)·ln(1 − σ(z)), without overflow.
        let tail = (z.abs()?.neg()?.exp()? + 1.0)?.log()?;
        let entropy = ((z.relu()? - (&z * &labels)?)? + tail)?;
        let loss = (entropy * weights)?.mean_all()?;
        Ok(Some((loss, batch.len())))
    }

    fn choice_loss(&self, parameters: &[Tensor]) -> Result<f64> {
        let now = self.read(parameters)?;
        Ok(Quality::of(&now, &self.split.choice).loss)
    }
}

impl Classifier<'_> {
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
fn first_weights(settings: &Settings) -> Result<[Tensor; 4]> {
    let mut rng = ChaCha8Rng::seed_from_u64(settings.plan.seed);
    let units = settings.units;
    let mut uniform = |rows: usize, columns: usize| {
        let bound = 1.0 / (columns as f32).sqrt();
        let numbers = (0..rows * columns).map(|_| rng.random_range(-bound..bound));
        Tensor::from_vec(numbers.collect(), (rows, columns), &Device::Cpu)
    };
    let zeros = |n: usize| Tensor::from_vec(vec![0.0f32; n], n, &Device::Cpu);
    Ok([
        uniform(units, CLASSIFIER_FEATURES)?,
        zeros(units)?,
        uniform(1, units)?,
        zeros(1)?,
    ])
}

fn fingerprint(split: &Split, settings: &Settings) -> String {
    let (
        Settings {
            units,
            reject_weight,
            plan,
        },
        mut hash,
    ) = (settings, Sha256::new());
    hash.update(format!(
        "Settings {{ units: {units}, epochs: {}, batch: {}, learning_rate: {:?}, reject_weight: {reject_weight:?}, \
         patience: {}, seed: {} }}",
        plan.epochs, plan.batch, plan.learning_rate, plan.patience, plan.seed
    ));
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
    digits(hash)
}
