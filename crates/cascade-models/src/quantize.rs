//! A model as a GGUF file: what its configuration is in the words of the format.

use std::fmt::Debug;
use std::io::Write;
use std::num::NonZeroUsize;

use cascade_checkpoint::quantize::{
    self as gguf, Description, Family, FusedRows, Original, Setting,
};
use cascade_checkpoint::{DType, Tokenizer};
use cascade_hub::{ModelFile, ModelFiles, WeightFormat};
use serde_json::Value as Json;

pub use cascade_checkpoint::quantize::Quantized;

use crate::backend::{Activation, Heads};
use crate::config::{ModelConfig, check_kind, read_config};
use crate::decoder::{DecoderConfig, ProjectionLayout, Rope, Stretch};
use crate::generation::Generation;
use crate::t5::{FeedForwardProj, T5Config};
use crate::{Error, Result};

/// What a GGUF file has words for, or what it has not.
type Expressible<T> = std::result::Result<T, String>;

/// Writes a model as one GGUF file whose matrices are rounded to `dtype`. The same files give the
/// same bytes on every machine, and loading what was written as it is [stored](DType::Stored) gives
/// the model that loading the original in `dtype` gives. A matrix whose rows have no whole blocks
/// is written in f32.
///
/// `tell` hears what the user should know, in sentences, before anything is written: what is lost,
/// and where other programs would take the file for another model, or for none.
///
/// A GGUF file, or all parts of one, is written anew by
/// [`requantize`](cascade_checkpoint::quantize::requantize): all but its matrices stays. A folder
/// of safetensors or PyTorch files, with the chat templates of `conversations` (the content of a
/// tokenizer_config.json), is written by [`convert`](cascade_checkpoint::quantize::convert).
/// Frequencies of LLaMA 3's rotations become factors in f32, which may move them by one part in ten
/// million. [`check_quantized`] reads the file again and compares.
///
/// # Errors
/// [`Checkpoint`](Error::Checkpoint) for [`DType::Stored`], and whatever `requantize` and `convert`
/// refuse; [`Config`](Error::Config) for a folder whose settings are.
pub fn quantize(
    files: &ModelFiles,
    conversations: &Json,
    dtype: DType,
    tell: &mut dyn FnMut(&str),
    out: &mut dyn Write,
) -> Result<Quantized> {
    if files.weight_format == WeightFormat::Gguf {
        return Ok(gguf::requantize(&files.weights, dtype, tell, out)?);
    }
    if dtype == DType::Stored {
        return Err(cascade_checkpoint::Error::quantize_type().into());
    }
    let (_, original) = read(files)?;
    Ok(gguf::convert(&original, conversations, dtype, tell, out)?)
}

/// Reads the file that [`quantize`] has written again, and compares what it says with the original:
/// settings, tokenizer, and the tokens that end an answer.
///
/// # Errors
/// The first difference.
pub fn check_quantized(files: &ModelFiles, written: &ModelFile) -> Result<()> {
    if files.weight_format == WeightFormat::Gguf {
        return Ok(());
    }
    let (config, original) = read(files)?;
    gguf::check(&original, written, |json, own_head| {
        let read = ModelConfig::parse(written, json)?;
        compare(&config, &read, own_head).map_err(|what| cannot_say(files, what))
    })
}

/// The configuration of a folder's model, and what it is in the words of the format.
fn read(files: &ModelFiles) -> Result<(ModelConfig, Original<'_>)> {
    let json = read_config(files)?;
    check_kind(&files.config, &json)?;
    let config = ModelConfig::parse(&files.config, &json)?;
    let tokenizer = Tokenizer::load(&files.tokenizer)?;
    let rows = config.info().vocab_size;
    tokenizer.check_fits(rows)?;
    let mut warnings = config.warnings().to_vec();
    let generation = Generation::of(files, &json, rows)?;
    warnings.extend(generation.warnings);
    warnings.extend(tokenizer.warnings().iter().cloned());
    let original = Original {
        files,
        description: of(&config).map_err(|what| cannot_say(files, what))?,
        tokenizer,
        ends: generation.ends,
        recommended: generation.recommended,
        warnings,
    };
    Ok((config, original))
}

fn cannot_say(files: &ModelFiles, what: String) -> Error {
    cascade_checkpoint::Error::cannot_say(&files.name, &what).into()
}

/// What a file would say of a model.
///
/// # Errors
/// What it cannot say.
fn of(config: &ModelConfig) -> Expressible<Description> {
    match config {
        ModelConfig::T5(config) => t5(config),
        ModelConfig::Decoder(config) => decoder(config),
    }
}

/// Settings by their keys.
type Keys = Vec<(&'static str, Setting)>;

fn decoder(config: &DecoderConfig) -> Expressible<Description> {
    let family = family(config)?;
    let Heads { queries, kv, size } = config.heads;
    let (keys, factors) = decoder_keys(config)?;
    let (tied, embedding) = (
        config.parameters_per_forward(),
        config.vocab_size * config.size,
    );
    let window = window(config);
    Ok(Description {
        family,
        vocab_size: config.vocab_size,
        padding: None,
        layers: (config.layers.len(), 0),
        heads: (queries, kv),
        ungated: false,
        // A head that is there counts, whatever config.json says.
        tied: false,
        scale: None,
        fused: (config.stored == ProjectionLayout::Fused).then_some(FusedRows {
            queries: queries * size,
            keys: kv * size,
            inner: config.inner,
        }),
        window: window.map(NonZeroUsize::get),
        keys,
        factors,
        parameters: (tied, tied + embedding),
    })
}

/// The window that all layers have.
fn window(config: &DecoderConfig) -> Option<NonZeroUsize> {
    config.layers.first().and_then(|layer| layer.window)
}

/// The settings of a decoder by their keys, and what its rotary frequencies are divided by.
fn decoder_keys(config: &DecoderConfig) -> Expressible<(Keys, Option<Vec<f32>>)> {
    use Setting::{Number, Unsigned};
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
        ("rope.freq_base", Number(config.rope.theta)),
    ];
    keys.extend(window(config).map(|window| ("attention.sliding_window", Unsigned(window.get()))));
    let (of_rope, factors) = rope_keys(&config.rope, size)?;
    keys.extend(of_rope);
    Ok((keys, factors))
}

/// The settings of stretched rotations by their keys, or what their frequencies are divided by.
fn rope_keys(rope: &Rope, head_dim: usize) -> Expressible<(Keys, Option<Vec<f32>>)> {
    use Setting::{Number, Text, Unsigned};
    let keys = match &rope.stretch {
        Stretch::None | Stretch::Dynamic { .. } => Vec::new(),
        Stretch::Linear { factor } => vec![
            ("rope.scaling.type", Text("linear")),
            ("rope.scaling.factor", Number(*factor)),
        ],
        // With the attention factor that follows from the factor.
        Stretch::Yarn {
            factor,
            original,
            beta_fast,
            beta_slow,
            ..
        } => vec![
            ("rope.scaling.type", Text("yarn")),
            ("rope.scaling.factor", Number(*factor)),
            ("rope.scaling.original_context_length", Unsigned(*original)),
            ("rope.scaling.yarn_beta_fast", Number(*beta_fast)),
            ("rope.scaling.yarn_beta_slow", Number(*beta_slow)),
        ],
        Stretch::LongRope {
            attention_factor, ..
        } if *attention_factor != 1.0 => {
            return Err("LongRoPE that sharpens attention".to_owned());
        }
        Stretch::Llama3 { .. } | Stretch::LongRope { .. } => {
            return Ok((Vec::new(), Some(rope.divisors(head_dim))));
        }
    };
    Ok((keys, None))
}

/// The architecture that computes what a decoder does.
fn family(config: &DecoderConfig) -> Expressible<Family> {
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
    if family != Family::Llama && first.is_some_and(|layer| layer.window.is_some()) {
        Err("windows of a Qwen".to_owned())
    } else {
        Ok(family)
    }
}

fn t5(config: &T5Config) -> Expressible<Description> {
    let FeedForwardProj { activation, gated } = config.feed_forward_proj;
    if !matches!(
        (gated, activation),
        (false, Activation::Relu) | (true, Activation::Gelu)
    ) {
        let gate = if gated { "Gated" } else { "" };
        return Err(format!(
            "feed-forward layers of the form {gate}{activation:?}"
        ));
    }
    let farthest = config.relative_attention_max_distance;
    if farthest != 128 {
        return Err(format!("a relative_attention_max_distance of {farthest}"));
    }
    let embedding = config.vocab_size * config.d_model;
    let own = if config.tie_word_embeddings {
        0
    } else {
        embedding
    };
    let tied = config.parameters() - own;
    Ok(Description {
        family: Family::T5,
        vocab_size: config.vocab_size,
        padding: Some(config.pad_token_id.unwrap_or(0)),
        layers: (config.num_layers, config.decoder_layers()),
        heads: (config.num_heads, config.num_heads),
        ungated: !gated,
        tied: config.tie_word_embeddings && config.scale_decoder_outputs.is_none(),
        scale: Some(config.output_scale().unwrap_or(1.0)),
        fused: None,
        window: None,
        keys: t5_keys(config),
        factors: None,
        parameters: (tied, tied + embedding),
    })
}

fn t5_keys(config: &T5Config) -> Keys {
    use Setting::{Number, Unsigned};
    let start = config.decoder_start() as usize;
    vec![
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
    ]
}

/// Compares what two descriptions compute: all that a forward depends on, rotations within the
/// rounding of factors in f32.
///
/// # Errors
/// What differs.
fn compare(original: &ModelConfig, read: &ModelConfig, own_head: bool) -> Expressible<()> {
    match (original, read) {
        (ModelConfig::Decoder(original), ModelConfig::Decoder(read)) => {
            if !original.rope.is_nearly(&read.rope, original.heads.size) {
                return Err(differences(&original.rope, &read.rope));
            }
            let expected = DecoderConfig {
                tied: !own_head,
                stored: ProjectionLayout::Separate,
                rope: read.rope.clone(),
                epsilon: rounded(original.epsilon, read.epsilon),
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
                layer_norm_epsilon: rounded(original.layer_norm_epsilon, read.layer_norm_epsilon),
                warnings: read.warnings.clone(),
                ..(**original).clone()
            };
            equal(&expected, &**read)
        }
        _ => Err("another architecture".to_owned()),
    }
}

/// A number as it is read, if it is the original one in f32, which is what the format holds and
/// what is computed with.
fn rounded(original: f64, read: f64) -> f64 {
    if original as f32 == read as f32 {
        read
    } else {
        original
    }
}

fn equal<T: Debug + PartialEq>(expected: &T, read: &T) -> Expressible<()> {
    if expected == read {
        Ok(())
    } else {
        Err(differences(expected, read))
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
            let names: Vec<&str> = outer
                .iter()
                .skip(1)
                .copied()
                .chain([name])
                .filter(|name| !name.is_empty())
                .collect();
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
