//! What config.json says, in the keys of a GGUF file.

use std::fmt::Debug;

use crate::backend::{Activation, Heads};
use crate::config::ModelConfig;
use crate::decoder::{Arrangement, DecoderConfig, Rotations};
use crate::gguf::blocks::BlockType;
use crate::gguf::settings::Family;
use crate::gguf::write::{Entries, Planned, Target};
use crate::t5::FeedForwardProj;
use crate::T5Config;

/// The tensor of what each rotary frequency is divided by.
pub(super) const FACTORS: &str = "rope_freqs.weight";

/// A model in the words of the format.
pub(super) struct Stated {
    pub(super) family: Family,
    /// Layers of a decoder, or of an encoder and a decoder.
    pub(super) layers: (usize, usize),
    /// Heads of queries, and of keys and values.
    pub(super) heads: (usize, usize),
    /// Whether a T5 has feed-forward layers without gates.
    pub(super) ungated: bool,
    /// Whether a head among the tensors is passed over.
    tied: bool,
    /// Whether a T5 scales hidden states before its head.
    scales: Option<bool>,
    keys: Vec<(&'static str, Value)>,
    factors: Option<Vec<f32>>,
}

enum Value {
    Unsigned(usize),
    Number(f64),
    Text(&'static str),
}

impl Stated {
    /// Whether the model has a head of its own, if the checkpoint has a tensor for one or not.
    ///
    /// # Errors
    /// A T5 whose head goes with hidden states in another way than the format takes for granted.
    pub(super) fn has_own_head(&self, there: bool) -> Result<bool, String> {
        let own = there && !self.tied;
        match self.scales {
            Some(true) if own => Err("that hidden states are scaled before a head of its own"),
            Some(false) if !own => Err("that hidden states are not scaled before a tied head"),
            _ => Ok(own),
        }
        .map_err(str::to_owned)
    }

    pub(super) fn put(&self, entries: &mut Entries) {
        for (key, value) in &self.keys {
            let key = format!("{}.{key}", self.family.name());
            match value {
                Value::Unsigned(number) => entries.unsigned(&key, *number as u32),
                Value::Number(number) => entries.number(&key, *number as f32),
                Value::Text(text) => entries.text(&key, text),
            }
        }
    }

    /// What frequencies are divided by, as a tensor.
    pub(super) fn factors<'a>(&self) -> Option<Planned<'a>> {
        let factors = self.factors.as_ref()?;
        let bytes: Vec<u8> = factors.iter().flat_map(|f| f.to_le_bytes()).collect();
        let (shape, from) = (vec![factors.len()], BlockType::F32);
        let values = move || Ok(bytes.clone().into());
        Some(Planned::new(
            FACTORS.to_owned(),
            shape,
            from,
            Target::F32,
            None,
            values,
        ))
    }
}

/// What a file would say of a model.
///
/// # Errors
/// What it cannot say.
pub(super) fn of(config: &ModelConfig) -> Result<Stated, String> {
    match config {
        ModelConfig::T5(config) => t5(config),
        ModelConfig::Decoder(config) => decoder(config),
    }
}

fn decoder(config: &DecoderConfig) -> Result<Stated, String> {
    use Value::{Number, Text, Unsigned};
    let family = family(config)?;
    let Heads { queries, kv, size } = config.heads;
    let mut keys = vec![
        ("vocab_size", Unsigned(config.vocab_size)),
        ("context_length", Unsigned(config.positions)),
        ("embedding_length", Unsigned(config.size)),
        ("block_count", Unsigned(config.layers.len())),
        ("feed_forward_length", Unsigned(config.inner)),
        ("attention.head_count", Unsigned(queries)),
        ("attention.head_count_kv", Unsigned(kv)),
        ("attention.key_length", Unsigned(size)),
        ("attention.value_length", Unsigned(size)),
        ("attention.layer_norm_rms_epsilon", Number(config.epsilon)),
        ("rope.dimension_count", Unsigned(size)),
        ("rope.freq_base", Number(config.rope.base())),
    ];
    let window = config.layers.first().and_then(|layer| layer.window);
    keys.extend(window.map(|window| ("attention.sliding_window", Unsigned(window.get()))));
    let mut factors = None;
    match config.rope.in_words(size)? {
        Rotations::Plain => {}
        Rotations::Linear { factor } => keys.extend([
            ("rope.scaling.type", Text("linear")),
            ("rope.scaling.factor", Number(factor)),
        ]),
        Rotations::Yarn {
            factor,
            original,
            fast,
            slow,
        } => keys.extend([
            ("rope.scaling.type", Text("yarn")),
            ("rope.scaling.factor", Number(factor)),
            ("rope.scaling.original_context_length", Unsigned(original)),
            ("rope.scaling.yarn_beta_fast", Number(fast)),
            ("rope.scaling.yarn_beta_slow", Number(slow)),
        ]),
        Rotations::Divided(by) => factors = Some(by),
    }
    Ok(Stated {
        family,
        layers: (config.layers.len(), 0),
        heads: (queries, kv),
        ungated: false,
        // A head that is there counts, whatever config.json says.
        tied: false,
        scales: None,
        keys,
        factors,
    })
}

/// The architecture that computes what a decoder does.
fn family(config: &DecoderConfig) -> Result<Family, String> {
    let mut layers = config.layers.iter();
    let first = layers.next();
    let refused = [
        (
            config.stored == Arrangement::Together,
            "matrices that are stored as one (Phi-3)",
        ),
        (
            config.activation != Activation::Silu,
            "another activation than SiLU in an architecture that is read here",
        ),
        (
            layers.any(|layer| Some(layer) != first),
            "what its layers differ in: windows, or positions that some do not have",
        ),
        (
            first.is_some_and(|layer| !layer.rotated),
            "layers without positions",
        ),
    ];
    if let Some((_, what)) = refused.into_iter().find(|(found, _)| *found) {
        return Err(what.to_owned());
    }
    let family = match (config.head_norms, config.biases.qkv, config.biases.output) {
        (true, ..) => Family::Qwen3,
        (false, true, false) => Family::Qwen2,
        _ => Family::Llama,
    };
    match family != Family::Llama && first.is_some_and(|layer| layer.window.is_some()) {
        true => Err("windows of a Qwen".to_owned()),
        false => Ok(family),
    }
}

fn t5(config: &T5Config) -> Result<Stated, String> {
    use Value::{Number, Unsigned};
    let form = config.feed_forward_proj;
    if !matches!(form, FeedForwardProj::Relu | FeedForwardProj::GatedGelu) {
        return Err(format!("feed-forward layers of the form {form:?}"));
    }
    let farthest = config.relative_attention_max_distance;
    if farthest != 128 {
        return Err(format!("a relative_attention_max_distance of {farthest}"));
    }
    let start = config.decoder_start() as usize;
    Ok(Stated {
        family: Family::T5,
        layers: (config.num_layers, config.decoder_layers()),
        heads: (config.num_heads, config.num_heads),
        ungated: !config.feed_forward_proj.is_gated(),
        tied: config.tie_word_embeddings && config.scale_decoder_outputs.is_none(),
        scales: Some(config.scales_outputs()),
        keys: vec![
            ("vocab_size", Unsigned(config.vocab_size)),
            // Positions are relative; other programs want a number.
            ("context_length", Unsigned(512)),
            ("embedding_length", Unsigned(config.d_model)),
            ("block_count", Unsigned(config.num_layers)),
            ("decoder_block_count", Unsigned(config.decoder_layers())),
            ("feed_forward_length", Unsigned(config.d_ff)),
            ("attention.head_count", Unsigned(config.num_heads)),
            ("attention.key_length", Unsigned(config.d_kv)),
            ("attention.value_length", Unsigned(config.d_kv)),
            (
                "attention.relative_buckets_count",
                Unsigned(config.relative_attention_num_buckets),
            ),
            (
                "attention.layer_norm_epsilon",
                Number(config.layer_norm_epsilon),
            ),
            (
                "attention.layer_norm_rms_epsilon",
                Number(config.layer_norm_epsilon),
            ),
            ("decoder_start_token_id", Unsigned(start)),
        ],
        factors: None,
    })
}

/// Weights of the model, `own_head` if its output head is not its embedding.
pub(super) fn parameters(config: &ModelConfig, own_head: bool) -> usize {
    match config {
        ModelConfig::T5(config) => with_head(config, own_head).parameters(),
        ModelConfig::Decoder(config) => DecoderConfig {
            tied: !own_head,
            ..(**config).clone()
        }
        .parameters(),
    }
}

fn with_head(config: &T5Config, own_head: bool) -> T5Config {
    T5Config {
        tie_word_embeddings: !own_head,
        ..config.clone()
    }
}

/// Compares what two descriptions compute: all that a forward depends on, rotations within the
/// rounding of factors in f32.
///
/// # Errors
/// What differs.
pub(super) fn compare(
    original: &ModelConfig,
    read: &ModelConfig,
    own_head: bool,
) -> Result<(), String> {
    match (original, read) {
        (ModelConfig::Decoder(original), ModelConfig::Decoder(read)) => {
            if !original.rope.is_nearly(&read.rope, original.heads.size) {
                return Err(differences(&original.rope, &read.rope));
            }
            let expected = DecoderConfig {
                tied: !own_head,
                rope: read.rope.clone(),
                warnings: read.warnings.clone(),
                ..(**original).clone()
            };
            equal(&expected, &**read)
        }
        (ModelConfig::T5(original), ModelConfig::T5(read)) => {
            let expected = T5Config {
                tie_word_embeddings: !own_head,
                scale_decoder_outputs: Some(original.scales_outputs()),
                num_decoder_layers: Some(original.decoder_layers()),
                decoder_start_token_id: Some(original.decoder_start()),
                pad_token_id: read.pad_token_id,
                warnings: read.warnings.clone(),
                ..(**original).clone()
            };
            equal(&expected, &**read)
        }
        _ => Err("another architecture".to_owned()),
    }
}

fn equal<T: Debug + PartialEq>(expected: &T, read: &T) -> Result<(), String> {
    match expected == read {
        true => Ok(()),
        false => Err(differences(expected, read)),
    }
}

/// The settings that differ.
fn differences(expected: &impl Debug, read: &impl Debug) -> String {
    let (expected, read) = (format!("{expected:#?}"), format!("{read:#?}"));
    let pairs = expected.lines().zip(read.lines());
    let pairs = pairs
        .map(|(a, b)| (a.trim(), b.trim()))
        .filter(|(a, b)| a != b);
    let said: Vec<String> = pairs.map(|(a, b)| format!("{a} (but {b})")).collect();
    said.join(" ")
}
