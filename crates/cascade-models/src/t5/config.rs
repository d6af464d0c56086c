//! The settings of T5.

use cascade_core::TokenId;
use serde_json::Value;

use crate::Result;
use crate::backend::Activation;
use crate::checks::{bad, product, sum};
use crate::settings::{self, Settings};

/// The settings of a T5 checkpoint's config.json that its forward pass depends on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct T5Config {
    /// Rows of the embedding, and columns of the logits.
    pub(crate) vocab_size: usize,
    /// Size of the residual stream.
    pub(crate) d_model: usize,
    /// Size of one head.
    pub(crate) d_kv: usize,
    /// Inner size of the feed-forward layers.
    pub(crate) d_ff: usize,
    /// Layers of the encoder.
    pub(crate) num_layers: usize,
    /// Layers of the decoder; as many as the encoder has if absent.
    pub(crate) num_decoder_layers: Option<usize>,
    /// Heads of every attention.
    pub(crate) num_heads: usize,
    /// Buckets of the relative-position bias.
    pub(crate) relative_attention_num_buckets: usize,
    /// Distance from which on all share the last bucket.
    pub(crate) relative_attention_max_distance: usize,
    /// Added to the mean square in norms.
    pub(crate) layer_norm_epsilon: f64,
    /// Form of the feed-forward layers.
    pub(crate) feed_forward_proj: FeedForwardProj,
    /// Whether the embedding is the output head too. Absent means yes, as it is in T5 v1.0.
    pub(crate) tie_word_embeddings: bool,
    /// Whether hidden states are scaled by d_model^-0.5 before the head; if absent, whether
    /// embeddings are tied. transformers 5 writes it for every T5, with tied embeddings even where
    /// the checkpoint has a head of its own.
    pub(crate) scale_decoder_outputs: Option<bool>,
    /// The token that every decoder sequence starts with; the pad token if absent.
    pub(crate) decoder_start_token_id: Option<TokenId>,
    /// The pad token; 0 if absent.
    pub(crate) pad_token_id: Option<TokenId>,
    pub(crate) warnings: Vec<String>,
}

/// Form of a T5 feed-forward layer: one projection, or one that gates another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedForwardProj {
    pub(crate) activation: Activation,
    pub(crate) gated: bool,
}

impl FeedForwardProj {
    /// Reads its name in config.json.
    fn read(name: &str) -> Result<Self> {
        let gated = name.strip_prefix("gated-");
        let activation = match gated.unwrap_or(name) {
            "relu" => Activation::Relu,
            "gelu_new" | "gelu_pytorch_tanh" => Activation::Gelu,
            // Behind a gate transformers reads "gelu" as the tanh form, and else as the exact one.
            "gelu" if gated.is_some() => Activation::Gelu,
            "gelu" => Activation::GeluErf,
            "silu" | "swish" => Activation::Silu,
            _ => {
                return Err(bad(format!(
                    "feed_forward_proj is {name:?}, which is not one of \"relu\", \"gelu\", \
                     \"gelu_new\", \"silu\", \"gated-relu\", \"gated-gelu\" and \"gated-silu\""
                )));
            }
        };
        Ok(Self {
            activation,
            gated: gated.is_some(),
        })
    }

    /// What transformers calls the nonlinearity.
    fn is_called(self, name: &str) -> bool {
        match self.activation {
            Activation::Relu => name == "relu",
            Activation::Gelu => matches!(name, "gelu_new" | "gelu_pytorch_tanh"),
            Activation::GeluErf => name == "gelu",
            Activation::Silu => matches!(name, "silu" | "swish"),
        }
    }
}

/// The classes that a config.json of T5 is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum T5Class {
    /// T5, FLAN-T5, UL2.
    T5,
    /// mT5, whose head is its own.
    Mt5,
}

impl T5Class {
    /// The class of a config.json, by its `model_type`, or by its `architectures` if it has none.
    pub(crate) fn of(config: &Value) -> Option<Self> {
        match config["model_type"].as_str() {
            Some("t5") => Some(Self::T5),
            Some("mt5") => Some(Self::Mt5),
            Some(_) => None,
            None => match config["architectures"][0].as_str() {
                Some("T5ForConditionalGeneration" | "T5WithLMHeadModel") => Some(Self::T5),
                Some("MT5ForConditionalGeneration") => Some(Self::Mt5),
                _ => None,
            },
        }
    }
}

/// The greatest relative_attention_max_distance: a bias is kept for each distance up to it.
/// Released models have 128.
const FARTHEST: usize = 1 << 20;

impl T5Config {
    /// Reads the content of a config.json.
    ///
    /// # Errors
    /// [`Error::Config`] for the first setting that no forward pass can be built from, or that
    /// changes one in a way there is no code for.
    pub(crate) fn read(config: &Value) -> Result<Self> {
        let class = T5Class::of(config).unwrap_or(T5Class::T5);
        let mut settings = Settings::new(config)?;
        let read = Self::settings(&mut settings, class)?;
        read.validate()?;
        Ok(Self {
            warnings: settings.finish(&settings::T5)?,
            ..read
        })
    }

    fn settings(settings: &mut Settings<'_>, class: T5Class) -> Result<Self> {
        let tied = settings.flag("tie_word_embeddings", true)?;
        let mut scaled =
            settings.optional("scale_decoder_outputs", "true or false", Value::as_bool)?;
        if class == T5Class::Mt5 && scaled.is_none() {
            scaled = Some(tied && scales_tied_mt5(settings)?);
        }
        let token = |value: &Value| TokenId::try_from(value.as_u64()?).ok();
        Ok(Self {
            vocab_size: settings.size("vocab_size")?,
            d_model: settings.size("d_model")?,
            d_kv: settings.size("d_kv")?,
            d_ff: settings.size("d_ff")?,
            num_layers: settings.size("num_layers")?,
            num_decoder_layers: settings.optional_size("num_decoder_layers")?,
            num_heads: settings.size("num_heads")?,
            relative_attention_num_buckets: settings
                .optional_size("relative_attention_num_buckets")?
                .unwrap_or(32),
            relative_attention_max_distance: settings
                .optional_size("relative_attention_max_distance")?
                .unwrap_or(128),
            layer_norm_epsilon: settings.number("layer_norm_epsilon", 1e-6)?,
            feed_forward_proj: feed_forward(settings, class)?,
            tie_word_embeddings: tied,
            scale_decoder_outputs: scaled,
            decoder_start_token_id: settings.optional(
                "decoder_start_token_id",
                "a token",
                token,
            )?,
            pad_token_id: settings.optional("pad_token_id", "a token", token)?,
            warnings: Vec::new(),
        })
    }

    /// What the user should know of settings, in sentences.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Weights that one forward of the decoder reads, embeddings of single tokens aside: everything
    /// of the decoder but the keys and values of cross-attention, which are computed once per
    /// source, and the head.
    pub(crate) fn parameters_per_forward(&self) -> usize {
        let norms = 3 * self.d_model;
        let cross = product(&[2, self.d_model, self.inner()]);
        let layer = sum(&[self.attention(), cross, self.feed_forwards(), norms]);
        let head = product(&[self.d_model, self.vocab_size]);
        sum(&[product(&[self.decoder_layers(), layer]), self.d_model, head])
    }

    /// Weights of the whole model; a tied head counts once.
    pub(crate) fn parameters(&self) -> usize {
        let (attention, feed_forward) = (self.attention(), self.feed_forwards());
        let encoder_layer = sum(&[attention, feed_forward, 2 * self.d_model]);
        let decoder_layer = sum(&[attention, attention, feed_forward, 3 * self.d_model]);
        // What is there once in each stack: the bias of positions and the last norm.
        let bias = product(&[self.relative_attention_num_buckets, self.num_heads]);
        let tables = if self.tie_word_embeddings { 1 } else { 2 };
        sum(&[
            product(&[self.num_layers, encoder_layer]),
            product(&[self.decoder_layers(), decoder_layer]),
            product(&[2, sum(&[bias, self.d_model])]),
            product(&[tables, self.vocab_size, self.d_model]),
        ])
    }

    /// Outputs of all heads together.
    pub(super) fn inner(&self) -> usize {
        product(&[self.num_heads, self.d_kv])
    }

    /// Weights of an attention.
    fn attention(&self) -> usize {
        product(&[4, self.d_model, self.inner()])
    }

    /// Weights of a feed-forward.
    fn feed_forwards(&self) -> usize {
        product(&[self.feed_forward_projections(), self.d_model, self.d_ff])
    }

    fn feed_forward_projections(&self) -> usize {
        if self.feed_forward_proj.gated { 3 } else { 2 }
    }

    /// Whether hidden states are scaled by d_model^-0.5 before the head.
    pub(crate) fn scales_outputs(&self) -> bool {
        self.scale_decoder_outputs
            .unwrap_or(self.tie_word_embeddings)
    }

    /// What hidden states are multiplied with before the head.
    pub(crate) fn output_scale(&self) -> Option<f64> {
        let scale = (self.d_model as f64).powf(-0.5);
        self.scales_outputs().then_some(scale)
    }

    /// The token that every decoder sequence starts with.
    pub(crate) fn decoder_start(&self) -> TokenId {
        self.decoder_start_token_id
            .or(self.pad_token_id)
            .unwrap_or(0)
    }

    /// Layers of the decoder.
    pub(crate) fn decoder_layers(&self) -> usize {
        self.num_decoder_layers.unwrap_or(self.num_layers)
    }

    /// Refuses settings that no forward pass can be built from.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for the first such setting.
    pub(crate) fn validate(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("d_model", self.d_model),
            ("d_kv", self.d_kv),
            ("d_ff", self.d_ff),
            ("num_layers", self.num_layers),
            ("num_decoder_layers", self.decoder_layers()),
            ("num_heads", self.num_heads),
        ];
        crate::checks::refuse_zeros(&sizes)?;
        crate::checks::check_vocabulary(self.vocab_size)?;
        let (buckets, distance) = (
            self.relative_attention_num_buckets,
            self.relative_attention_max_distance,
        );
        if buckets < 4 || distance <= buckets / 2 {
            return Err(bad(format!(
                "relative_attention_num_buckets {buckets} and relative_attention_max_distance \
                 {distance} leave no room for logarithmic buckets"
            )));
        }
        if distance > FARTHEST {
            return Err(bad(format!(
                "relative_attention_max_distance is {distance}, and {FARTHEST} is the most that is taken"
            )));
        }
        if self.decoder_start() as usize >= self.vocab_size {
            return Err(bad(format!(
                "decoder_start_token_id {} is outside the vocabulary of {}",
                self.decoder_start(),
                self.vocab_size
            )));
        }
        Ok(())
    }
}

/// The form of the feed-forward layers, which is said twice.
fn feed_forward(settings: &mut Settings<'_>, class: T5Class) -> Result<FeedForwardProj> {
    let absent = match class {
        T5Class::T5 => "relu",
        T5Class::Mt5 => "gated-gelu",
    };
    let name = settings.text("feed_forward_proj", absent)?;
    let form = FeedForwardProj::read(name)?;
    let called = settings.optional("dense_act_fn", "a text", Value::as_str)?;
    let gated = settings.flag("is_gated_act", form.gated)?;
    match called {
        Some(other) if !form.is_called(other) => Err(bad(format!(
            "feed_forward_proj {name:?} and dense_act_fn {other:?} contradict each other"
        ))),
        _ if gated != form.gated => Err(bad(format!(
            "feed_forward_proj {name:?} and is_gated_act {gated} contradict each other"
        ))),
        _ => Ok(form),
    }
}

/// Whether hidden states of an mT5 with a tied head are scaled. The released ones have heads of
/// their own, so that nothing but the version of transformers that saved it decides.
fn scales_tied_mt5(settings: &mut Settings<'_>) -> Result<bool> {
    let version = settings.text("transformers_version", "4")?;
    let major = version
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    let scales = major.unwrap_or(4u64) < 5;
    if scales {
        settings.warn(
            "config.json describes an mT5 whose head is its embedding: transformers 4, which saved \
             it, scales hidden states by d_model^-0.5 before the head, and so it is done here; \
             transformers 5 does not: if that is meant, add \"scale_decoder_outputs\": false"
                .to_owned(),
        );
    }
    Ok(scales)
}

/// The bucket that a relative position (key minus query) falls into; T5's rule, the logarithm in
/// f32 as in the reference implementation.
///
/// Half of the buckets (of each direction, if `bidirectional`) hold one distance each; the others
/// grow logarithmically up to `max_distance`, and the last holds everything beyond. Without
/// `bidirectional`, keys ahead of the query count as distance 0.
pub(crate) fn relative_position_bucket(
    relative_position: i64,
    bidirectional: bool,
    num_buckets: usize,
    max_distance: usize,
) -> u32 {
    let (buckets, offset, distance) = if bidirectional {
        let half = num_buckets / 2;
        let offset = if relative_position > 0 { half } else { 0 };
        (half, offset, relative_position.unsigned_abs() as usize)
    } else {
        let distance = relative_position.min(0).unsigned_abs() as usize;
        (num_buckets, 0, distance)
    };
    let exact = buckets / 2;
    if distance < exact {
        return (offset + distance) as u32;
    }
    let span = (max_distance as f64 / exact as f64).ln() as f32;
    let growth = (distance as f32 / exact as f32).ln() / span * (buckets - exact) as f32;
    (offset + (exact + growth as usize).min(buckets - 1)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use super::*;

    fn config(settings: Value) -> Result<T5Config> {
        let mut config = json!({"vocab_size": 10, "d_model": 4, "d_kv": 2, "d_ff": 8,
            "num_layers": 2, "num_heads": 2});
        let entries = settings.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(entries);
        T5Config::read(&config)
    }

    fn form(activation: Activation, gated: bool) -> FeedForwardProj {
        FeedForwardProj { activation, gated }
    }

    #[test]
    fn what_is_absent_is_as_in_v1_0() {
        let config = config(json!({"n_positions": 512})).unwrap();
        assert!(config.tie_word_embeddings && config.scales_outputs());
        assert_eq!(config.feed_forward_proj, form(Activation::Relu, false));
        assert_eq!((config.decoder_layers(), config.decoder_start()), (2, 0));
        assert!(config.warnings().is_empty());
    }

    #[test]
    fn forms_of_feed_forwards() {
        for (name, dense, gated, expected) in [
            ("relu", "relu", false, form(Activation::Relu, false)),
            ("gelu", "gelu", false, form(Activation::GeluErf, false)),
            ("gated-gelu", "gelu_new", true, form(Activation::Gelu, true)),
            ("gated-silu", "silu", true, form(Activation::Silu, true)),
        ] {
            let stated = json!({"feed_forward_proj": name, "dense_act_fn": dense,
                "is_gated_act": gated});
            assert_eq!(config(stated).unwrap().feed_forward_proj, expected);
        }
        assert!(config(json!({"feed_forward_proj": "gelu", "dense_act_fn": "gelu_new"})).is_err());
        assert!(config(json!({"feed_forward_proj": "gated-tanh"})).is_err());
    }

    #[test]
    fn mt5_has_a_head_of_its_own() {
        let mt5 = |settings: Value| {
            let mut all = json!({"model_type": "mt5"});
            let entries = settings.as_object().unwrap().clone();
            all.as_object_mut().unwrap().extend(entries);
            config(all).unwrap()
        };
        let released = mt5(json!({"tie_word_embeddings": false}));
        assert_eq!(released.feed_forward_proj, form(Activation::Gelu, true));
        assert!(!released.scales_outputs() && released.warnings().is_empty());
        let five = mt5(json!({"tie_word_embeddings": true, "transformers_version": "5.23.0"}));
        assert!(!five.scales_outputs() && five.warnings().is_empty());
        let four = mt5(json!({"tie_word_embeddings": true, "transformers_version": "4.46.3"}));
        assert!(four.scales_outputs());
        assert!(four.warnings()[0].contains("scale_decoder_outputs"));
    }

    #[test]
    fn refuses_settings_that_make_no_sense() {
        for (settings, words) in [
            (
                json!({"feed_forward_proj": "swoosh"}),
                ["swoosh", "gated-gelu"],
            ),
            (
                json!({"feed_forward_proj": "gated-gelu", "dense_act_fn": "relu"}),
                ["dense_act_fn", "contradict"],
            ),
            (
                json!({"is_gated_act": true}),
                ["is_gated_act", "contradict"],
            ),
            (
                json!({"num_decoder_layers": 0}),
                ["num_decoder_layers", "0"],
            ),
            (
                json!({"decoder_start_token_id": 10}),
                ["decoder_start_token_id", "vocabulary"],
            ),
            (
                json!({"relative_attention_num_buckets": 2}),
                ["num_buckets", "2"],
            ),
            (
                json!({"is_encoder_decoder": false}),
                ["is_encoder_decoder", "supported"],
            ),
        ] {
            let message = config(settings).unwrap_err().to_string();
            for word in words {
                assert!(message.contains(word), "{message}");
            }
        }
        let unknown = config(json!({"bidirectional_window": 3})).unwrap();
        assert!(unknown.warnings()[0].contains("bidirectional_window"));
    }

    #[derive(serde::Deserialize)]
    struct Buckets {
        num_buckets: usize,
        max_distance: usize,
        relative_positions: Vec<i64>,
        buckets: Vec<u32>,
    }

    #[test]
    fn buckets_of_all_distances() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/goldens/buckets.json"
        );
        let json = std::fs::read_to_string(file).unwrap();
        let tables: HashMap<String, Vec<Buckets>> = serde_json::from_str(&json).unwrap();
        for (direction, tables) in tables {
            for table in tables {
                assert_eq!(table.relative_positions.len(), table.buckets.len());
                for (&relative, &bucket) in table.relative_positions.iter().zip(&table.buckets) {
                    let found = relative_position_bucket(
                        relative,
                        direction == "bidirectional",
                        table.num_buckets,
                        table.max_distance,
                    );
                    assert_eq!(found, bucket, "{direction}, {relative}");
                }
            }
        }
    }
}
