//! The settings of T5.

use cascade_core::TokenId;
use serde::Deserialize;

use crate::Result;

/// The settings of a T5 checkpoint's config.json that its forward pass depends on. Unknown settings
/// are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct T5Config {
    /// Rows of the embedding, and columns of the logits.
    pub vocab_size: usize,
    /// Size of the residual stream.
    pub d_model: usize,
    /// Size of one head.
    pub d_kv: usize,
    /// Inner size of the feed-forward layers.
    pub d_ff: usize,
    /// Layers of the encoder.
    pub num_layers: usize,
    /// Layers of the decoder; as many as the encoder has if absent.
    #[serde(default)]
    pub num_decoder_layers: Option<usize>,
    /// Heads of every attention.
    pub num_heads: usize,
    /// Buckets of the relative-position bias.
    #[serde(default = "default_num_buckets")]
    pub relative_attention_num_buckets: usize,
    /// Distance from which on all share the last bucket.
    #[serde(default = "default_max_distance")]
    pub relative_attention_max_distance: usize,
    /// Added to the mean square in norms.
    #[serde(default = "default_epsilon")]
    pub layer_norm_epsilon: f64,
    /// Form of the feed-forward layers.
    #[serde(default)]
    pub feed_forward_proj: FeedForwardProj,
    /// Whether the embedding is the output head too. Absent means yes, as it is in T5 v1.0.
    #[serde(default = "default_tied")]
    pub tie_word_embeddings: bool,
    /// Whether hidden states are scaled by d_model^-0.5 before the head; if absent, whether
    /// embeddings are tied. transformers 5 writes it for every T5, with tied embeddings even where
    /// the checkpoint has a head of its own.
    #[serde(default)]
    pub scale_decoder_outputs: Option<bool>,
    /// The token that every decoder sequence starts with; the pad token if absent.
    #[serde(default)]
    pub decoder_start_token_id: Option<TokenId>,
    /// The pad token; 0 if absent.
    #[serde(default)]
    pub pad_token_id: Option<TokenId>,
}

/// Form of a T5 feed-forward layer, by its name in config.json.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub enum FeedForwardProj {
    /// T5 v1.0: one projection and a rectifier.
    #[default]
    #[serde(rename = "relu")]
    Relu,
    /// T5 v1.1 and FLAN-T5: a projection gated by the tanh form of GELU.
    #[serde(rename = "gated-gelu")]
    GatedGelu,
    /// A projection gated by SiLU.
    #[serde(rename = "gated-silu")]
    GatedSilu,
}

fn default_num_buckets() -> usize {
    32
}

fn default_max_distance() -> usize {
    128
}

fn default_epsilon() -> f64 {
    1e-6
}

fn default_tied() -> bool {
    true
}

impl T5Config {
    /// Weights that one forward of the decoder reads, embeddings of single tokens aside: everything
    /// of the decoder but the keys and values of cross-attention, which are computed once per
    /// source, and the head.
    pub fn parameters_per_forward(&self) -> usize {
        let inner = self.num_heads * self.d_kv;
        let attention = 4 * self.d_model * inner;
        let cross = 2 * self.d_model * inner;
        let feed_forward = self.feed_forward_projections() * self.d_model * self.d_ff;
        let norms = 3 * self.d_model;
        let layer = attention + cross + feed_forward + norms;
        self.decoder_layers() * layer + self.d_model + self.d_model * self.vocab_size
    }

    /// Weights of the whole model; a tied head counts once.
    pub fn parameters(&self) -> usize {
        let inner = self.num_heads * self.d_kv;
        let attention = 4 * self.d_model * inner;
        let feed_forward = self.feed_forward_projections() * self.d_model * self.d_ff;
        let encoder_layer = attention + feed_forward + 2 * self.d_model;
        let decoder_layer = 2 * attention + feed_forward + 3 * self.d_model;
        // What is there once in each stack: the bias of positions and the last norm.
        let stack = self.relative_attention_num_buckets * self.num_heads + self.d_model;
        let tables = if self.tie_word_embeddings { 1 } else { 2 };
        self.num_layers * encoder_layer
            + self.decoder_layers() * decoder_layer
            + 2 * stack
            + tables * self.vocab_size * self.d_model
    }

    fn feed_forward_projections(&self) -> usize {
        match self.feed_forward_proj {
            FeedForwardProj::Relu => 2,
            FeedForwardProj::GatedGelu | FeedForwardProj::GatedSilu => 3,
        }
    }

    /// Whether hidden states are scaled by d_model^-0.5 before the head.
    pub fn scales_outputs(&self) -> bool {
        self.scale_decoder_outputs
            .unwrap_or(self.tie_word_embeddings)
    }

    /// The token that every decoder sequence starts with.
    pub fn decoder_start(&self) -> TokenId {
        self.decoder_start_token_id
            .or(self.pad_token_id)
            .unwrap_or(0)
    }

    /// Layers of the decoder.
    pub fn decoder_layers(&self) -> usize {
        self.num_decoder_layers.unwrap_or(self.num_layers)
    }

    /// Refuses settings that no forward pass can be built from.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for the first such setting.
    pub fn validate(&self) -> Result<()> {
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
            return Err(crate::checks::bad(format!(
                "relative_attention_num_buckets {buckets} and relative_attention_max_distance \
                 {distance} leave no room for logarithmic buckets"
            )));
        }
        if self.decoder_start() as usize >= self.vocab_size {
            return Err(crate::checks::bad(format!(
                "decoder_start_token_id {} is outside the vocabulary of {}",
                self.decoder_start(),
                self.vocab_size
            )));
        }
        Ok(())
    }
}

/// The bucket that a relative position (key minus query) falls into; T5's rule, the logarithm in
/// f32 as in the reference implementation.
///
/// Half of the buckets (of each direction, if `bidirectional`) hold one distance each; the others
/// grow logarithmically up to `max_distance`, and the last holds everything beyond. Without
/// `bidirectional`, keys ahead of the query count as distance 0.
pub fn relative_position_bucket(
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
    use super::*;

    fn config(json: &str) -> serde_json::Result<T5Config> {
        serde_json::from_str(json)
    }

    const SIZES: &str =
        r#""vocab_size": 10, "d_model": 4, "d_kv": 2, "d_ff": 8, "num_layers": 2, "num_heads": 2"#;

    #[test]
    fn what_is_absent_is_as_in_v1_0() {
        let config = config(&format!("{{{SIZES}, \"n_positions\": 512}}")).unwrap();
        assert!(config.tie_word_embeddings);
        assert_eq!(config.feed_forward_proj, FeedForwardProj::Relu);
        assert_eq!((config.decoder_layers(), config.decoder_start()), (2, 0));
        config.validate().unwrap();
    }

    #[test]
    fn refuses_settings_that_make_no_sense() {
        let unknown = config(&format!("{{{SIZES}, \"feed_forward_proj\": \"swish\"}}"));
        let message = unknown.unwrap_err().to_string();
        assert!(
            message.contains("swish") && message.contains("gated-gelu"),
            "{message}"
        );

        for (setting, name) in [
            ("\"num_decoder_layers\": 0", "num_decoder_layers"),
            ("\"decoder_start_token_id\": 10", "decoder_start_token_id"),
            ("\"relative_attention_num_buckets\": 2", "num_buckets"),
        ] {
            let config = config(&format!("{{{SIZES}, {setting}}}")).unwrap();
            let message = config.validate().unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
    }

    #[test]
    fn buckets_are_exact_nearby_and_logarithmic_far_away() {
        let causal = |relative| relative_position_bucket(relative, false, 32, 128);
        assert_eq!(causal(5), 0);
        assert_eq!(
            (0..16).map(|d| causal(-d)).collect::<Vec<_>>(),
            (0..16).collect::<Vec<_>>()
        );
        assert_eq!(
            (causal(-16), causal(-32), causal(-127), causal(-128)),
            (16, 21, 31, 31)
        );
        let both = |relative| relative_position_bucket(relative, true, 32, 128);
        assert_eq!(
            (both(0), both(-7), both(7), both(-128), both(128)),
            (0, 7, 23, 15, 31)
        );
        assert_eq!((both(-8), both(8), both(16)), (8, 24, 26));
    }
}
