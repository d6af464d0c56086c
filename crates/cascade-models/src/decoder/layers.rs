//! The layers of decoders of the LLaMA family.

use cascade_core::Architecture;

use super::config::{DecoderConfig, LayerKind, ProjectionLayout};
use super::rope::unrotated;
use crate::Result;
use crate::backend::{
    Activation, AttentionSpan, Backend, Forward, Heads, Layers, LinearSpec, Loader, ModelInfo,
    QkTransform, Vocabulary,
};

#[derive(Debug)]
struct Decoder<B: Backend> {
    embedding: B::Table,
    rotary: B::Rotary,
    /// The identity rotation of NoPE layers, if there are any.
    unrotated: Option<B::Rotary>,
    activation: Activation,
    /// Each behind the norm of its attention.
    layers: Vec<(B::Norm, Layer<B>)>,
    norm: B::Norm,
    head: B::Linear,
}

/// A layer but for what stands before its attention.
#[derive(Debug)]
pub(crate) struct Layer<B: Backend> {
    kind: LayerKind,
    qkv: B::Linear,
    /// Norms of heads of queries and of keys.
    head_norms: Option<[B::Norm; 2]>,
    output: B::Linear,
    feed_forward_norm: B::Norm,
    gate_up: B::Linear,
    down: B::Linear,
}

impl<B: Backend> Layer<B> {
    /// The queries, keys and values of layer `i`.
    pub(crate) fn project(&self, forward: &mut dyn Forward<B>, rotary: &B::Rotary, i: usize) {
        let norms = self.head_norms.as_ref();
        forward.project(&self.qkv, Some(QkTransform { norms, rotary }), i);
    }

    /// Attention and the inner layer of the feed-forward network, from queries, keys and values.
    pub(crate) fn attend(&self, forward: &mut dyn Forward<B>, activation: Activation, i: usize) {
        let (window, bias) = (self.kind.window, None);
        forward.attend(AttentionSpan { window, bias }, i);
        forward.add_attended(&self.output, &self.feed_forward_norm);
        forward.activate(&self.gate_up, activation);
    }

    /// What ends the feed-forward network.
    pub(crate) fn down(&self) -> &B::Linear {
        &self.down
    }
}

impl<B: Backend> Layers<B> for Decoder<B> {
    fn decode(&self, forward: &mut dyn Forward<B>, logits: bool) {
        let mut norms = self.layers.iter().map(|(norm, _)| norm).chain([&self.norm]);
        let mut next_norm = || norms.next().unwrap_or(&self.norm);
        forward.embed(&self.embedding, next_norm());
        for (i, (_, layer)) in self.layers.iter().enumerate() {
            let unrotated = self.unrotated.as_ref().filter(|_| !layer.kind.rotated);
            forward.enter(i);
            layer.project(forward, unrotated.unwrap_or(&self.rotary), i);
            if !logits && i + 1 == self.layers.len() {
                // All keys and values are there.
                return;
            }
            layer.attend(forward, self.activation, i);
            forward.add_inner(&layer.down, next_norm());
        }
        forward.logits(&self.head, None);
    }

    fn vocabulary(&self) -> Vocabulary<'_, B> {
        Vocabulary {
            table: &self.embedding,
            head: &self.head,
            scale: None,
        }
    }
}

impl DecoderConfig {
    /// What follows from the settings.
    pub(crate) fn info(&self) -> ModelInfo {
        ModelInfo {
            architecture: Architecture::DecoderOnly,
            vocab_size: self.vocab_size,
            size: self.size,
            epsilon: self.epsilon,
            heads: self.heads,
            layers: self.layers.len(),
            parameters: self.parameters(),
            parameters_of_all_rows: self.parameters_per_forward(),
            max_context: Some(self.positions),
            start: None,
        }
    }

    /// Loads the layers.
    pub(crate) fn layers<B: Backend>(
        &self,
        loader: &mut Loader<'_, B>,
    ) -> Result<Box<dyn Layers<B>>> {
        // As transformers 5 has it: whatever config.json says, a head of its own counts.
        let tied = self.tied && !loader.has("lm_head");
        let embedding = loader.table("model.embed_tokens", tied)?;
        let layers = self
            .layers
            .iter()
            .enumerate()
            .map(|(i, &kind)| {
                let at = format!("model.layers.{i}");
                let norm = loader.norm(&format!("{at}.input_layernorm"))?;
                Ok((norm, self.layer(loader, kind, &at, self.size)?))
            })
            .collect::<Result<_>>()?;
        let norm = loader.norm("model.norm")?;
        let head = (if tied {
            loader.head("model.embed_tokens", Some(&embedding))
        } else {
            loader.head("lm_head", None)
        })?;
        let all_rotated = self.layers.iter().all(|layer| layer.rotated);
        let unrotated = (!all_rotated).then(|| unrotated(self.positions, self.heads.size));
        Ok(Box::new(Decoder {
            embedding,
            rotary: loader.rotary(self.rope.rotations(self.positions, self.heads.size))?,
            unrotated: unrotated.map(|angles| loader.rotary(angles)).transpose()?,
            activation: self.activation,
            layers,
            norm,
            head,
        }))
    }

    /// The layer whose tensors' names begin with `at`, and whose attention reads rows of `inputs`.
    pub(crate) fn layer<B: Backend>(
        &self,
        loader: &mut Loader<'_, B>,
        kind: LayerKind,
        at: &str,
        inputs: usize,
    ) -> Result<Layer<B>> {
        let (size, inner, biases) = (self.size, self.inner, self.biases);
        let attended = self.heads.queries * self.heads.size;
        let attention = format!("{at}.self_attn");
        let linear = |inputs, name: String, outputs, bias| {
            LinearSpec::new(inputs, [(name, outputs)]).with_bias(bias)
        };
        let qkv = LinearSpec::new(inputs, self.qkv(&attention)).with_bias(biases.qkv);
        let gate_up = LinearSpec {
            gated: true,
            bias: biases.mlp,
            ..LinearSpec::new(size, self.gate_up(&format!("{at}.mlp")))
        };
        let output = linear(attended, format!("{attention}.o_proj"), size, biases.output);
        let down = linear(inner, format!("{at}.mlp.down_proj"), size, biases.mlp);
        let head_norm = |part: &str| {
            let name = format!("{attention}.{part}_norm");
            loader.norm_of(&name, self.heads.size)
        };
        let head_norms = if self.head_norms {
            Some([head_norm("q")?, head_norm("k")?])
        } else {
            None
        };
        Ok(Layer {
            kind,
            qkv: loader.linear(qkv)?,
            head_norms,
            output: loader.linear(output)?,
            feed_forward_norm: loader.norm(&format!("{at}.post_attention_layernorm"))?,
            gate_up: loader.linear(gate_up)?,
            down: loader.linear(down)?,
        })
    }

    fn qkv(&self, at: &str) -> Vec<(String, usize)> {
        let Heads { queries, kv, size } = self.heads;
        match self.stored {
            ProjectionLayout::Fused => vec![(format!("{at}.qkv_proj"), (queries + 2 * kv) * size)],
            ProjectionLayout::Separate => [("q", queries), ("k", kv), ("v", kv)]
                .map(|(part, heads)| (format!("{at}.{part}_proj"), heads * size))
                .to_vec(),
        }
    }

    fn gate_up(&self, at: &str) -> Vec<(String, usize)> {
        match self.stored {
            ProjectionLayout::Fused => vec![(format!("{at}.gate_up_proj"), 2 * self.inner)],
            ProjectionLayout::Separate => ["gate", "up"]
                .map(|part| (format!("{at}.{part}_proj"), self.inner))
                .to_vec(),
        }
    }
}
