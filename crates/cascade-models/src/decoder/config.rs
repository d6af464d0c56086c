//! What decoders of the LLaMA family differ in.

use std::num::NonZeroUsize;

use cascade_core::LARGEST_FORWARD;
use serde_json::Value;

use super::family::{self, AttentionBias, Family};
use super::rope::Rope;
use crate::Result;
use crate::backend::{Activation, Heads};
use crate::checks::{bad, check_vocabulary, product, refuse_zeros, sum};
use crate::settings::{self, Keys, Settings, unsupported};

/// A decoder of the LLaMA family, as its config.json describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecoderConfig {
    /// Rows of the embedding, and columns of the logits.
    pub(crate) vocab_size: usize,
    /// Size of the residual stream.
    pub(crate) size: usize,
    /// Inner size of the feed-forward layers.
    pub(crate) inner: usize,
    pub(crate) heads: Heads,
    /// Added to the mean square in norms.
    pub(crate) epsilon: f64,
    /// Positions that a context may have.
    pub(crate) positions: usize,
    pub(crate) rope: Rope,
    /// The activation of the gate.
    pub(crate) activation: Activation,
    /// Whether the embedding is the output head too.
    pub(crate) tied: bool,
    pub(crate) biases: Biases,
    /// Whether heads of queries and keys are normed before they are rotated.
    pub(crate) head_norms: bool,
    /// How matrices of the same input are stored.
    pub(crate) stored: ProjectionLayout,
    pub(crate) layers: Vec<LayerKind>,
    pub(crate) warnings: Vec<String>,
}

/// Linear maps that have biases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Biases {
    /// Whether the maps to queries, keys and values have biases.
    pub(crate) qkv: bool,
    /// Whether the map of what attention gave has a bias.
    pub(crate) output: bool,
    /// Whether the maps of feed-forward layers have biases.
    pub(crate) mlp: bool,
}

impl Biases {
    fn read(settings: &mut Settings<'_>, family: &Family) -> Result<Self> {
        let stated = |settings: &mut Settings<'_>, key, reads: bool| {
            if reads {
                settings.flag(key, false)
            } else {
                Ok(false)
            }
        };
        let reads = family.attention_bias == AttentionBias::Stated;
        let attention = stated(settings, "attention_bias", reads)?;
        Ok(Self {
            qkv: attention || family.attention_bias == AttentionBias::Inputs,
            output: attention,
            mlp: stated(settings, "mlp_bias", family.reads_mlp_bias)?,
        })
    }
}

/// How matrices of the same input are stored: queries, keys and values; gate and up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProjectionLayout {
    /// One tensor each.
    Separate,
    /// One tensor, rows below one another.
    Fused,
}

/// What layers differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerKind {
    /// Whether queries and keys are rotated by position.
    pub(crate) rotated: bool,
    /// How many positions a token sees, itself included; all if none is said.
    pub(crate) window: Option<NonZeroUsize>,
}

impl LayerKind {
    /// A layer of LLaMA: heads are rotated, and rows see everything before them.
    pub(crate) const PLAIN: Self = Self {
        rotated: true,
        window: None,
    };
}

/// More layers than any model has. What is kept of each must not exhaust the memory.
const MOST_LAYERS: usize = 10_000;
/// Positions that there are rotations for at most: tables of them lie in memory.
const MOST_POSITIONS: usize = 1 << 20;

/// The heads of a model of this size.
fn heads(settings: &mut Settings<'_>, family: &Family, size: usize) -> Result<Heads> {
    let queries = settings.size("num_attention_heads")?;
    let mut size_or = |key, absent| match settings.stated(key) {
        None => Ok(absent),
        Some(_) => settings.optional_size(key),
    };
    let kv = size_or("num_key_value_heads", family.kv_heads)?;
    let head = size_or("head_dim", family.head_dim)?;
    Ok(Heads {
        queries,
        kv: kv.unwrap_or(queries),
        size: head.unwrap_or(size / queries.max(1)),
    })
}

impl DecoderConfig {
    /// Reads the content of a config.json, by its `model_type` or `architectures`.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for the first setting that no forward pass can be
    /// built from, or that changes one in a way there is no code for.
    pub(crate) fn read(config: &Value) -> Result<Self> {
        Self::read_with(config, |_| Ok(())).map(|(read, ())| read)
    }

    /// Reads the settings of the family, and what `further` reads of others.
    pub(crate) fn read_with<T>(
        config: &Value,
        further: impl FnOnce(&mut Settings<'_>) -> Result<T>,
    ) -> Result<(Self, T)> {
        let family = family::of(config).ok_or_else(|| {
            let (kind, class) = (&config["model_type"], &config["architectures"][0]);
            unsupported(format!("a model of type {kind} and class {class}"))
        })?;
        let mut settings = Settings::new(config)?;
        let read = Self::of_family(&mut settings, family)?;
        let further = further(&mut settings)?;
        Ok((read.checked(settings, &settings::DECODER)?, further))
    }

    fn of_family(settings: &mut Settings<'_>, family: &Family) -> Result<Self> {
        let vocab_size = settings.size("vocab_size")?;
        let (size, layers) = (
            settings.size("hidden_size")?,
            settings.size("num_hidden_layers")?,
        );
        if layers > MOST_LAYERS {
            return Err(bad(format!(
                "num_hidden_layers {layers} is above {MOST_LAYERS}"
            )));
        }
        let heads = heads(settings, family, size)?;
        let stated = settings.optional_size("max_position_embeddings")?;
        let trained = stated.unwrap_or(family.positions);
        let rope = Rope::read(settings, family.theta, trained, heads.size)?;
        let positions = rope.context(settings, trained)?;
        let mut kinds = vec![LayerKind::PLAIN; layers];
        (family.read_layers)(settings, &mut kinds)?;
        Ok(Self {
            vocab_size,
            size,
            inner: settings.size("intermediate_size")?,
            heads,
            epsilon: settings.number("rms_norm_eps", family.epsilon)?,
            positions: capped(settings, positions),
            rope,
            activation: activation(settings)?,
            tied: settings.flag("tie_word_embeddings", family.tied)?,
            biases: Biases::read(settings, family)?,
            head_norms: family.head_norms,
            stored: family.stored,
            layers: kinds,
            warnings: Vec::new(),
        })
    }

    /// Refuses what no forward pass can be built from, and unread settings that change one.
    fn checked(self, settings: Settings<'_>, keys: &Keys) -> Result<Self> {
        let Heads { queries, kv, size } = self.heads;
        refuse_zeros(&[
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.size),
            ("intermediate_size", self.inner),
            ("num_hidden_layers", self.layers.len()),
            ("num_attention_heads", queries),
            ("num_key_value_heads", kv),
            ("head_dim", size),
            ("max_position_embeddings", self.positions),
        ])?;
        check_vocabulary(self.vocab_size)?;
        if !queries.is_multiple_of(kv) {
            return Err(bad(format!(
                "{queries} attention heads cannot share {kv} key-value heads evenly"
            )));
        }
        if !size.is_multiple_of(2) {
            return Err(bad(format!(
                "heads of the odd size {size} cannot be rotated"
            )));
        }
        let rotations = product(&[self.positions, size, size_of::<f32>()]);
        if rotations > LARGEST_FORWARD {
            return Err(bad(format!(
                "max_position_embeddings is {}, whose rotations take {} GB, and {} GB are taken at most",
                self.positions,
                rotations / 1_000_000_000,
                LARGEST_FORWARD / 1_000_000_000
            )));
        }
        if !(self.epsilon.is_finite() && self.epsilon >= 0.0) {
            return Err(bad(format!("rms_norm_eps is {}", self.epsilon)));
        }
        Ok(Self {
            warnings: settings.finish(keys)?,
            ..self
        })
    }

    /// Weights that one forward reads, embeddings of single tokens aside.
    pub(crate) fn parameters_per_forward(&self) -> usize {
        let Heads { queries, kv, size } = self.heads;
        let (queries, keys_values) = (product(&[queries, size]), product(&[2, kv, size]));
        let attention = product(&[self.size, sum(&[queries, queries, keys_values])]);
        let feed_forward = product(&[3, self.size, self.inner]);
        let count = |there: bool, count: usize| if there { count } else { 0 };
        let biases = sum(&[
            count(self.biases.qkv, sum(&[queries, keys_values])),
            count(self.biases.output, self.size),
            count(self.biases.mlp, 2 * self.inner + self.size),
        ]);
        let norms = 2 * self.size + count(self.head_norms, 2 * size);
        let layer = sum(&[attention, feed_forward, biases, norms]);
        let head = product(&[self.size, self.vocab_size]);
        sum(&[product(&[self.layers.len(), layer]), self.size, head])
    }

    /// Weights of the whole model; a tied head counts once.
    pub(crate) fn parameters(&self) -> usize {
        let embedding = if self.tied {
            0
        } else {
            product(&[self.size, self.vocab_size])
        };
        sum(&[self.parameters_per_forward(), embedding])
    }

    /// What the user should know of settings that were not read, and of limits that follow from
    /// others, in sentences.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

fn activation(settings: &mut Settings<'_>) -> Result<Activation> {
    match settings.text("hidden_act", "silu")? {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" | "gelu_new" => Ok(Activation::Gelu),
        "gelu" => Ok(Activation::GeluErf),
        "relu" => Ok(Activation::Relu),
        other => Err(unsupported(format!(
            "hidden_act {other:?} (\"silu\", \"gelu\", \"gelu_pytorch_tanh\" and \"relu\" are)"
        ))),
    }
}

fn capped(settings: &mut Settings<'_>, positions: usize) -> usize {
    if positions > MOST_POSITIONS {
        settings.warn(format!(
            "config.json allows {positions} positions; contexts end at {MOST_POSITIONS} here"
        ));
    }
    positions.min(MOST_POSITIONS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(settings: Value) -> Result<DecoderConfig> {
        let mut config = json!({"model_type": "llama", "vocab_size": 10, "hidden_size": 8,
            "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4});
        let entries = settings.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(entries);
        DecoderConfig::read(&config)
    }

    /// Windows of the layers.
    fn windows(config: &DecoderConfig) -> Vec<usize> {
        let windows = config.layers.iter().map(|layer| layer.window);
        windows
            .map(|window| window.map_or(0, NonZeroUsize::get))
            .collect()
    }

    #[test]
    fn what_is_absent_is_as_in_the_class() {
        let llama = read(json!({})).unwrap();
        let heads = |queries, kv, size| Heads { queries, kv, size };
        assert_eq!(llama.heads, heads(4, 4, 2));
        assert_eq!(
            (llama.positions, llama.epsilon, llama.tied),
            (2048, 1e-6, false)
        );
        assert_eq!(windows(&llama), [0, 0]);
        assert!(!llama.biases.qkv && llama.warnings().is_empty());

        let null = json!({"num_key_value_heads": null, "head_dim": null, "model_type": "mistral"});
        assert_eq!(read(null).unwrap().heads, heads(4, 4, 2));
        let eight = json!({"model_type": "mistral", "num_attention_heads": 16, "hidden_size": 32});
        let mistral = read(eight).unwrap();
        assert_eq!(
            (mistral.heads, mistral.positions),
            (heads(16, 8, 2), 131_072)
        );
        assert_eq!(windows(&mistral), [4096; 2]);
        let none =
            json!({"model_type": "mistral", "num_key_value_heads": 4, "sliding_window": null});
        assert_eq!(windows(&read(none).unwrap()), [0; 2]);

        let qwen3 = json!({"model_type": "qwen3", "num_attention_heads": 32});
        let qwen3 = read(qwen3).unwrap();
        assert_eq!((qwen3.heads, qwen3.head_norms), (heads(32, 32, 128), true));
        assert_eq!(windows(&qwen3), [0; 2]);
        let smollm3 = read(json!({"model_type": "smollm3"})).unwrap();
        assert_eq!((smollm3.heads.kv, smollm3.tied), (4, true));
        let phi3 = read(json!({"model_type": "phi3"})).unwrap();
        assert_eq!((phi3.epsilon, phi3.positions), (1e-5, 4096));
    }

    #[test]
    fn layers_differ_as_they_are_listed() {
        let qwen2 = |settings: Value| {
            let mut all = json!({"model_type": "qwen2", "num_key_value_heads": 4,
                "num_hidden_layers": 3, "sliding_window": 7});
            let entries = settings.as_object().unwrap().clone();
            all.as_object_mut().unwrap().extend(entries);
            read(all)
        };
        assert_eq!(windows(&qwen2(json!({})).unwrap()), [0; 3]);
        let used = json!({"use_sliding_window": true, "max_window_layers": 2});
        assert_eq!(windows(&qwen2(used).unwrap()), [0, 0, 7]);
        let listed = json!({"use_sliding_window": true,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]});
        assert_eq!(windows(&qwen2(listed).unwrap()), [7, 0, 7]);
        for (layers, word) in [
            (json!(["full_attention"]), "1 entries for 3 layers"),
            (json!(["linear_attention", "a", "b"]), "linear_attention"),
        ] {
            let message = qwen2(json!({"layer_types": layers}))
                .unwrap_err()
                .to_string();
            assert!(message.contains(word), "{message}");
        }

        let smollm3 = json!({"model_type": "smollm3", "num_hidden_layers": 5});
        let rotated: Vec<bool> = read(smollm3)
            .unwrap()
            .layers
            .iter()
            .map(|layer| layer.rotated)
            .collect();
        assert_eq!(rotated, [true, true, true, false, true]);
        let listed = json!({"model_type": "smollm3", "no_rope_layers": [0, 1],
            "use_sliding_window": true, "sliding_window": 5});
        let listed = read(listed).unwrap();
        assert_eq!(
            (listed.layers[0].rotated, windows(&listed)),
            (false, vec![5, 0])
        );
    }

    #[test]
    fn refuses_what_no_forward_can_be_built_from() {
        for (settings, word) in [
            (json!({"hidden_act": "quick_gelu"}), "quick_gelu"),
            (json!({"num_key_value_heads": 3}), "3 key-value heads"),
            (json!({"head_dim": 3}), "odd size 3"),
            (json!({"rms_norm_eps": -1.0}), "rms_norm_eps is -1"),
            (
                json!({"num_hidden_layers": 20_000}),
                "num_hidden_layers 20000",
            ),
            (
                json!({"max_position_embeddings": 0}),
                "max_position_embeddings",
            ),
            (json!({"model_type": "mixtral"}), "mixtral"),
            (
                json!({"model_type": "mistral", "num_key_value_heads": 4,
                "layer_types": ["full_attention", "sliding_attention"]}),
                "layer_types",
            ),
            (
                json!({"model_type": "phi3", "partial_rotary_factor": 0.75}),
                "partial_rotary_factor",
            ),
            (
                json!({"model_type": "qwen2", "num_key_value_heads": 4, "attention_bias": false,
                "num_experts": 60}),
                "num_experts",
            ),
        ] {
            let message = read(settings).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn nothing_overflows() {
        let huge = 1u64 << 31;
        let config = read(json!({"hidden_size": huge, "intermediate_size": huge,
            "head_dim": 8, "num_hidden_layers": 10_000, "max_position_embeddings": huge}))
        .unwrap();
        assert_eq!(config.parameters(), usize::MAX);
        assert_eq!(config.positions, MOST_POSITIONS);
        assert!(config.warnings()[0].contains("1048576"));
        let wide = read(json!({"head_dim": huge})).unwrap_err().to_string();
        assert!(wide.contains("rotations take"), "{wide}");
    }
}
