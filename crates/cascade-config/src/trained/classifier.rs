//! Files of classifiers, which decide when a drafter stops.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cascade_engine::{Classifier, ClassifierWeights};
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};

use super::NetworkError;
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

impl ClassifierFile {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or is not of this form.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, NetworkError> {
        let file = path.as_ref();
        let bytes = super::read(file.to_owned(), LARGEST)?;
        let format = super::format(file, "`cascade-lab train classifier` makes such files");
        let read = Self::from_bytes(&bytes).map_err(&format)?;
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
    /// [`NetworkError::Invalid`] if the weights are not those of a classifier.
    pub fn to_bytes(&self) -> Result<Vec<u8>, NetworkError> {
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
        let written = |error: &dyn fmt::Display| NetworkError::Write {
            network: "classifier",
            problem: error.to_string(),
        };
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
