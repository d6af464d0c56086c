//! LLaMA and Vicuna (arXiv:2302.13971), with grouped keys and values.

use std::sync::Arc;

use candle_core::{DType, Device, Result as TensorResult, Tensor};
use candle_nn::VarBuilder;
use cascade_core::{Architecture, TokenId};
use serde::Deserialize;

use crate::arena::{Arena, ArenaShape};
use crate::config::bad;
use crate::cpu_sequence::{CpuSequence, TensorNetwork};
use crate::layers::{add, attend, split_heads, Activation, FeedForward, Linear, Norm, Weights};
use crate::mask::Plan;
use crate::network::{Network, Sequence};
use crate::Result;

/// The settings of a LLaMA checkpoint's config.json that its forward pass depends on. Unknown settings are ignored.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LlamaConfig {
    /// Rows of the embedding, and columns of the logits.
    pub vocab_size: usize,
    /// Size of the residual stream.
    pub hidden_size: usize,
    /// Inner size of the feed-forward layers.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values; as many as of queries if absent.
    #[serde(default)]
    pub num_key_value_heads: Option<usize>,
    /// Size of one head; `hidden_size / num_attention_heads` if absent.
    #[serde(default)]
    pub head_dim: Option<usize>,
    /// Positions the model was trained for.
    #[serde(default = "default_positions")]
    pub max_position_embeddings: usize,
    /// Added to the mean square in norms.
    #[serde(default = "default_epsilon")]
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    #[serde(default = "default_theta")]
    pub rope_theta: f64,
    /// Stretching of positions.
    #[serde(default)]
    pub rope_scaling: Option<RopeScaling>,
    /// Whether the embedding is the output head too.
    #[serde(default)]
    pub tie_word_embeddings: bool,
    /// Whether attention has biases. Not supported.
    #[serde(default)]
    pub attention_bias: bool,
    /// Whether feed-forward layers have biases. Not supported.
    #[serde(default)]
    pub mlp_bias: bool,
    /// The gate's nonlinearity. Only "silu" is supported.
    #[serde(default = "default_activation")]
    pub hidden_act: String,
}

/// How positions are stretched, as config.json says it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RopeScaling {
    /// "default" or "linear"; nothing else is supported.
    #[serde(default)]
    pub rope_type: Option<String>,
    /// The same under its older name, which counts if the newer is absent.
    #[serde(default, rename = "type")]
    pub legacy_type: Option<String>,
    /// What positions are divided by, if linear.
    #[serde(default)]
    pub factor: Option<f64>,
}

fn default_positions() -> usize {
    2048
}

fn default_epsilon() -> f64 {
    1e-6
}

fn default_theta() -> f64 {
    10_000.0
}

fn default_activation() -> String {
    "silu".into()
}

impl LlamaConfig {
    /// Weights that one forward reads, embeddings of single tokens aside.
    pub fn parameters_per_forward(&self) -> usize {
        let size = self.hidden_size;
        let queries = self.num_attention_heads * self.head_dim();
        let keys_values = self.kv_heads() * self.head_dim();
        let attention = 2 * size * queries + 2 * size * keys_values;
        let layer = attention + 3 * size * self.intermediate_size + 2 * size;
        self.num_hidden_layers * layer + size + size * self.vocab_size
    }

    /// Weights of the whole model; a tied head counts once.
    pub fn parameters(&self) -> usize {
        let embedding = self.hidden_size * self.vocab_size;
        self.parameters_per_forward()
            + if self.tie_word_embeddings {
                0
            } else {
                embedding
            }
    }

    /// Heads of keys and values.
    pub fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    /// Size of one head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
            .unwrap_or(self.hidden_size / self.num_attention_heads.max(1))
    }

    /// Refuses settings that no forward pass can be built from, or that are not supported.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for the first such setting.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.kv_heads()),
            ("head_dim", self.head_dim()),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        crate::config::refuse_zeros(&sizes)?;
        crate::config::check_vocabulary(self.vocab_size)?;
        self.check_heads()?;
        self.check_supported()?;
        self.position_scale().map(drop)
    }

    fn check_heads(&self) -> Result<()> {
        let (heads, kv_heads) = (self.num_attention_heads, self.kv_heads());
        if !heads.is_multiple_of(kv_heads) {
            return Err(bad(format!(
                "{heads} attention heads cannot share {kv_heads} key-value heads evenly"
            )));
        }
        if !self.head_dim().is_multiple_of(2) {
            return Err(bad(format!(
                "heads of the odd size {} cannot be rotated",
                self.head_dim()
            )));
        }
        Ok(())
    }

    fn check_supported(&self) -> Result<()> {
        if self.attention_bias || self.mlp_bias {
            return Err(unsupported("attention_bias or mlp_bias true".into()));
        }
        if self.hidden_act != "silu" {
            return Err(unsupported(format!("hidden_act {:?}", self.hidden_act)));
        }
        Ok(())
    }

    /// Cosines and sines by position, `[positions][head_dim / 2]`, times head_dim^-1/4: with that in queries and keys, scores
    /// have their 1/sqrt(head_dim).
    pub(crate) fn rotations(&self) -> Result<(Vec<f32>, Vec<f32>)> {
        let head_dim = self.head_dim();
        let (theta, stretch) = (self.rope_theta as f32, self.position_scale()? as f32);
        // In f32, as the reference implementation has it: rounding of angles grows with the position.
        let frequencies: Vec<f32> = (0..head_dim)
            .step_by(2)
            .map(|i| stretch / theta.powf(i as f32 / head_dim as f32))
            .collect();
        let scale = (head_dim as f32).powf(-0.25);
        let table = |f: fn(f32) -> f32| {
            let positions = 0..self.max_position_embeddings;
            let angles = positions.flat_map(|p| frequencies.iter().map(move |w| p as f32 * w));
            angles.map(|angle| f(angle) * scale).collect()
        };
        Ok((table(f32::cos), table(f32::sin)))
    }

    /// What positions are multiplied with.
    fn position_scale(&self) -> Result<f64> {
        let Some(scaling) = &self.rope_scaling else {
            return Ok(1.0);
        };
        let kind = scaling.rope_type.as_ref().or(scaling.legacy_type.as_ref());
        match (kind.map_or("", String::as_str), scaling.factor) {
            ("default", _) => Ok(1.0),
            ("linear", Some(factor)) if factor > 0.0 && factor.is_finite() => Ok(factor.recip()),
            ("linear", _) => Err(bad("linear rope_scaling without a positive factor".into())),
            (other, _) => Err(unsupported(format!(
                "rope_scaling of type {other:?} (only \"linear\" is)"
            ))),
        }
    }
}

fn unsupported(what: String) -> crate::Error {
    crate::Error::Config {
        file: "config.json".into(),
        problem: format!("{what} is not supported"),
        cure: "take a model without it".into(),
    }
}

/// Rotary position embedding in the half-split layout of safetensors checkpoints.
///
/// The attention's 1/sqrt(head_dim) is in the tables, its square root in each of queries and keys, which costs nothing.
#[derive(Debug)]
struct Rotary {
    /// `[positions, head_dim / 2]`.
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    fn new(config: &LlamaConfig, weights: &Weights<'_>) -> Result<Self> {
        let (cos, sin) = config.rotations()?;
        let shape = (config.max_position_embeddings, config.head_dim() / 2);
        let table = |values| -> Result<Tensor> {
            let table = Tensor::from_vec(values, shape, weights.device())?;
            Ok(table.to_dtype(weights.dtype())?)
        };
        Ok(Self {
            cos: table(cos)?,
            sin: table(sin)?,
        })
    }

    /// Cosines and sines of the rows of a plan, `[rows, head_dim / 2]` each.
    fn of_plan(&self, plan: &Plan<'_>) -> TensorResult<(Tensor, Tensor)> {
        let Some(positions) = plan.scattered_positions() else {
            let (first, rows) = (plan.first_position(), plan.rows());
            return Ok((
                self.cos.narrow(0, first, rows)?,
                self.sin.narrow(0, first, rows)?,
            ));
        };
        let positions = Tensor::new(positions, self.cos.device())?;
        Ok((
            self.cos.index_select(&positions, 0)?,
            self.sin.index_select(&positions, 0)?,
        ))
    }
}

/// What all layers of one forward share.
struct Shared {
    cos: Tensor,
    sin: Tensor,
    /// `[rows, keys]`, 0 or minus infinity; none if nothing is hidden.
    mask: Option<Tensor>,
    keys: usize,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Norm,
    /// Queries, keys and values side by side.
    qkv: Linear,
    output: Linear,
    feed_forward_norm: Norm,
    feed_forward: FeedForward,
    heads: usize,
    kv_heads: usize,
}

impl Layer {
    fn load(config: &LlamaConfig, weights: &Weights<'_>) -> TensorResult<Self> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let queries = config.num_attention_heads * config.head_dim();
        let keys = config.kv_heads() * config.head_dim();
        let (attention, mlp) = (weights.pp("self_attn"), weights.pp("mlp"));
        let parts = [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)];
        let gate_up = mlp.fused(hidden, &[("gate_proj", inner), ("up_proj", inner)])?;
        let down = mlp.linear(inner, hidden, "down_proj")?;
        let norm = |name| weights.norm(hidden, config.rms_norm_eps, weights.dtype(), name);
        Ok(Self {
            attention_norm: norm("input_layernorm")?,
            qkv: attention.fused(hidden, &parts)?,
            output: attention.linear(queries, hidden, "o_proj")?,
            feed_forward_norm: norm("post_attention_layernorm")?,
            feed_forward: FeedForward::gated(gate_up, Activation::Silu, down),
            heads: config.num_attention_heads,
            kv_heads: config.kv_heads(),
        })
    }

    fn forward(
        &self,
        stream: &Tensor,
        shared: &Shared,
        arena: &Arena,
        layer: usize,
    ) -> TensorResult<Tensor> {
        let queries = self.project(stream, shared, arena, layer)?;
        let keys_values = arena.keys_values(layer, shared.keys)?;
        let mixed = attend(&queries, &keys_values, shared.mask.as_ref())?;
        let stream = add(stream, &self.output.forward(&mixed)?)?;
        let normed = self.feed_forward_norm.forward(&stream)?;
        add(&stream, &self.feed_forward.forward(&normed)?)
    }

    /// Writes keys and values of the rows to the arena and gives their queries: `[heads, rows, head_dim]`.
    fn project(
        &self,
        stream: &Tensor,
        shared: &Shared,
        arena: &Arena,
        layer: usize,
    ) -> TensorResult<Tensor> {
        let (heads, kv_heads) = (self.heads, self.kv_heads);
        let qkv = self.qkv.forward(&self.attention_norm.forward(stream)?)?;
        let qkv = split_heads(&qkv, heads + 2 * kv_heads)?.unsqueeze(0)?;
        let turned = qkv.narrow(1, 0, heads + kv_heads)?;
        let turned = crate::layers::rope(&turned, &shared.cos, &shared.sin)?;
        arena.write(2 * layer, &turned.narrow(1, heads, kv_heads)?)?;
        arena.write(2 * layer + 1, &qkv.narrow(1, heads + kv_heads, kv_heads)?)?;
        turned.narrow(1, 0, heads)?.squeeze(0)
    }
}

/// A LLaMA model: weights on a device, shared by any number of sessions.
#[derive(Debug)]
pub struct Llama {
    config: LlamaConfig,
    /// `[vocabulary, hidden_size]`.
    embedding: Tensor,
    rotary: Rotary,
    layers: Vec<Layer>,
    norm: Norm,
    head: Linear,
    parameters: usize,
}

impl Llama {
    /// Loads a checkpoint in the layout and with the names of Hugging Face (safetensors, half-split rotary embedding).
    /// It computes in the type and on the device of `vb`.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) if the configuration makes no sense or is not supported,
    /// [`Error::Tensor`](crate::Error::Tensor) if a tensor is missing or has another shape than the configuration says.
    pub fn load(config: LlamaConfig, vb: VarBuilder<'_>) -> Result<Self> {
        config.validate()?;
        let weights = Weights::new(vb);
        let model = weights.pp("model");
        let (vocabulary, hidden) = (config.vocab_size, config.hidden_size);
        let embedding = model
            .pp("embed_tokens")
            .get((vocabulary, hidden), "weight")?;
        let head = if config.tie_word_embeddings {
            Linear::new(embedding.clone())?
        } else {
            weights.linear(hidden, vocabulary, "lm_head")?
        };
        let layers = (0..config.num_hidden_layers)
            .map(|i| Layer::load(&config, &model.pp("layers").pp(i)))
            .collect::<TensorResult<_>>()?;
        Ok(Self {
            embedding,
            rotary: Rotary::new(&config, &weights)?,
            layers,
            norm: model.norm(hidden, config.rms_norm_eps, weights.dtype(), "norm")?,
            head,
            parameters: weights.parameters(),
            config,
        })
    }

    /// The configuration it was loaded with.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    fn arena_shape(&self) -> ArenaShape {
        ArenaShape {
            layers: self.layers.len(),
            kv_heads: self.config.kv_heads(),
            head_dim: self.config.head_dim(),
        }
    }

    fn device(&self) -> &Device {
        self.embedding.device()
    }

    fn shared(&self, plan: &Plan<'_>) -> TensorResult<Shared> {
        let (cos, sin) = self.rotary.of_plan(plan)?;
        let mask = || {
            let table = plan.table(f32::NEG_INFINITY, |_| 0.0);
            Tensor::from_vec(table, (plan.rows(), plan.keys()), self.device())?
                .to_dtype(self.embedding.dtype())
        };
        Ok(Shared {
            cos,
            sin,
            mask: (!plan.sees_everything()).then(mask).transpose()?,
            keys: plan.keys(),
        })
    }
}

impl Network for Llama {
    fn architecture(&self) -> Architecture {
        Architecture::DecoderOnly
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
        self.layers.len()
    }

    fn bytes_per_position(&self) -> usize {
        self.arena_shape().bytes_per_slot(self.embedding.dtype())
    }

    fn max_context(&self) -> Option<usize> {
        Some(self.config.max_position_embeddings)
    }

    fn start(&self) -> Option<TokenId> {
        None
    }

    fn sequence(self: Arc<Self>) -> Box<dyn Sequence> {
        Box::new(CpuSequence::new(self))
    }
}

impl TensorNetwork for Llama {
    fn arena(&self) -> Arena {
        Arena::new(self.arena_shape(), self.embedding.dtype(), self.device())
    }

    fn encode(&self, _: &[TokenId]) -> TensorResult<Vec<Tensor>> {
        Ok(Vec::new())
    }

    fn decode(&self, plan: &Plan<'_>, _: &[Tensor], arena: &Arena) -> TensorResult<Tensor> {
        let tokens = Tensor::new(plan.tokens(), self.device())?;
        let mut stream = self.embedding.index_select(&tokens, 0)?;
        let shared = self.shared(plan)?;
        for (i, layer) in self.layers.iter().enumerate() {
            stream = layer.forward(&stream, &shared, arena, i)?;
        }
        self.norm.forward(&stream)
    }

    fn logits(&self, hidden: &Tensor) -> TensorResult<Tensor> {
        self.head.forward(hidden)?.to_dtype(DType::F32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &str) -> LlamaConfig {
        let json = format!(
            r#"{{"vocab_size": 10, "hidden_size": 8, "intermediate_size": 16,
                "num_hidden_layers": 1, "num_attention_heads": 4{settings}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn what_is_absent_follows_from_the_rest() {
        let config = config("");
        assert_eq!((config.kv_heads(), config.head_dim()), (4, 2));
        assert_eq!(config.position_scale().unwrap(), 1.0);
        config.validate().unwrap();
    }

    #[test]
    fn positions_stretch_linearly() {
        for name in ["type", "rope_type"] {
            let scaling = format!(r#", "rope_scaling": {{"{name}": "linear", "factor": 4.0}}"#);
            assert_eq!(config(&scaling).position_scale().unwrap(), 0.25);
        }
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        for (settings, word) in [
            (r#", "attention_bias": true"#, "attention_bias"),
            (r#", "hidden_act": "gelu""#, "gelu"),
            (r#", "num_key_value_heads": 3"#, "3 key-value heads"),
            (r#", "head_dim": 3"#, "odd size 3"),
            (r#", "rope_scaling": {"type": "linear"}"#, "factor"),
            (
                r#", "rope_scaling": {"rope_type": "llama3", "factor": 8.0}"#,
                "llama3",
            ),
            (
                r#", "max_position_embeddings": 0"#,
                "max_position_embeddings",
            ),
        ] {
            let message = config(settings).validate().unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }
}
