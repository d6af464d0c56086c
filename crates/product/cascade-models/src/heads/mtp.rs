//! MTP: a layer in the files of a model that predicts the token after the next one, as MiMo
//! (arXiv:2505.07608) has it.
//!
//! Row i reads the state after token i and, behind it, the embedding of token i + 1, each behind a
//! norm of its own, through a linear map; then comes a layer of the model's own kind, and a norm.
//! What is behind that norm takes the place of the last hidden state, for the next row and for the
//! model's output head.

use std::borrow::Cow;

use cascade_core::HiddenLayers;

use super::recurrent::Recurrent;
use crate::backend::cpu::{Cpu, CpuForward, CpuLoader, Map, Norm, Rotary, Table};
use crate::backend::{
    Activation, AttentionSpan, Forward, Heads, LinearSpec, Loader, Outputs, QkTransform, Vocabulary,
};
use crate::{DecoderConfig, Result};

/// What names of tensors of such layers begin with.
pub(super) const LAYERS: &str = "model.mtp_layers.";
/// What names of the layer's tensors begin with.
pub(super) const LAYER: &str = "model.mtp_layers.0";

/// The weights of a layer. The embedding is the model's.
#[derive(Debug)]
pub(super) struct Mtp {
    state_norm: Norm,
    embedding_norm: Norm,
    fuse: Map,
    attention_norm: Norm,
    rotary: Rotary,
    qkv: Map,
    output: Map,
    feed_forward_norm: Norm,
    gate_up: Map,
    down: Map,
    activation: Activation,
    norm: Norm,
}

impl Mtp {
    /// Reads the weights.
    ///
    /// # Errors
    /// Tensors that are missing, or of another shape than config.json says.
    pub(super) fn load(
        layer: &DecoderConfig,
        positions: usize,
        loader: &mut CpuLoader<'_>,
    ) -> Result<Self> {
        let (size, inner) = (layer.size, layer.inner);
        let Heads {
            queries,
            kv,
            size: head,
        } = layer.heads;
        let of_attention = |part: &str| format!("{LAYER}.self_attn.{part}_proj");
        let qkv = [("q", queries), ("k", kv), ("v", kv)]
            .map(|(part, heads)| (of_attention(part), heads * head));
        let gate_up = ["gate", "up"].map(|part| (format!("{LAYER}.mlp.{part}_proj"), inner));
        let fuse = [(format!("{LAYER}.input_proj"), size)];
        let output = [(of_attention("o"), size)];
        let down = [(format!("{LAYER}.mlp.down_proj"), size)];
        let (cosines, sines) = layer.rope.rotations(positions, head);
        let mut norm = |name: &str| loader.norm(&format!("{LAYER}.{name}"));
        let norms = [
            norm("hidden_layernorm")?,
            norm("token_layernorm")?,
            norm("input_layernorm")?,
            norm("post_attention_layernorm")?,
            norm("final_layernorm")?,
        ];
        let [state_norm, embedding_norm, attention_norm, feed_forward_norm, norm] = norms;
        let qkv = LinearSpec::new(size, &qkv).used_as(Outputs::Rotated);
        Ok(Self {
            state_norm,
            embedding_norm,
            fuse: loader.linear(LinearSpec::new(2 * size, &fuse))?,
            attention_norm,
            rotary: loader.rotary(cosines, sines)?,
            qkv: loader.linear(qkv.with_bias(layer.biases.qkv))?,
            output: loader.linear(LinearSpec::new(queries * head, &output))?,
            feed_forward_norm,
            gate_up: loader.linear(LinearSpec::new(size, &gate_up).used_as(Outputs::Gated))?,
            down: loader.linear(LinearSpec::new(inner, &down))?,
            activation: layer.activation,
            norm,
        })
    }
}

impl Recurrent for Mtp {
    fn observes(&self) -> HiddenLayers {
        HiddenLayers::LAST
    }

    fn enter<'a>(&self, observed: &'a [f32]) -> Cow<'a, [f32]> {
        observed.into()
    }

    fn rows(&self, forward: &mut CpuForward<'_>, states: &[f32], shared: &Table) {
        let norms = [&self.state_norm, &self.embedding_norm];
        forward.join_normed(shared, states, norms, &self.fuse, &self.attention_norm);
        let rotated: QkTransform<'_, Cpu> = QkTransform::Rotated(&self.rotary);
        forward.project(&self.qkv, rotated, 0);
        forward.attend(AttentionSpan::Whole, 0);
        forward.add_attended(&self.output, &self.feed_forward_norm);
        forward.activate(&self.gate_up, self.activation);
        forward.end(&self.down);
    }

    fn give(&self, states: Vec<f32>) -> Vec<f32> {
        self.norm.apply(&states)
    }

    fn logits(&self, given: &[f32], shared: &Vocabulary<'_, Cpu>) -> Vec<f32> {
        shared.logits(given)
    }
}
