//! Folders of acceptance heads, which decide when a drafter stops.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cascade_engine::{AcceptanceHead, HeadLayer, HeadWeights};
use cascade_models::{NamedTensor, read_tensors};
use serde::{Deserialize, Serialize};

use super::NetworkError;
use super::tensors::Tensors;

/// The largest config.json that is read.
const LARGEST_CONFIG: u64 = 1 << 20;
/// The deepest network that is read.
const DEEPEST: usize = 64;

const CONFIG: &str = "config.json";
/// Files of weights, in the order in which they are looked for.
const WEIGHTS: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];

/// A trained acceptance head as a folder, in the form of the heads that the authors of SpecDec++
/// released: `config.json` with `hidden_size` and `num_layers` (D), and `model.safetensors` or
/// `pytorch_model.bin` with
///
/// * `model.I.linear.weight` `[size, size]` and `model.I.linear.bias` for the residual layers
///   I = 0 … D − 1, or for I = 0 alone, whose weights are then those of all layers;
/// * `model.D.weight` `[2, size]` and `model.D.bias` for the two classes, of which 1 is acceptance.
///
/// What the names begin with does not matter, if they all do. Heads that were trained here say in
/// `config.json`, under `cascade`, what for.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadFolder {
    /// The network.
    pub weights: HeadWeights,
    /// What it was trained for, if it says so.
    pub settings: Option<HeadSettings>,
}

/// What a head was trained for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadSettings {
    /// 1.
    pub version: u64,
    /// The drafter whose hidden states it has learned.
    pub drafter: String,
    /// A drafter stops where a token is rejected with more than this probability.
    pub threshold: f32,
    /// Tokens of a draft at least.
    pub shortest: usize,
    /// Tokens of a draft at most.
    pub longest: usize,
}

impl HeadSettings {
    /// Settings in the present version.
    pub fn new(drafter: impl Into<String>, threshold: f32) -> Self {
        Self {
            version: 1,
            drafter: drafter.into(),
            threshold,
            shortest: AcceptanceHead::SHORTEST,
            longest: AcceptanceHead::LONGEST,
        }
    }
}

/// config.json.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)] // What is ignored is not read.
struct Keys {
    hidden_size: usize,
    /// Without it, there are no residual layers.
    #[serde(default)]
    num_layers: usize,
    cascade: Option<HeadSettings>,
    /// What transformers adds to every configuration, and says nothing of the network.
    #[serde(default)]
    architectures: serde::de::IgnoredAny,
    #[serde(default)]
    model_type: serde::de::IgnoredAny,
    #[serde(default, alias = "dtype")]
    torch_dtype: serde::de::IgnoredAny,
    #[serde(default)]
    transformers_version: serde::de::IgnoredAny,
    #[serde(default, rename = "_name_or_path")]
    name_or_path: serde::de::IgnoredAny,
}

impl HeadFolder {
    /// Reads a folder.
    ///
    /// # Errors
    /// Files that cannot be read, are damaged, or are not of this form, by the name of the key or
    /// tensor.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, NetworkError> {
        let folder = folder.as_ref();
        let format = super::format(folder, "`cascade-lab train head` makes such folders");
        let keys = super::read(folder.join(CONFIG), LARGEST_CONFIG)?;
        let keys: Keys = serde_json::from_slice(&keys)
            .map_err(|error| format(format!("its {CONFIG}: {error}")))?;
        let mut files = WEIGHTS.map(|name| folder.join(name)).into_iter();
        let weights = files.find(|file| file.exists());
        let weights = weights.ok_or_else(|| NetworkError::NoWeights {
            folder: folder.to_owned(),
        })?;
        let tensors = read_tensors(&weights).map_err(cascade_models::Error::from)?;
        let weights = network(&keys, tensors).map_err(&format)?;
        weights.check().map_err(|error| format(error.to_string()))?;
        let settings = keys.cascade;
        if let Some(settings) = &settings {
            check(settings, &weights).map_err(format)?;
        }
        Ok(Self { weights, settings })
    }

    /// The files of a folder, by name.
    ///
    /// # Errors
    /// [`NetworkError::Invalid`] if the weights are not those of a head.
    pub fn to_files(&self) -> Result<Vec<(&'static str, Vec<u8>)>, NetworkError> {
        self.weights.check()?;
        let weights = &self.weights;
        let (size, depth) = (weights.size(), weights.layers.len());
        let mut tensors = Tensors::default();
        for (i, layer) in weights.layers.iter().enumerate() {
            tensors.add(
                format!("model.{i}.linear.weight"),
                vec![size, size],
                &layer.weight,
            );
            tensors.add(format!("model.{i}.linear.bias"), vec![size], &layer.bias);
        }
        // The odds of class 1 to a class 0 that says nothing are those of the one output.
        let output: Vec<f32> = [vec![0.0; size], weights.output.clone()].concat();
        tensors.add(format!("model.{depth}.weight"), vec![2, size], &output);
        tensors.add(
            format!("model.{depth}.bias"),
            vec![2],
            &[0.0, weights.output_bias],
        );
        let bytes = tensors
            .to_bytes("format", "pt".to_owned())
            .map_err(|error| NetworkError::Write {
                network: "head",
                problem: error.to_string(),
            })?;
        let mut config = serde_json::json!({ "hidden_size": size, "num_layers": depth });
        if let Some(settings) = &self.settings {
            config["cascade"] = serde_json::json!(settings);
        }
        let config = format!("{config:#}\n").into_bytes();
        Ok(vec![("model.safetensors", bytes), (CONFIG, config)])
    }
}

fn check(settings: &HeadSettings, weights: &HeadWeights) -> Result<(), String> {
    let HeadSettings {
        version,
        threshold,
        shortest,
        longest,
        ..
    } = *settings;
    if version != 1 {
        return Err(format!(
            "it is of version {version}, and this program reads version 1"
        ));
    }
    let made = AcceptanceHead::new(Arc::new(weights.clone()), threshold, shortest, longest);
    made.map(|_| ()).map_err(|error| error.to_string())
}

/// A tensor's place in the network: its layer, whether it belongs to a residual layer, and the
/// part.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct TensorPlace {
    residual: bool,
    layer: usize,
    part: &'static str,
}

impl TensorPlace {
    /// What a name, `PREFIX.I.linear.PART` or `PREFIX.I.PART`, begins with and stands for.
    fn of(name: &str) -> Option<(&str, Self)> {
        let (layer, part) = name.rsplit_once('.')?;
        let part = ["weight", "bias"].into_iter().find(|own| *own == part)?;
        let linear = layer.strip_suffix(".linear");
        let layer = linear.unwrap_or(layer);
        let (prefix, layer) = layer.rsplit_once('.').unwrap_or(("", layer));
        let place = Self {
            residual: linear.is_some(),
            layer: layer.parse().ok()?,
            part,
        };
        Some((prefix, place))
    }

    fn shape(self, size: usize) -> Vec<usize> {
        match (self.residual, self.part) {
            (true, "weight") => vec![size, size],
            (true, _) => vec![size],
            (false, "weight") => vec![2, size],
            (false, _) => vec![2],
        }
    }
}

impl std::fmt::Display for TensorPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let linear = if self.residual { ".linear" } else { "" };
        write!(f, "model.{}{linear}.{}", self.layer, self.part)
    }
}

type Places = BTreeMap<TensorPlace, Vec<f32>>;

fn network(keys: &Keys, tensors: BTreeMap<String, NamedTensor>) -> Result<HeadWeights, String> {
    let (size, depth) = (keys.hidden_size, keys.num_layers);
    if depth > DEEPEST {
        return Err(format!(
            "`num_layers` is {depth}, and at most {DEEPEST} are read"
        ));
    }
    let mut places = placed(size, depth, tensors)?;
    let layers = layers(depth, &mut places)?;
    let [weight, bias] = take(&mut places, false, depth)?;
    let (rejected, accepted) = weight.split_at(size);
    let output = rejected.iter().zip(accepted).map(|(r, a)| a - r).collect();
    Ok(HeadWeights {
        layers,
        output,
        output_bias: bias[1] - bias[0],
    })
}

/// The numbers of all tensors, each of the right shape, by their places.
fn placed(
    size: usize,
    depth: usize,
    tensors: BTreeMap<String, NamedTensor>,
) -> Result<Places, String> {
    let mut first_prefix: Option<String> = None;
    let mut places = Places::new();
    for (name, tensor) in tensors {
        let unknown = || format!("`{name}` is not a part of a head of {depth} layers");
        let (prefix, place) = TensorPlace::of(&name).ok_or_else(unknown)?;
        let known = if place.residual {
            place.layer < depth
        } else {
            place.layer == depth
        };
        if !known || first_prefix.get_or_insert_with(|| prefix.to_owned()) != prefix {
            return Err(unknown());
        }
        let expected = place.shape(size);
        if tensor.shape != expected {
            return Err(format!(
                "`{name}` is {:?}, not {expected:?}, with the `hidden_size` {size} and the classes rejected and accepted",
                tensor.shape
            ));
        }
        places.insert(place, tensor.values);
    }
    Ok(places)
}

/// Weight and bias of a layer.
fn take(places: &mut Places, residual: bool, layer: usize) -> Result<[Vec<f32>; 2], String> {
    let mut take = |part| {
        let place = TensorPlace {
            residual,
            layer,
            part,
        };
        let missing = || format!("it has no `{place}`");
        places.remove(&place).ok_or_else(missing)
    };
    Ok([take("weight")?, take("bias")?])
}

/// The residual layers; if only the first is there, it is all of them.
fn layers(depth: usize, places: &mut Places) -> Result<Vec<Arc<HeadLayer>>, String> {
    let mut residual = places.keys().filter(|place| place.residual);
    let stored = residual.next_back().map_or(0, |last| last.layer + 1);
    let mut layers: Vec<Arc<HeadLayer>> = Vec::with_capacity(depth);
    for layer in 0..stored {
        let [weight, bias] = take(places, true, layer)?;
        let own = HeadLayer { weight, bias };
        // Shared weights are stored once for each layer by some programs.
        let same = layers.iter().find(|other| ***other == own).cloned();
        layers.push(same.unwrap_or_else(|| Arc::new(own)));
    }
    match (stored, depth) {
        (1, depth) => Ok(vec![layers.remove(0); depth]),
        (stored, depth) if stored == depth => Ok(layers),
        (stored, depth) => Err(format!(
            "it has {stored} residual layers, and `num_layers` is {depth}: give all of them, or the first alone where \
             they share it"
        )),
    }
}
