//! Files of classifiers, which decide when a drafter stops.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cascade_engine::{Classifier, ClassifierWeights, InvalidNetwork};
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::tensors::Tensors;

/// The largest file that is read.
const LARGEST: u64 = 64 << 20;

/// The key of the settings in the file's metadata.
const SETTINGS: &str = "cascade-classifier";

/// A trained classifier as a file: safetensors, with its settings as JSON in the metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassifierFile {
    /// The network.
    pub weights: ClassifierWeights,
    /// What it was trained for.
    pub settings: ClassifierSettings,
}

/// The settings of a trained classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassifierSettings {
    /// 1.
    pub version: u64,
    /// The drafter whose distributions it has learned.
    pub drafter: String,
    /// A drafter stops where a token is accepted with less than this probability.
    pub threshold: f32,
    /// Tokens of a draft at most.
    pub longest: usize,
}

impl ClassifierSettings {
    /// Settings in the present version.
    pub fn new(drafter: impl Into<String>, threshold: f32, longest: usize) -> Self {
        Self {
            version: 1,
            drafter: drafter.into(),
            threshold,
            longest,
        }
    }
}

/// Why a classifier cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClassifierError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is no classifier.
    #[error("{}: {problem}; `cascade-lab train classifier` makes such files", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// It cannot be written.
    #[error("the classifier cannot be written: {0}")]
    Write(String),
    /// Its numbers are not those of a classifier.
    #[error(transparent)]
    Invalid(#[from] InvalidNetwork),
}

impl ClassifierFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or is not of this form.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ClassifierError> {
        let file = path.as_ref();
        let bytes =
            cascade_core::fs::read(file, LARGEST).map_err(|source| ClassifierError::Read {
                file: file.to_owned(),
                source,
            })?;
        let format = |problem: String| ClassifierError::Format {
            file: file.to_owned(),
            problem,
        };
        let read = Self::from_bytes(&bytes).map_err(format)?;
        let (weights, settings) = (Arc::new(read.weights), read.settings);
        let made = Classifier::new(Arc::clone(&weights), settings.threshold, settings.longest);
        made.map_err(|error| format(error.to_string()))?;
        Ok(Self {
            weights: Arc::unwrap_or_clone(weights),
            settings,
        })
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
        let settings = header
            .metadata()
            .as_ref()
            .and_then(|m| m.get(SETTINGS))
            .ok_or("it has no settings of a classifier")?;
        let settings: ClassifierSettings =
            serde_json::from_str(settings).map_err(|error| format!("its settings: {error}"))?;
        if settings.version != 1 {
            return Err(format!(
                "it is of version {}, and this program reads version 1",
                settings.version
            ));
        }
        let mut parts = numbers(bytes)?;
        let mut take = |name: &str| parts.remove(name).ok_or(format!("it has no `{name}`"));
        let weights = ClassifierWeights {
            mean: take("mean")?,
            deviation: take("deviation")?,
            hidden: take("hidden.weight")?,
            hidden_bias: take("hidden.bias")?,
            output: take("output.weight")?,
            output_bias: match take("output.bias")?.as_slice() {
                [bias] => *bias,
                other => return Err(format!("`output.bias` has {} numbers, not 1", other.len())),
            },
        };
        match parts.keys().next() {
            None => Ok(Self { weights, settings }),
            Some(name) => Err(format!("`{name}` is not a part of a classifier")),
        }
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// [`ClassifierError::Invalid`] if the weights are not those of a classifier.
    pub fn to_bytes(&self) -> Result<Vec<u8>, ClassifierError> {
        self.weights.check()?;
        let weights = &self.weights;
        let bias = [weights.output_bias];
        let parts: [(&str, &[f32]); 6] = [
            ("mean", &weights.mean),
            ("deviation", &weights.deviation),
            ("hidden.weight", &weights.hidden),
            ("hidden.bias", &weights.hidden_bias),
            ("output.weight", &weights.output),
            ("output.bias", &bias),
        ];
        let mut tensors = Tensors::default();
        for (name, numbers) in parts {
            tensors.add(name.to_owned(), vec![numbers.len()], numbers);
        }
        let written = |error: &dyn fmt::Display| ClassifierError::Write(error.to_string());
        let settings = serde_json::to_string(&self.settings).map_err(|error| written(&error))?;
        let bytes = tensors.to_bytes(SETTINGS, settings);
        bytes.map_err(|error| written(&error))
    }
}

/// The tensors of a file, by name.
fn numbers(bytes: &[u8]) -> Result<HashMap<String, Vec<f32>>, String> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut parts = HashMap::new();
    for (name, view) in tensors.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(format!("`{name}` is {:?}, not F32", view.dtype()));
        }
        let numbers = view
            .data()
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        parts.insert(name.to_owned(), numbers.collect());
    }
    Ok(parts)
}
