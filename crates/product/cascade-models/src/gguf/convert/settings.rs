//! What config.json says, in the keys of a GGUF file.

use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::ops::Range;

use super::places;
use crate::backend::{Activation, Heads};
use crate::config::ModelConfig;
use crate::decoder::{Arrangement, DecoderConfig, Rotations};
use crate::gguf::blocks::BlockType;
use crate::gguf::quantize::unknown_window;
use crate::gguf::settings::{Family, LOGIT_SCALE};
use crate::gguf::write::{Entries, Planned, Target};
use crate::t5::FeedForwardProj;
use crate::weights::{Checkpoint, HEAD};
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
    /// What a T5 multiplies logits with.
    scale: Option<f64>,
    /// How matrices of the same input lie in the checkpoint.
    together: Option<Together>,
    /// How many positions a token sees, if not all.
    window: Option<usize>,
    keys: Vec<(&'static str, Value)>,
    factors: Option<Vec<f32>>,
}

enum Value {
    Unsigned(usize),
    Number(f64),
    Text(&'static str),
}

/// Rows of matrices of the same input that lie below one another.
struct Together {
    queries: usize,
    keys: usize,
    inner: usize,
}

impl Stated {
    /// Whether the head of a checkpoint is written: the model has one, which is not the embedding.
    pub(super) fn keeps_head(&self, checkpoint: &Checkpoint) -> crate::Result<bool> {
        let infos = checkpoint.infos();
        let Some(head) = infos.get(HEAD).filter(|_| !self.tied) else {
            return Ok(false);
        };
        // Readers take a copy for the embedding. Heads of decoders are read whatever they are.
        let embedding = places("shared.weight").find(|place| infos.contains_key(*place));
        let Some(embedding) = embedding.filter(|place| infos[*place] == *head) else {
            return Ok(true);
        };
        let of = |name| checkpoint.load(name, &head.shape);
        Ok(of(HEAD)?.bytes != of(embedding)?.bytes)
    }

    /// Where the tensor `own` lies, if the checkpoint has it as rows of another.
    pub(super) fn part(&self, own: &str) -> Option<(String, Range<usize>)> {
        let Together {
            queries: q,
            keys: k,
            inner,
        } = *self.together.as_ref()?;
        let (at, name) = own.strip_suffix(".weight")?.rsplit_once('.')?;
        let (whole, rows) = match name {
            "q_proj" => ("qkv_proj", 0..q),
            "k_proj" => ("qkv_proj", q..q + k),
            "v_proj" => ("qkv_proj", q + k..q + 2 * k),
            "gate_proj" => ("gate_up_proj", 0..inner),
            "up_proj" => ("gate_up_proj", inner..2 * inner),
            _ => return None,
        };
        Some((format!("{at}.{whole}.weight"), rows))
    }

    /// What other programs do not read of such a file, in sentences.
    pub(super) fn unknown_elsewhere(&self) -> Option<String> {
        self.window.map(|window| unknown_window(window as u64))
    }

    pub(super) fn put(&self, entries: &mut Entries, own_head: bool) {
        for (key, value) in &self.keys {
            let key = format!("{}.{key}", self.family.name());
            match value {
                Value::Unsigned(number) => entries.unsigned(&key, *number as u32),
                Value::Number(number) => entries.number(&key, *number as f32),
                Value::Text(text) => entries.text(&key, text),
            }
        }
        // Readers take it for granted that a tied head goes with scaled states, and no other; of a
        // head of its own without gates they cannot know.
        if let Some(scale) = self.scale {
            if (scale == 1.0) != own_head || own_head && self.ungated {
                let key = format!("{}.{LOGIT_SCALE}", self.family.name());
                entries.number(&key, scale as f32);
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
        scale: None,
        together: (config.stored == Arrangement::Together).then_some(Together {
            queries: queries * size,
            keys: kv * size,
            inner: config.inner,
        }),
        window: window.map(NonZeroUsize::get),
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
        scale: Some(match config.scales_outputs() {
            true => (config.d_model as f64).powf(-0.5),
            false => 1.0,
        }),
        together: None,
        window: None,
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
                stored: Arrangement::Apart,
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
    let pairs = settings(&expected).into_iter().zip(settings(&read));
    let different = pairs.filter(|(a, b)| a != b);
    let said: Vec<String> = different
        .map(|((name, expected), (_, read))| format!("{name} {expected} (but {read})"))
        .collect();
    said.join(", ")
}

/// Names and values in what `{:#?}` writes of settings, line by line; what a value is wrapped in is
/// part of its name.
fn settings(debugged: &str) -> Vec<(String, &str)> {
    let (mut outer, mut found) = (Vec::new(), Vec::new());
    for line in debugged.lines() {
        let line = line.trim().trim_end_matches(',');
        if let Some(opened) = line.strip_suffix(['{', '(', '[']) {
            let name = opened.split(':').next().unwrap_or_default();
            outer.push(name.trim());
        } else if matches!(line, "}" | ")" | "]") {
            outer.pop();
        } else {
            let (name, value) = line.split_once(": ").unwrap_or(("", line));
            // The outermost is the whole.
            let names = outer.iter().skip(1).copied().chain([name]);
            let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
            found.push((names.join("."), value));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_once_with_both_values() {
        #[derive(Debug)]
        #[allow(dead_code)]
        struct Settings {
            tied: bool,
            start: Option<u32>,
            heads: Heads,
        }
        let settings = |tied, start, size| Settings {
            tied,
            start: Some(start),
            heads: Heads {
                queries: 4,
                kv: 2,
                size,
            },
        };
        let (a, b) = (settings(false, 3, 64), settings(true, 0, 128));
        let said = "tied false (but true), start 3 (but 0), heads.size 64 (but 128)";
        assert_eq!(differences(&a, &b), said);
        assert_eq!(differences(&a, &a), "");
    }
}
