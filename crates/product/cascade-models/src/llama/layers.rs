//! LLaMA's layers.

use cascade_core::Architecture;

use crate::backend::{
    Activation, Backend, Describe, Forward, Heads, Layers, LinearSpec, Loader, ModelInfo, Outputs,
};
use crate::{LlamaConfig, Result};

#[derive(Debug)]
struct Llama<B: Backend> {
    embedding: B::Table,
    rotary: B::Rotary,
    layers: Vec<Layer<B>>,
    norm: B::Norm,
    head: B::Linear,
}

#[derive(Debug)]
struct Layer<B: Backend> {
    attention_norm: B::Norm,
    qkv: B::Linear,
    output: B::Linear,
    feed_forward_norm: B::Norm,
    gate_up: B::Linear,
    down: B::Linear,
}

impl<B: Backend> Layers<B> for Llama<B> {
    fn decode(&self, forward: &mut dyn Forward<B>, logits: bool) {
        let norms = self.layers.iter().map(|layer| &layer.attention_norm);
        let mut norms = norms.chain([&self.norm]);
        let mut next_norm = || norms.next().unwrap_or(&self.norm);
        forward.embed(&self.embedding, next_norm());
        for (i, layer) in self.layers.iter().enumerate() {
            forward.project(&layer.qkv, Some(&self.rotary), i);
            if !logits && i + 1 == self.layers.len() {
                // All keys and values are there.
                return;
            }
            forward.attend(None, i);
            forward.add_attended(&layer.output, &layer.feed_forward_norm);
            forward.activate(&layer.gate_up, Activation::Silu);
            forward.add_inner(&layer.down, next_norm());
        }
        forward.logits(&self.head, None);
    }
}

impl Describe for LlamaConfig {
    fn validate(&self) -> Result<()> {
        self.validate()
    }

    fn info(&self) -> ModelInfo {
        ModelInfo {
            architecture: Architecture::DecoderOnly,
            vocab_size: self.vocab_size,
            size: self.hidden_size,
            epsilon: self.rms_norm_eps,
            heads: Heads {
                queries: self.num_attention_heads,
                kv: self.kv_heads(),
                size: self.head_dim(),
            },
            layers: self.num_hidden_layers,
            parameters: self.parameters(),
            parameters_per_forward: self.parameters_per_forward(),
            max_context: Some(self.max_position_embeddings),
            start: None,
            exceeds_f16: false,
        }
    }

    fn layers<B: Backend>(&self, loader: &mut dyn Loader<B>) -> Result<Box<dyn Layers<B>>> {
        let embedding = loader.table("model.embed_tokens")?;
        let layers = (0..self.num_hidden_layers)
            .map(|i| self.layer(loader, &format!("model.layers.{i}")))
            .collect::<Result<_>>()?;
        let norm = loader.norm("model.norm")?;
        let head = match self.tie_word_embeddings {
            true => loader.head("model.embed_tokens", Some(&embedding)),
            false => loader.head("lm_head", None),
        }?;
        let (cosines, sines) = self.rotations()?;
        Ok(Box::new(Llama {
            embedding,
            rotary: loader.rotary(cosines, sines)?,
            layers,
            norm,
            head,
        }))
    }
}

impl LlamaConfig {
    fn layer<B: Backend>(&self, loader: &mut dyn Loader<B>, at: &str) -> Result<Layer<B>> {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        let queries = self.num_attention_heads * self.head_dim();
        let keys = self.kv_heads() * self.head_dim();
        let attention = |part: &str, outputs| (format!("{at}.self_attn.{part}_proj"), outputs);
        let mlp = |part: &str, outputs| (format!("{at}.mlp.{part}_proj"), outputs);
        let qkv = [
            attention("q", queries),
            attention("k", keys),
            attention("v", keys),
        ];
        let (output, down) = ([attention("o", hidden)], [mlp("down", hidden)]);
        let gate_up = [mlp("gate", inner), mlp("up", inner)];
        let qkv = LinearSpec::new(hidden, &qkv).used_as(Outputs::Rotated);
        let output = LinearSpec::new(queries, &output);
        let gate_up = LinearSpec::new(hidden, &gate_up).used_as(Outputs::Gated);
        let down = LinearSpec::new(inner, &down);
        Ok(Layer {
            attention_norm: loader.norm(&format!("{at}.input_layernorm"))?,
            qkv: loader.linear(qkv.with_bias(self.attention_bias))?,
            output: loader.linear(output.with_bias(self.attention_bias))?,
            feed_forward_norm: loader.norm(&format!("{at}.post_attention_layernorm"))?,
            gate_up: loader.linear(gate_up.with_bias(self.mlp_bias))?,
            down: loader.linear(down.with_bias(self.mlp_bias))?,
        })
    }
}
