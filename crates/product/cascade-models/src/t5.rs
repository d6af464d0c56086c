//! T5 v1.0, T5 v1.1 and FLAN-T5 (arXiv:1910.10683), encoder and decoder.

use std::sync::Arc;

use candle_core::{DType, Device, Result as TensorResult, Tensor};
use candle_nn::VarBuilder;
use cascade_core::{Architecture, TokenId};
use serde::Deserialize;

use crate::arena::{Arena, ArenaShape};
use crate::cpu_sequence::{CpuSequence, TensorNetwork};
use crate::layers::{add, attend, split_heads, Activation, FeedForward, Linear, Norm, Weights};
use crate::mask::Plan;
use crate::network::{Network, Sequence};
use crate::Result;

/// The settings of a T5 checkpoint's config.json that its forward pass depends on. Unknown settings are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
    /// The token that every decoder sequence starts with; the pad token if absent.
    #[serde(default)]
    pub decoder_start_token_id: Option<TokenId>,
    /// The pad token; 0 if absent.
    #[serde(default)]
    pub pad_token_id: Option<TokenId>,
}

/// Form of a T5 feed-forward layer, by its name in config.json.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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
    /// Weights that one forward of the decoder reads, embeddings of single tokens aside: everything of the decoder but the
    /// keys and values of cross-attention, which are computed once per source, and the head.
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
        crate::config::refuse_zeros(&sizes)?;
        crate::config::check_vocabulary(self.vocab_size)?;
        let (buckets, distance) = (
            self.relative_attention_num_buckets,
            self.relative_attention_max_distance,
        );
        if buckets < 4 || distance <= buckets / 2 {
            return Err(crate::config::bad(format!(
                "relative_attention_num_buckets {buckets} and relative_attention_max_distance \
                 {distance} leave no room for logarithmic buckets"
            )));
        }
        if self.decoder_start() as usize >= self.vocab_size {
            return Err(crate::config::bad(format!(
                "decoder_start_token_id {} is outside the vocabulary of {}",
                self.decoder_start(),
                self.vocab_size
            )));
        }
        Ok(())
    }
}

/// The bucket that a relative position (key minus query) falls into; T5's rule, the logarithm in f32 as in the reference
/// implementation.
///
/// Half of the buckets (of each direction, if `bidirectional`) hold one distance each; the others grow logarithmically
/// up to `max_distance`, and the last holds everything beyond. Without `bidirectional`, keys ahead of the query count as
/// distance 0.
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

/// The learned bias of one stack: a function of head and relative position, the same in all layers.
#[derive(Debug)]
struct RelativeBias {
    /// `[heads, buckets + 1]`; the last column masks.
    table: Tensor,
    /// Bucket of each distance to a key behind; the last entry serves all that follow.
    behind: Vec<u32>,
    /// Bucket of each distance to a key ahead; likewise.
    ahead: Vec<u32>,
}

impl RelativeBias {
    fn load(config: &T5Config, weights: &Weights<'_>, bidirectional: bool) -> TensorResult<Self> {
        let buckets = config.relative_attention_num_buckets;
        let max_distance = config.relative_attention_max_distance;
        let bias = weights
            .pp("relative_attention_bias")
            .get((buckets, config.num_heads), "weight")?;
        let masked = Tensor::full(f32::NEG_INFINITY, (config.num_heads, 1), weights.device())?
            .to_dtype(weights.dtype())?;
        let bucket =
            |relative| relative_position_bucket(relative, bidirectional, buckets, max_distance);
        let last = 2 * max_distance as i64;
        Ok(Self {
            table: Tensor::cat(&[bias.t()?.contiguous()?, masked], 1)?,
            behind: (0..=last).map(|distance| bucket(-distance)).collect(),
            ahead: (0..=last).map(bucket).collect(),
        })
    }

    /// Bias and mask of a decoder forward: `[heads, rows, keys]`.
    fn of_plan(&self, plan: &Plan<'_>) -> TensorResult<Tensor> {
        let masked = (self.table.dims()[1] - 1) as u32;
        let last = self.behind.len() - 1;
        let buckets = plan.table(masked, |distance| self.behind[distance.min(last)]);
        self.look_up(&buckets, plan.rows(), plan.keys())
    }

    /// Bias of an encoder forward over `rows` tokens: `[heads, rows, rows]`.
    fn all_to_all(&self, rows: usize) -> TensorResult<Tensor> {
        let bucket = |row: usize, key: usize| {
            let side = if key > row { &self.ahead } else { &self.behind };
            side[key.abs_diff(row).min(side.len() - 1)]
        };
        let buckets: Vec<u32> = (0..rows)
            .flat_map(|row| (0..rows).map(move |key| bucket(row, key)))
            .collect();
        self.look_up(&buckets, rows, rows)
    }

    fn look_up(&self, buckets: &[u32], rows: usize, keys: usize) -> TensorResult<Tensor> {
        let buckets = Tensor::new(buckets, self.table.device())?;
        let heads = self.table.dims()[0];
        self.table
            .index_select(&buckets, 1)?
            .reshape((heads, rows, keys))
    }
}

#[derive(Debug)]
struct SelfAttention {
    norm: Norm,
    /// Queries, keys and values side by side.
    qkv: Linear,
    output: Linear,
    heads: usize,
}

impl SelfAttention {
    fn load(config: &T5Config, stream: DType, weights: &Weights<'_>) -> TensorResult<Self> {
        let inner = config.num_heads * config.d_kv;
        let attention = weights.pp("SelfAttention");
        Ok(Self {
            norm: layer_norm(config, stream, weights)?,
            qkv: attention.fused(config.d_model, &[("q", inner), ("k", inner), ("v", inner)])?,
            output: attention.linear(inner, config.d_model, "o")?,
            heads: config.num_heads,
        })
    }

    /// Queries `[heads, rows, d_kv]`, and keys and values `[2, heads, rows, d_kv]`, both contiguous.
    fn project(&self, stream: &Tensor) -> TensorResult<(Tensor, Tensor)> {
        let heads = self.heads;
        let qkv = split_heads(&self.qkv.forward(&self.norm.forward(stream)?)?, 3 * heads)?;
        let (_, rows, head_dim) = qkv.dims3()?;
        let queries = qkv.narrow(0, 0, heads)?;
        let keys_values = qkv.narrow(0, heads, 2 * heads)?;
        Ok((queries, keys_values.reshape((2, heads, rows, head_dim))?))
    }

    /// Attention among the rows themselves.
    fn encode(&self, stream: &Tensor, bias: &Tensor) -> TensorResult<Tensor> {
        let (queries, keys_values) = self.project(stream)?;
        let mixed = attend(&queries, &keys_values, Some(bias))?;
        add(stream, &self.output.forward(&mixed)?)
    }

    /// Attention to the arena, which gets the rows first.
    fn decode(
        &self,
        stream: &Tensor,
        bias: &Tensor,
        arena: &Arena,
        layer: usize,
    ) -> TensorResult<Tensor> {
        let (queries, keys_values) = self.project(stream)?;
        arena.write(2 * layer, &keys_values)?;
        let keys = bias.dims()[2];
        let mixed = attend(&queries, &arena.keys_values(layer, keys)?, Some(bias))?;
        add(stream, &self.output.forward(&mixed)?)
    }
}

#[derive(Debug)]
struct CrossAttention {
    norm: Norm,
    queries: Linear,
    /// Keys and values of the source side by side.
    keys_values: Linear,
    output: Linear,
    heads: usize,
}

impl CrossAttention {
    fn load(config: &T5Config, stream: DType, weights: &Weights<'_>) -> TensorResult<Self> {
        let inner = config.num_heads * config.d_kv;
        let attention = weights.pp("EncDecAttention");
        Ok(Self {
            norm: layer_norm(config, stream, weights)?,
            queries: attention.linear(config.d_model, inner, "q")?,
            keys_values: attention.fused(config.d_model, &[("k", inner), ("v", inner)])?,
            output: attention.linear(inner, config.d_model, "o")?,
            heads: config.num_heads,
        })
    }

    /// Keys and values of an encoded source: `[2, heads, source, d_kv]`.
    fn read_source(&self, encoded: &Tensor) -> TensorResult<Tensor> {
        let both = split_heads(&self.keys_values.forward(encoded)?, 2 * self.heads)?;
        let (_, source, head_dim) = both.dims3()?;
        both.reshape((2, self.heads, source, head_dim))
    }

    fn decode(&self, stream: &Tensor, source: &Tensor) -> TensorResult<Tensor> {
        let queries = self.queries.forward(&self.norm.forward(stream)?)?;
        let mixed = attend(&split_heads(&queries, self.heads)?, source, None)?;
        add(stream, &self.output.forward(&mixed)?)
    }
}

#[derive(Debug)]
struct FeedForwardLayer {
    norm: Norm,
    inner: FeedForward,
}

impl FeedForwardLayer {
    fn load(config: &T5Config, stream: DType, weights: &Weights<'_>) -> TensorResult<Self> {
        let (model, inner) = (config.d_model, config.d_ff);
        let dense = weights.pp("DenseReluDense");
        // In f16 the output overflows: f32 there, as the reference implementation has it.
        let output_dtype = match weights.dtype() {
            DType::F16 => DType::F32,
            dtype => dtype,
        };
        let output = dense.with_dtype(output_dtype).linear(inner, model, "wo")?;
        let gated = |activation, output| {
            let gate_up = dense.fused(model, &[("wi_0", inner), ("wi_1", inner)])?;
            TensorResult::Ok(FeedForward::gated(gate_up, activation, output))
        };
        let inner = match config.feed_forward_proj {
            FeedForwardProj::Relu => {
                FeedForward::plain(dense.linear(model, inner, "wi")?, Activation::Relu, output)
            }
            FeedForwardProj::GatedGelu => gated(Activation::Gelu, output)?,
            FeedForwardProj::GatedSilu => gated(Activation::Silu, output)?,
        };
        Ok(Self {
            norm: layer_norm(config, stream, weights)?,
            inner,
        })
    }

    fn forward(&self, stream: &Tensor) -> TensorResult<Tensor> {
        add(stream, &self.inner.forward(&self.norm.forward(stream)?)?)
    }
}

fn layer_norm(config: &T5Config, stream: DType, weights: &Weights<'_>) -> TensorResult<Norm> {
    weights.norm(
        config.d_model,
        config.layer_norm_epsilon,
        stream,
        "layer_norm",
    )
}

fn final_norm(config: &T5Config, stream: DType, weights: &Weights<'_>) -> TensorResult<Norm> {
    weights.norm(
        config.d_model,
        config.layer_norm_epsilon,
        stream,
        "final_layer_norm",
    )
}

#[derive(Debug)]
struct Encoder {
    bias: RelativeBias,
    layers: Vec<(SelfAttention, FeedForwardLayer)>,
    norm: Norm,
}

impl Encoder {
    fn load(config: &T5Config, stream: DType, weights: &Weights<'_>) -> TensorResult<Self> {
        let block = |i: usize| weights.pp("block").pp(i).pp("layer");
        let layers = (0..config.num_layers).map(|i| {
            Ok((
                SelfAttention::load(config, stream, &block(i).pp(0))?,
                FeedForwardLayer::load(config, stream, &block(i).pp(1))?,
            ))
        });
        Ok(Self {
            layers: layers.collect::<TensorResult<_>>()?,
            bias: RelativeBias::load(config, &block(0).pp(0).pp("SelfAttention"), true)?,
            norm: final_norm(config, stream, weights)?,
        })
    }

    fn forward(&self, embedded: Tensor) -> TensorResult<Tensor> {
        let bias = self.bias.all_to_all(embedded.dim(0)?)?;
        let mut stream = embedded;
        for (attention, feed_forward) in &self.layers {
            stream = attention.encode(&stream, &bias)?;
            stream = feed_forward.forward(&stream)?;
        }
        self.norm.forward(&stream)
    }
}

#[derive(Debug)]
struct DecoderLayer {
    attention: SelfAttention,
    cross: CrossAttention,
    feed_forward: FeedForwardLayer,
}

impl DecoderLayer {
    fn load(config: &T5Config, stream: DType, weights: &Weights<'_>) -> TensorResult<Self> {
        Ok(Self {
            attention: SelfAttention::load(config, stream, &weights.pp(0))?,
            cross: CrossAttention::load(config, stream, &weights.pp(1))?,
            feed_forward: FeedForwardLayer::load(config, stream, &weights.pp(2))?,
        })
    }
}

#[derive(Debug)]
struct Decoder {
    bias: RelativeBias,
    layers: Vec<DecoderLayer>,
    norm: Norm,
}

impl Decoder {
    fn load(config: &T5Config, stream: DType, weights: &Weights<'_>) -> TensorResult<Self> {
        let block = |i: usize| weights.pp("block").pp(i).pp("layer");
        let layers =
            (0..config.decoder_layers()).map(|i| DecoderLayer::load(config, stream, &block(i)));
        Ok(Self {
            layers: layers.collect::<TensorResult<_>>()?,
            bias: RelativeBias::load(config, &block(0).pp(0).pp("SelfAttention"), false)?,
            norm: final_norm(config, stream, weights)?,
        })
    }

    fn forward(
        &self,
        embedded: Tensor,
        plan: &Plan<'_>,
        source: &[Tensor],
        arena: &Arena,
    ) -> TensorResult<Tensor> {
        let bias = self.bias.of_plan(plan)?;
        let mut stream = embedded;
        for (i, (layer, source)) in self.layers.iter().zip(source).enumerate() {
            stream = layer.attention.decode(&stream, &bias, arena, i)?;
            stream = layer.cross.decode(&stream, source)?;
            stream = layer.feed_forward.forward(&stream)?;
        }
        self.norm.forward(&stream)
    }
}

/// A T5 model: weights on a device, shared by any number of sessions.
#[derive(Debug)]
pub struct T5 {
    config: T5Config,
    /// `[vocabulary, d_model]`.
    embedding: Tensor,
    encoder: Encoder,
    decoder: Decoder,
    head: Linear,
    /// Factor on the hidden states before the head: d_model^-0.5 if it is tied.
    head_scale: Option<f64>,
    /// Type of the residual stream.
    stream: DType,
    parameters: usize,
}

impl T5 {
    /// Loads a checkpoint in the layout and with the names of Hugging Face. It computes in the type and on the device of
    /// `vb`; in f16, the residual stream and the outputs of feed-forward layers are f32.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if the configuration makes no sense, [`Error::Tensor`](crate::Error::Tensor) if a tensor is missing or has another
    /// shape than the configuration says.
    pub fn load(config: T5Config, vb: VarBuilder<'_>) -> Result<Self> {
        config.validate()?;
        let weights = Weights::new(vb);
        let stream = match weights.dtype() {
            DType::F16 => DType::F32,
            dtype => dtype,
        };
        let embedding =
            shared_embedding(&weights).get((config.vocab_size, config.d_model), "weight")?;
        let head = if config.tie_word_embeddings {
            Linear::new(embedding.clone())?
        } else {
            weights.linear(config.d_model, config.vocab_size, "lm_head")?
        };
        let encoder = Encoder::load(&config, stream, &weights.pp("encoder"))?;
        let decoder = Decoder::load(&config, stream, &weights.pp("decoder"))?;
        let head_scale = config
            .tie_word_embeddings
            .then(|| (config.d_model as f64).powf(-0.5));
        Ok(Self {
            embedding,
            encoder,
            decoder,
            head,
            head_scale,
            stream,
            parameters: weights.parameters(),
            config,
        })
    }

    /// The configuration it was loaded with.
    pub fn config(&self) -> &T5Config {
        &self.config
    }

    fn arena_shape(&self) -> ArenaShape {
        ArenaShape {
            layers: self.config.decoder_layers(),
            kv_heads: self.config.num_heads,
            head_dim: self.config.d_kv,
        }
    }

    fn device(&self) -> &Device {
        self.embedding.device()
    }

    fn embed(&self, tokens: &[TokenId]) -> TensorResult<Tensor> {
        let tokens = Tensor::new(tokens, self.device())?;
        self.embedding
            .index_select(&tokens, 0)?
            .to_dtype(self.stream)
    }
}

impl Network for T5 {
    fn architecture(&self) -> Architecture {
        Architecture::EncoderDecoder
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn num_parameters(&self) -> usize {
        self.parameters
    }

    fn bytes_per_forward(&self) -> usize {
        self.config.parameters_per_forward() * self.embedding.dtype().size_in_bytes()
    }

    fn layers(&self) -> usize {
        self.config.decoder_layers()
    }

    fn bytes_per_position(&self) -> usize {
        self.arena_shape().bytes_per_slot(self.embedding.dtype())
    }

    fn max_context(&self) -> Option<usize> {
        None
    }

    fn start(&self) -> Option<TokenId> {
        Some(self.config.decoder_start())
    }

    fn sequence(self: Arc<Self>) -> Box<dyn Sequence> {
        Box::new(CpuSequence::new(self))
    }
}

impl TensorNetwork for T5 {
    fn arena(&self) -> Arena {
        Arena::new(self.arena_shape(), self.embedding.dtype(), self.device())
    }

    /// Keys and values of every decoder layer's cross-attention: `[2, heads, source, d_kv]`. Memory is quadratic in the length of the
    /// source.
    fn encode(&self, source: &[TokenId]) -> TensorResult<Vec<Tensor>> {
        let encoded = self.encoder.forward(self.embed(source)?)?;
        let layers = self.decoder.layers.iter();
        layers
            .map(|layer| layer.cross.read_source(&encoded))
            .collect()
    }

    fn decode(&self, plan: &Plan<'_>, source: &[Tensor], arena: &Arena) -> TensorResult<Tensor> {
        let embedded = self.embed(&plan.tokens())?;
        self.decoder.forward(embedded, plan, source, arena)
    }

    fn logits(&self, hidden: &Tensor) -> TensorResult<Tensor> {
        let logits = match self.head_scale {
            Some(scale) => self.head.forward(&(hidden * scale)?)?,
            None => self.head.forward(hidden)?,
        };
        logits.to_dtype(DType::F32)
    }
}

/// Where the embedding of both stacks lies; some files have it under the name of one stack only.
fn shared_embedding<'a>(weights: &Weights<'a>) -> Weights<'a> {
    let places = [
        weights.pp("shared"),
        weights.pp("decoder").pp("embed_tokens"),
        weights.pp("encoder").pp("embed_tokens"),
    ];
    let found = places.iter().find(|place| place.has("weight"));
    found.unwrap_or(&places[0]).clone()
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
