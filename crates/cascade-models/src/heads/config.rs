//! config.json of heads, and what the headers of their weights add to it.

use std::num::NonZeroUsize;

use cascade_checkpoint::Checkpoint;
use cascade_core::Architecture;
use cascade_hub::ModelFile;
use serde_json::Value;

use crate::backend::{Heads, ModelInfo};
use crate::checks::{bad, product, sum};
use crate::config::in_file;
use crate::decoder::{DecoderConfig, LayerKind};
use crate::settings::{self, Settings, unsupported};
use crate::{Error, Result};

/// A head, as its files describe it.
#[derive(Clone, Debug)]
pub(super) enum HeadConfig {
    /// A layer, in the words of the model that it is a layer of, and what else there is.
    Layer(Box<DecoderConfig>, LayerHead),
    /// The shape of a Medusa, and what the user should know of its settings.
    Medusa(MedusaShape, Vec<String>),
}

/// What a head of one layer has beside the layer.
#[derive(Clone, Debug)]
pub(super) enum LayerHead {
    Eagle(EagleConfig),
    Eagle3(Eagle3Config),
    /// The layer of the target's own files that predicts further tokens.
    Mtp,
}

/// EAGLE-1 and EAGLE-2.
#[derive(Clone, Copy, Debug)]
pub(super) struct EagleConfig {
    /// Whether the map of embeddings and states has a bias.
    pub(super) fuse_bias: bool,
    /// Whether the files have an embedding.
    pub(super) embedding: bool,
}

/// EAGLE-3.
#[derive(Clone, Debug)]
pub(super) struct Eagle3Config {
    /// What the files call the layer.
    pub(super) layer: &'static str,
    /// Whether the files have an embedding.
    pub(super) embedding: bool,
    /// Rows of the output head.
    pub(super) rows: usize,
    /// The target's layers whose inputs are read, in ascending order.
    pub(super) reads: Vec<usize>,
    /// Length of these states.
    pub(super) target_size: usize,
    /// Whether the residual stream begins behind the norm of the states.
    pub(super) normed_stream: bool,
    /// Whether the target's states are normed side by side before they become one.
    pub(super) normed_states: bool,
    /// Whether rows are fed with what was given behind the norm of the output head.
    pub(super) normed_output: bool,
}

/// Which tensors there are.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Eagle {
        embedding: bool,
    },
    Eagle3 {
        /// What the layer is called.
        at: &'static str,
        embedding: bool,
    },
    Mtp,
    Medusa(MedusaShape),
}

/// Heads of Medusa, as their tensors have them.
#[derive(Clone, Copy, Debug)]
pub(super) struct MedusaShape {
    /// What stands before the number of a head in names of tensors.
    pub(super) at: &'static str,
    pub(super) heads: usize,
    /// Residual blocks of each.
    pub(super) blocks: usize,
    /// Elements of a state.
    size: usize,
    /// Rows of a matrix to logits.
    vocab_size: usize,
}

impl HeadConfig {
    /// Reads the content of `file`, and which tensors there are, of a head over a model of so many
    /// layers of so many elements, if that is known.
    ///
    /// # Errors
    /// [`Error::Config`] for tensors of no known kind of head, and for the first setting that no
    /// forward can be built from, or that changes one in a way there is no code for.
    pub(super) fn read(
        config: &Value,
        weights: &Checkpoint,
        file: &ModelFile,
        target: Option<(usize, usize)>,
    ) -> Result<Self> {
        Self::of_settings(config, layout(weights)?, target).map_err(|error| in_file(file, error))
    }

    fn of_settings(config: &Value, layout: Layout, target: Option<(usize, usize)>) -> Result<Self> {
        match layout {
            Layout::Eagle { embedding } => {
                let (layer, (fuse_bias, qkv_bias)) =
                    DecoderConfig::read_with(config, |settings| {
                        let fuse_bias = settings.flag("bias", true)?;
                        Ok((fuse_bias, settings.flag("qkv_bias", false)?))
                    })?;
                let own = EagleConfig {
                    fuse_bias,
                    embedding,
                };
                Ok(Self::Layer(
                    checked(layer, qkv_bias)?,
                    LayerHead::Eagle(own),
                ))
            }
            Layout::Eagle3 { at, embedding } => {
                let (layer, own, qkv_bias) = eagle3(config, at, embedding, target)?;
                let layer = checked_eagle3(layer, qkv_bias)?;
                Ok(Self::Layer(layer, LayerHead::Eagle3(own)))
            }
            Layout::Mtp => Ok(Self::Layer(mtp(config)?, LayerHead::Mtp)),
            Layout::Medusa(shape) => Ok(Self::Medusa(shape, medusa(config, shape)?)),
        }
    }

    /// What the user should know of settings, in sentences.
    pub(super) fn warnings(&self) -> &[String] {
        match self {
            Self::Layer(layer, _) => layer.warnings(),
            Self::Medusa(_, warnings) => warnings,
        }
    }

    /// Elements of a row.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Layer(layer, _) => layer.size,
            Self::Medusa(shape, _) => shape.size,
        }
    }

    /// Tokens of the target.
    pub(super) fn vocab_size(&self) -> usize {
        match self {
            Self::Layer(layer, _) => layer.vocab_size,
            Self::Medusa(shape, _) => shape.vocab_size,
        }
    }

    /// Elements of keys and values of a row.
    pub(super) fn cached(&self) -> usize {
        match self {
            Self::Layer(layer, _) => product(&[2, layer.heads.kv, layer.heads.size]),
            Self::Medusa(..) => 0,
        }
    }

    /// Refuses a target of another width or vocabulary.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub(super) fn check_target(&self, target: &ModelInfo, file: &ModelFile) -> Result<()> {
        let (rows, width) = (target.vocab_size, target.size);
        let size = match self {
            Self::Layer(layer, LayerHead::Eagle3(own)) if own.target_size != layer.size => {
                ("target_hidden_size", own.target_size)
            }
            _ => ("hidden_size", self.size()),
        };
        let cure = "take the head that was trained for this very target";
        let refused = |problem| Error::config(file, problem, cure);
        let pairs = [
            (size, width, "width"),
            (("vocab_size", self.vocab_size()), rows, "vocabulary"),
        ];
        for ((key, own), of_target, what) in pairs {
            if own != of_target {
                return Err(refused(format!(
                    "its {key} is {own}, and the target's {what} is {of_target}"
                )));
            }
        }
        match self {
            Self::Layer(layer, LayerHead::Eagle3(own)) => {
                own.check_states(layer, target).map_err(refused)
            }
            _ => Ok(()),
        }
    }

    /// What follows from the settings, with positions as the target has them, since angles are
    /// computed for any, and with the head's own if the target has no limit.
    pub(super) fn info(&self, target: &ModelInfo) -> ModelInfo {
        let own = self.own_parameters();
        let plain = ModelInfo {
            architecture: Architecture::DecoderOnly,
            vocab_size: self.vocab_size(),
            size: self.size(),
            layers: 0,
            parameters: own,
            parameters_of_all_rows: own,
            start: None,
            ..*target
        };
        let Self::Layer(layer, kind) = self else {
            return plain;
        };
        let shared = match kind {
            LayerHead::Eagle(_) | LayerHead::Mtp => product(&[layer.vocab_size, layer.size]),
            LayerHead::Eagle3(_) => 0,
        };
        ModelInfo {
            epsilon: layer.epsilon,
            heads: layer.heads,
            layers: 1,
            parameters_of_all_rows: sum(&[own, shared]),
            max_context: target.max_context.or(Some(layer.positions)),
            ..plain
        }
    }

    /// Parameters of its own, but an embedding.
    pub(super) fn own_parameters(&self) -> usize {
        let (layer, kind) = match self {
            Self::Layer(layer, kind) => (layer, kind),
            Self::Medusa(shape, _) => {
                let block = product(&[shape.size + 1, shape.size]);
                let matrix = product(&[shape.size, shape.vocab_size]);
                let head = sum(&[product(&[shape.blocks, block]), matrix]);
                return product(&[shape.heads, head]);
            }
        };
        let size = layer.size;
        let count = |there: bool, count: usize| if there { count } else { 0 };
        // Inputs of attention, and what there is beside the layer.
        let (inputs, others) = match kind {
            LayerHead::Eagle(own) => {
                let bias = count(own.fuse_bias, size);
                (size, sum(&[product(&[2, size, size]), bias, size]))
            }
            LayerHead::Eagle3(own) => {
                let states = product(&[own.reads.len(), own.target_size]);
                let norms = sum(&[product(&[4, size]), count(own.normed_states, states)]);
                let maps = sum(&[product(&[states, size]), product(&[own.rows, size])]);
                (2 * size, sum(&[norms, maps]))
            }
            LayerHead::Mtp => (size, sum(&[product(&[2, size, size]), product(&[5, size])])),
        };
        sum(&[layer_parameters(layer, inputs), others])
    }
}

impl Eagle3Config {
    /// Says what is wrong if the head cannot read states of the target.
    fn check_states(
        &self,
        layer: &DecoderConfig,
        target: &ModelInfo,
    ) -> std::result::Result<(), String> {
        let (width, layers) = (target.size, target.layers);
        if !self.embedding && layer.size != width {
            return Err(format!(
                "it has no embedding, and its hidden_size is {}, not the target's {width}",
                layer.size
            ));
        }
        let ascends = self.reads.windows(2).all(|pair| pair[0] < pair[1]);
        match self.reads.iter().find(|&&layer| layer >= layers) {
            Some(layer) => Err(format!(
                "it reads what enters layer {layer}, and the target has {layers}"
            )),
            None if !ascends => Err(format!(
                "it reads what enters layers {:?} of a target of {layers}, which are not ascending",
                self.reads
            )),
            None => Ok(()),
        }
    }
}

/// Parameters of a layer with attention that reads rows of `inputs` elements, norms of rows aside.
fn layer_parameters(layer: &DecoderConfig, inputs: usize) -> usize {
    let Heads { queries, kv, size } = layer.heads;
    let (queries, keys_values) = (product(&[queries, size]), product(&[2, kv, size]));
    let qkv = sum(&[queries, keys_values]);
    let biases = if layer.biases.qkv { qkv } else { 0 };
    let head_norms = if layer.head_norms { 2 * size } else { 0 };
    sum(&[
        head_norms,
        product(&[inputs, qkv]),
        product(&[layer.size, queries]),
        biases,
        product(&[3, layer.size, layer.inner]),
    ])
}

/// A layer that heads are made of. Whatever class the target is of, they say themselves whether
/// they have biases.
fn checked(mut layer: DecoderConfig, qkv_bias: bool) -> Result<Box<DecoderConfig>> {
    check_layer(&layer)?;
    layer.biases.qkv = qkv_bias;
    Ok(Box::new(layer))
}

/// The layer of EAGLE-3, which may have norms of heads and a window.
fn checked_eagle3(layer: DecoderConfig, qkv_bias: bool) -> Result<Box<DecoderConfig>> {
    let (head_norms, layers) = (layer.head_norms, layer.layers.clone());
    let plain = |kind: &LayerKind| LayerKind {
        window: None,
        ..*kind
    };
    let checked = checked(
        DecoderConfig {
            head_norms: false,
            layers: layers.iter().map(plain).collect(),
            ..layer
        },
        qkv_bias,
    )?;
    Ok(Box::new(DecoderConfig {
        head_norms,
        layers,
        ..*checked
    }))
}

/// The layer of a model's own files that predicts further tokens, as `config` of the model says.
fn mtp(config: &Value) -> Result<Box<DecoderConfig>> {
    let layer = DecoderConfig::read(config)?;
    if layer.head_norms || layer.biases.output || layer.biases.mlp {
        let kind = &config["model_type"];
        return Err(unsupported(format!(
            "an MTP layer of a model of type {kind}"
        )));
    }
    Ok(Box::new(DecoderConfig {
        layers: vec![LayerKind::PLAIN],
        // Its target says them.
        warnings: Vec::new(),
        ..layer
    }))
}

/// Medusa: what there is follows from the tensors, and config.json must not ask for more. That of
/// released heads names fewer.
fn medusa(config: &Value, shape: MedusaShape) -> Result<Vec<String>> {
    let mut settings = Settings::new(config)?;
    for key in ["base_model_name_or_path", "version"] {
        settings.stated(key);
    }
    let heads = settings.optional_size("medusa_num_heads")?;
    let blocks = settings.optional_size("medusa_num_layers")?;
    for (key, asked, there) in [
        (
            "medusa_num_heads",
            heads.filter(|&heads| heads > shape.heads),
            shape.heads,
        ),
        (
            "medusa_num_layers",
            blocks.filter(|&blocks| blocks != shape.blocks),
            shape.blocks,
        ),
    ] {
        if let Some(asked) = asked {
            let problem = format!("{key} is {asked}, and the weights have {there}");
            return Err(bad(problem));
        }
    }
    settings.finish(&settings::DECODER)
}

/// The heads of Medusa that there are tensors of, which the authors' class calls by another name
/// within a whole model.
fn medusa_shape(weights: &Checkpoint) -> Option<MedusaShape> {
    let infos = weights.infos();
    let shape = |name: String| Some(&infos.get(&name)?.shape[..]);
    ["", "medusa_head."].into_iter().find_map(|at| {
        let block = |head: usize, block: usize| {
            infos.contains_key(&format!("{at}{head}.{block}.linear.weight"))
        };
        let blocks = (0..).take_while(|&number| block(0, number)).count();
        let heads = (0..).take_while(|head| shape(format!("{at}{head}.{blocks}.weight")).is_some());
        let &[vocab_size, size] = shape(format!("{at}0.{blocks}.weight"))? else {
            return None;
        };
        Some(MedusaShape {
            at,
            heads: heads.count(),
            blocks,
            size,
            vocab_size,
        })
    })
}

/// EAGLE-3, in the words of its authors or of the speculators library, over a target of so many
/// layers of so many elements, if that is known.
fn eagle3(
    config: &Value,
    at: &'static str,
    embedding: bool,
    target: Option<(usize, usize)>,
) -> Result<(DecoderConfig, Eagle3Config, bool)> {
    let whole = one_level(config)?;
    let (layers, width) = target.unzip();
    // Which ones are read of a target that is not known changes nothing but their numbers.
    let layers = layers.unwrap_or(32);
    let (mut layer, (own, stated, qkv_bias, window)) =
        DecoderConfig::read_with(&whole, |settings| {
            let own = eagle3_settings(settings, at, embedding, layers)?;
            // Of training, and of how files are written.
            for key in [
                "embed_requires_grad",
                "enable_sp_ulysses",
                "has_no_defaults_at_init",
            ] {
                settings.stated(key);
            }
            if settings.flag("fc_norm", false)? {
                return Err(unsupported(
                    "fc_norm true (a norm for each of the states)".to_owned(),
                ));
            }
            let stated = settings.optional_size("target_hidden_size")?;
            let qkv_bias = settings.flag("qkv_bias", false)?;
            Ok((own, stated, qkv_bias, window(settings)?))
        })?;
    if let (Some(window), [kind]) = (window, &mut layer.layers[..]) {
        kind.window = window;
    }
    let own = Eagle3Config {
        target_size: stated.or(width).unwrap_or(layer.size),
        ..own
    };
    Ok((layer, own, qkv_bias))
}

/// What EAGLE-3 has beside its layer; the width of the target's states is still 0.
fn eagle3_settings(
    settings: &mut Settings<'_>,
    at: &'static str,
    embedding: bool,
    layers: usize,
) -> Result<Eagle3Config> {
    let form = "a list of layers";
    let list = |value: &'_ Value| {
        let list = value.as_array()?.iter();
        list.map(settings::size).collect::<Option<Vec<usize>>>()
    };
    let reads = settings.optional("eagle_aux_hidden_state_layer_ids", form, list)?;
    let rows = match settings.optional_size("draft_vocab_size")? {
        Some(rows) => rows,
        None => settings.size("vocab_size")?,
    };
    Ok(Eagle3Config {
        layer: at,
        embedding,
        rows,
        reads: reads.unwrap_or_else(|| usual_layers(layers)),
        target_size: 0,
        normed_stream: settings.flag("norm_before_residual", false)?,
        normed_states: settings.flag("norm_before_fc", false)?,
        normed_output: settings.flag("norm_output", false)?,
    })
}

/// The window of a head's layer, which any class may have; `None` if no kind of layer is named.
fn window(settings: &mut Settings<'_>) -> Result<Option<Option<NonZeroUsize>>> {
    let form = "a list of \"full_attention\" or \"sliding_attention\", one for each layer";
    let sliding = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Some(false),
        Some("sliding_attention") => Some(true),
        _ => None,
    };
    let read = |value: &Value| value.as_array()?.iter().map(sliding).collect();
    let layers: Option<Vec<bool>> = settings.optional("layer_types", form, read)?;
    let Some(layers) = layers else {
        return Ok(None);
    };
    settings.stated("use_sliding_window");
    let window = settings.window("sliding_window", None)?;
    Ok(Some(window.filter(|_| layers.contains(&true))))
}

/// The layers whose inputs are read of a target of so many, if nothing is said, in ascending order.
fn usual_layers(layers: usize) -> Vec<usize> {
    let mut read = vec![2, layers / 2, layers.saturating_sub(3)];
    read.sort_unstable();
    read
}

/// The settings of the speculators library, whose layer's lie a level deeper, as one object.
fn one_level(config: &Value) -> Result<Value> {
    let Some(entries) = config.as_object() else {
        return Ok(config.clone());
    };
    let Some(layer) = entries.get("transformer_layer_config") else {
        return Ok(config.clone());
    };
    let kind = &config["speculators_model_type"];
    if kind != "eagle3" {
        return Err(unsupported(format!("a speculator of type {kind}")));
    }
    let layer = layer
        .as_object()
        .ok_or_else(|| settings::not("transformer_layer_config", layer, "an object of settings"))?;
    // How drafts are accepted, and who wrote the files.
    const APART: [&str; 6] = [
        "transformer_layer_config",
        "speculators_config",
        "speculators_model_type",
        "speculators_version",
        "architectures",
        "model_type",
    ];
    let outer = entries
        .iter()
        .filter(|(key, _)| !APART.contains(&key.as_str()));
    let whole = layer.iter().chain(outer);
    Ok(Value::Object(
        whole
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    ))
}

/// Refuses layers that no head is made of.
fn check_layer(layer: &DecoderConfig) -> Result<()> {
    match layer.layers[..] {
        [LayerKind::PLAIN] => {}
        [kind] => return Err(unsupported(format!("a head whose layer is {kind:?}"))),
        _ => {
            let layers = layer.layers.len();
            return Err(unsupported(format!("a head of {layers} layers (one is)")));
        }
    }
    if layer.head_norms || layer.biases.output || layer.biases.mlp {
        let what = "a head with norms of heads, or biases but of queries, keys and values";
        return Err(unsupported(what));
    }
    Ok(())
}

/// What kind of head tensors are of.
fn layout(weights: &Checkpoint) -> Result<Layout> {
    let has = |name: &str| weights.has(name);
    let hidden_norm = |at: &&str| has(&format!("{at}.hidden_norm.weight"));
    let eagle3 = ["midlayer", "layers.0"].into_iter().find(hidden_norm);
    let embedding = has("embed_tokens.weight");
    let fuse = has("fc.weight");
    let mtp = has(&format!("{}.input_proj.weight", super::mtp::LAYER));
    match (eagle3, medusa_shape(weights)) {
        _ if mtp => Ok(Layout::Mtp),
        (Some(at), _) if fuse => Ok(Layout::Eagle3 { at, embedding }),
        (None, _) if fuse && has("layers.0.self_attn.q_proj.weight") => {
            Ok(Layout::Eagle { embedding })
        }
        (_, Some(shape)) => Ok(Layout::Medusa(shape)),
        _ => Err(Error::config(
            weights.files(),
            "it has no fc.weight beside layers.0.self_attn.q_proj.weight, as heads of EAGLE-1 and EAGLE-2 \
                      have, or beside midlayer.hidden_norm.weight, as those of EAGLE-3 do, and no 0.0.linear.weight, \
                      as those of Medusa do, and no model.mtp_layers.0.input_proj.weight, as models with MTP layers do",
            "give the folder of such a head; a model with a tokenizer of its own is a `model`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn read(settings: Value) -> Result<HeadConfig> {
        let mut config = json!({"model_type": "llama", "vocab_size": 10, "hidden_size": 8,
            "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4});
        let entries = settings.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(entries);
        HeadConfig::of_settings(&config, Layout::Eagle { embedding: false }, None)
    }

    fn eagle(config: &HeadConfig) -> (&DecoderConfig, &EagleConfig) {
        match config {
            HeadConfig::Layer(layer, LayerHead::Eagle(own)) => (layer, own),
            _ => panic!("it is a head of EAGLE"),
        }
    }

    fn fuse_bias(config: &HeadConfig) -> bool {
        eagle(config).1.fuse_bias
    }

    #[test]
    fn biases_are_what_heads_say() {
        let plain = read(json!({})).unwrap();
        assert!(fuse_bias(&plain) && !eagle(&plain).0.biases.qkv);
        let none = read(json!({"bias": false})).unwrap();
        assert_eq!(plain.own_parameters() - none.own_parameters(), 8);
        // fc, q k v o, norm, feed-forward.
        assert_eq!(none.own_parameters(), 128 + 4 * 64 + 8 + 3 * 8 * 16);
        let qwen = json!({"model_type": "qwen2", "num_key_value_heads": 2});
        assert!(!eagle(&read(qwen.clone()).unwrap()).0.biases.qkv);
        let mut biased = qwen;
        biased["qkv_bias"] = true.into();
        assert!(eagle(&read(biased).unwrap()).0.biases.qkv);
    }

    #[test]
    fn shares_of_a_forward() {
        for (name, own, head, share) in [
            ("vicuna-7b", 235_937_792, 131_072_000, 0.0555),
            ("llama-3.1-8b", 251_666_432, 525_336_576, 0.1035),
        ] {
            let mut config = crate::shape(name).unwrap();
            let target = DecoderConfig::read(&config).unwrap();
            config["num_hidden_layers"] = 1.into();
            let found =
                HeadConfig::of_settings(&config, Layout::Eagle { embedding: false }, None).unwrap();
            assert_eq!(found.own_parameters(), own, "{name}");
            assert_eq!(target.vocab_size * target.size, head, "{name}");
            let of_target = target.parameters_per_forward() as f64;
            let found = (own + head) as f64 / of_target;
            assert!((found - share).abs() < 1e-4, "{name}: {found}");
        }
    }

    #[test]
    fn published_configurations_neither_fail_nor_warn() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/published/heads");
        let mut read = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let layout = match name.split('-').next() {
                Some("eagle") => Layout::Eagle { embedding: true },
                Some("eagle3") => Layout::Eagle3 {
                    at: "midlayer",
                    embedding: false,
                },
                _ => Layout::Medusa(MedusaShape {
                    at: "",
                    heads: 5,
                    blocks: 1,
                    size: 4096,
                    vocab_size: 32000,
                }),
            };
            let found = HeadConfig::of_settings(&config, layout, Some((36, 4096)))
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(found.warnings(), [""; 0], "{name}");
            read += 1;
        }
        assert_eq!(read, 13);
    }

    #[test]
    fn what_changes_a_forward_is_refused_by_name() {
        for (settings, word) in [
            (json!({"num_hidden_layers": 2}), "2 layers"),
            (
                json!({"model_type": "qwen3", "num_key_value_heads": 4}),
                "norms of heads",
            ),
            (json!({"attention_bias": true}), "biases"),
            (
                json!({"model_type": "mistral", "num_key_value_heads": 4, "sliding_window": 3}),
                "window",
            ),
            (json!({"logits_scaling": 8}), "logits_scaling"),
        ] {
            let message = read(settings).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
        let unknown = read(json!({"mine": 3})).unwrap();
        assert!(unknown.warnings()[0].contains(": mine;"));
    }

    #[test]
    fn eagle_3_reads_three_layers_of_its_target() {
        let layout = Layout::Eagle3 {
            at: "midlayer",
            embedding: false,
        };
        let read = |config: &Value| HeadConfig::of_settings(config, layout, Some((32, 8)));
        let own = |config: &Value| match read(config).unwrap() {
            HeadConfig::Layer(_, LayerHead::Eagle3(own)) => own,
            _ => panic!("it is a head of EAGLE-3"),
        };
        let plain = json!({"model_type": "llama", "vocab_size": 10, "hidden_size": 8,
            "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4,
            "draft_vocab_size": 6});
        let authors = own(&plain);
        assert_eq!((authors.rows, &authors.reads[..]), (6, &[2, 16, 29][..]));
        assert!(!authors.normed_stream && authors.target_size == 8);

        let mut layer = plain;
        layer.as_object_mut().unwrap().remove("draft_vocab_size");
        let speculators = json!({"speculators_model_type": "eagle3", "draft_vocab_size": 5,
            "speculators_version": "0.1.0", "speculators_config": {"algorithm": "eagle3"},
            "architectures": ["Eagle3Speculator"], "norm_before_residual": true,
            "target_hidden_size": null, "eagle_aux_hidden_state_layer_ids": [1, 4, 7],
            "transformer_layer_config": layer});
        let found = own(&speculators);
        assert_eq!((found.rows, &found.reads[..]), (5, &[1, 4, 7][..]));
        assert!(found.normed_stream);
        assert_eq!(read(&speculators).unwrap().warnings(), [""; 0]);
        assert!(!found.normed_states && !found.normed_output);
        for (key, value, word) in [
            ("fc_norm", json!(true), "fc_norm true"),
            ("speculators_model_type", json!("eagle"), "eagle"),
            (
                "eagle_aux_hidden_state_layer_ids",
                json!("all"),
                "a list of layers",
            ),
            (
                "transformer_layer_config",
                json!(3),
                "transformer_layer_config",
            ),
        ] {
            let mut other = speculators.clone();
            other[key] = value;
            let message = read(&other).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn medusa_is_what_its_tensors_are() {
        let shape = MedusaShape {
            at: "",
            heads: 5,
            blocks: 1,
            size: 8,
            vocab_size: 10,
        };
        let read = |config: Value| HeadConfig::of_settings(&config, Layout::Medusa(shape), None);
        // As released: it names fewer heads than there are.
        let released = json!({"medusa_num_heads": 2, "medusa_num_layers": 1,
            "base_model_name_or_path": "lmsys/vicuna-7b-v1.3", "transformers_version": "4.31.0"});
        let found = read(released).unwrap();
        assert_eq!(found.warnings(), [""; 0]);
        assert_eq!(found.own_parameters(), 5 * (8 * 8 + 8 + 8 * 10));
        for (config, word) in [
            (json!({"medusa_num_heads": 6}), "medusa_num_heads is 6"),
            (json!({"medusa_num_layers": 2}), "medusa_num_layers is 2"),
            (json!({"logits_scaling": 2}), "logits_scaling"),
        ] {
            let message = read(config).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
