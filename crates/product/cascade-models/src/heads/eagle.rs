//! EAGLE-1 (arXiv:2401.15077) and EAGLE-2 (arXiv:2406.16858): one layer of the target's kind that
//! predicts its next last hidden state from the one before and the token between them.
//!
//! The two differ in how drafts grow, not in their checkpoints. Row i reads the embedding of token
//! i + 1 and the state after token i, normed as the output head reads it; what it gives takes the
//! place of the state after token i + 1, for the next row and for the output head. The layer has no
//! norm before its attention, and none after it.

use std::borrow::Cow;

use cascade_core::HiddenLayers;

use super::config::EagleConfig;
use super::recurrent::Recurrent;
use crate::backend::cpu::{Cpu, CpuForward, CpuLoader, Map, Norm, Rotary, Table};
use crate::backend::{
    Activation, AttentionSpan, Forward, Heads, LinearSpec, Loader, Outputs, QkTransform, Vocabulary,
};
use crate::{DecoderConfig, Result};

/// The weights of a head.
#[derive(Debug)]
pub(super) struct Eagle {
    /// The head's own; it reads the target's if there is none.
    embedding: Option<Table>,
    fuse: Map,
    rotary: Rotary,
    qkv: Map,
    output: Map,
    feed_forward_norm: Norm,
    gate_up: Map,
    down: Map,
    activation: Activation,
}

impl Eagle {
    /// Reads the weights.
    ///
    /// # Errors
    /// Tensors that are missing, or of another shape than config.json says.
    pub(super) fn load(
        layer: &DecoderConfig,
        own: &EagleConfig,
        positions: usize,
        loader: &mut CpuLoader<'_>,
    ) -> Result<Self> {
        let (size, inner) = (layer.size, layer.inner);
        let Heads {
            queries,
            kv,
            size: head,
        } = layer.heads;
        let of_attention = |part: &str| format!("layers.0.self_attn.{part}_proj");
        let qkv = [("q", queries), ("k", kv), ("v", kv)]
            .map(|(part, heads)| (of_attention(part), heads * head));
        let gate_up = ["gate", "up"].map(|part| (format!("layers.0.mlp.{part}_proj"), inner));
        let fuse = [("fc".to_owned(), size)];
        let output = [(of_attention("o"), size)];
        let down = [("layers.0.mlp.down_proj".to_owned(), size)];
        let (cosines, sines) = layer.rope.rotations(positions, head);
        Ok(Self {
            embedding: match own.embedding {
                true => Some(loader.table("embed_tokens", false)?),
                false => None,
            },
            fuse: loader.linear(LinearSpec::new(2 * size, &fuse).with_bias(own.fuse_bias))?,
            rotary: loader.rotary(cosines, sines)?,
            qkv: {
                let qkv = LinearSpec::new(size, &qkv).used_as(Outputs::Rotated);
                loader.linear(qkv.with_bias(layer.biases.qkv))?
            },
            output: loader.linear(LinearSpec::new(queries * head, &output))?,
            feed_forward_norm: loader.norm("layers.0.post_attention_layernorm")?,
            gate_up: loader.linear(LinearSpec::new(size, &gate_up).used_as(Outputs::Gated))?,
            down: loader.linear(LinearSpec::new(inner, &down))?,
            activation: layer.activation,
        })
    }
}

impl Recurrent for Eagle {
    fn observes(&self) -> HiddenLayers {
        HiddenLayers::LAST
    }

    fn enter<'a>(&self, observed: &'a [f32]) -> Cow<'a, [f32]> {
        observed.into()
    }

    fn rows(&self, forward: &mut CpuForward<'_>, states: &[f32], shared: &Table) {
        let table = self.embedding.as_ref().unwrap_or(shared);
        forward.join(table, states, &self.fuse);
        let rotated: QkTransform<'_, Cpu> = QkTransform::Rotated(&self.rotary);
        forward.project(&self.qkv, rotated, 0);
        forward.attend(AttentionSpan::Whole, 0);
        forward.add_attended(&self.output, &self.feed_forward_norm);
        forward.activate(&self.gate_up, self.activation);
        forward.end(&self.down);
    }

    fn logits(&self, given: &[f32], shared: &Vocabulary<'_, Cpu>) -> Vec<f32> {
        shared.logits(given)
    }
}
