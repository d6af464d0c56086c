//! LLaMA's layers as kernels.

use std::sync::Mutex;

use cascade_core::{Architecture, TokenId};
use cascade_gpu::{
    padded, Activation, Cache, CacheShape, Device, Forward, Heads, Kind, Linear, Loader, Looks,
    Norm, Projected, Rotary, Runner, Sizes, Table, Weights,
};

use super::{Facts, GpuNetwork, Layers};
use crate::{LlamaConfig, Result};

#[derive(Debug)]
pub(super) struct LlamaLayers {
    heads: Heads,
    embedding: Table,
    rotary: Rotary,
    layers: Vec<Layer>,
    norm: Norm,
    head: Linear,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Norm,
    /// Queries, keys and values side by side.
    qkv: Linear,
    output: Linear,
    feed_forward_norm: Norm,
    gate_up: Linear,
    down: Linear,
}

pub(super) fn load(
    device: &Device,
    kind: Kind,
    config: &LlamaConfig,
    weights: &dyn Weights,
) -> Result<GpuNetwork<LlamaLayers>> {
    let heads = Heads {
        queries: config.num_attention_heads,
        kv: config.kv_heads(),
        size: config.head_dim(),
    };
    padded(heads.size)?;
    let loader = &mut Loader::new(device, kind, weights);
    let (vocabulary, hidden) = (config.vocab_size, config.hidden_size);
    let embedding_name = "model.embed_tokens.weight";
    let embedding = loader.table(embedding_name, vocabulary, hidden)?;
    let layers = (0..config.num_hidden_layers)
        .map(|i| Layer::load(config, heads, loader, &format!("model.layers.{i}")))
        .collect::<cascade_gpu::Result<Vec<_>>>()?;
    let norm = loader.norm("model.norm.weight", hidden)?;
    let counted = loader.parameters();
    let tied = config.tie_word_embeddings;
    let head_name = if tied {
        embedding_name
    } else {
        "lm_head.weight"
    };
    let head = loader.head(hidden, head_name, vocabulary)?;
    let (cosines, sines) = config.rotations()?;
    let facts = Facts {
        architecture: Architecture::DecoderOnly,
        vocab_size: vocabulary,
        parameters: if tied { counted } else { loader.parameters() },
        parameters_per_forward: config.parameters_per_forward(),
        max_context: Some(config.max_position_embeddings),
        start: None,
    };
    let layers = LlamaLayers {
        heads,
        embedding,
        rotary: Rotary::new(device, &cosines, &sines)?,
        layers,
        norm,
        head,
    };
    let sizes = layers.sizes(Sizes::new(hidden, config.rms_norm_eps, heads, vocabulary));
    let runner = Runner::new(device, kind, sizes)?;
    Ok(GpuNetwork {
        device: device.clone(),
        kind,
        layers,
        runner: Mutex::new(runner),
        facts,
    })
}

impl Layer {
    fn load(
        config: &LlamaConfig,
        heads: Heads,
        loader: &mut Loader<'_>,
        at: &str,
    ) -> cascade_gpu::Result<Self> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let queries = heads.queries * heads.size;
        let name = |part: &str| format!("{at}.{part}.weight");
        let [q, k, v] = ["q", "k", "v"].map(|part| name(&format!("self_attn.{part}_proj")));
        Ok(Self {
            attention_norm: loader.norm(&name("input_layernorm"), hidden)?,
            qkv: loader.rotated(hidden, heads, [&q, &k, &v])?,
            output: loader.linear(queries, &[(&name("self_attn.o_proj"), hidden)])?,
            feed_forward_norm: loader.norm(&name("post_attention_layernorm"), hidden)?,
            gate_up: loader.gated(hidden, &name("mlp.gate_proj"), &name("mlp.up_proj"), inner)?,
            down: loader.linear(inner, &[(&name("mlp.down_proj"), hidden)])?,
        })
    }
}

impl LlamaLayers {
    fn sizes(&self, mut sizes: Sizes) -> Sizes {
        for layer in &self.layers {
            let maps = [&layer.qkv, &layer.output, &layer.gate_up, &layer.down];
            maps.into_iter().for_each(|map| sizes.cover(map));
        }
        sizes.cover(&self.head);
        sizes
    }
}

impl Layers for LlamaLayers {
    fn cache_shape(&self) -> CacheShape {
        CacheShape {
            layers: self.layers.len(),
            kv_heads: self.heads.kv,
            head_dim: self.heads.size,
        }
    }

    fn decode(&self, forward: &mut Forward<'_>, logits: bool) {
        let norms = self.layers.iter().map(|layer| &layer.attention_norm);
        let mut norms = norms.chain([&self.norm]);
        let mut next_norm = || norms.next().unwrap_or(&self.norm);
        forward.embed(&self.embedding, next_norm());
        for (i, layer) in self.layers.iter().enumerate() {
            forward.project(&layer.qkv, Projected::All(Some(&self.rotary)), i);
            if !logits && i + 1 == self.layers.len() {
                // All keys and values are there.
                return;
            }
            forward.attention(Looks::AtSequence(None), i);
            forward.add_attended(&layer.output, &layer.feed_forward_norm);
            forward.activate(&layer.gate_up, Activation::Silu);
            forward.add_inner(&layer.down, next_norm());
        }
        forward.logits(&self.head, 1.0);
    }

    fn encode(
        &self,
        _: &Device,
        _: &mut Runner,
        _: &[TokenId],
    ) -> cascade_gpu::Result<Option<Cache>> {
        Ok(None)
    }
}
