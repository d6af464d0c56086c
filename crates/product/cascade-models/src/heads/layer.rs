//! The layer that heads of one layer are made of: attention, then a gated feed-forward network.

use std::num::NonZeroUsize;

use crate::backend::cpu::{Cpu, CpuForward, CpuLoader, Map, Norm, Rotary};
use crate::backend::{
    Activation, AttentionSpan, Forward, HeadNorms, Heads, LinearSpec, Loader, Outputs, QkTransform,
};
use crate::{DecoderConfig, Result};

/// Its weights. What stands before its attention is the head's own.
#[derive(Debug)]
pub(super) struct Layer {
    rotary: Rotary,
    window: Option<NonZeroUsize>,
    qkv: Map,
    head_norms: Option<HeadNorms<Cpu>>,
    output: Map,
    feed_forward_norm: Norm,
    gate_up: Map,
    down: Map,
    activation: Activation,
}

impl Layer {
    /// Reads the weights whose names begin with `at`. Attention reads rows of `inputs` elements.
    ///
    /// # Errors
    /// Tensors that are missing, or of another shape than config.json says.
    pub(super) fn load(
        config: &DecoderConfig,
        at: &str,
        inputs: usize,
        positions: usize,
        loader: &mut CpuLoader<'_>,
    ) -> Result<Self> {
        let (size, inner) = (config.size, config.inner);
        let Heads {
            queries,
            kv,
            size: head,
        } = config.heads;
        let of_attention = |part: &str| format!("{at}.self_attn.{part}_proj");
        let qkv = [("q", queries), ("k", kv), ("v", kv)]
            .map(|(part, heads)| (of_attention(part), heads * head));
        let qkv = LinearSpec::new(inputs, &qkv).used_as(match config.head_norms {
            // Heads that are normed are whole first.
            true => Outputs::SideBySide,
            false => Outputs::Rotated,
        });
        let output = [(of_attention("o"), size)];
        let gate_up = ["gate", "up"].map(|part| (format!("{at}.mlp.{part}_proj"), inner));
        let down = [(format!("{at}.mlp.down_proj"), size)];
        let (cosines, sines) = config.rope.rotations(positions, head);
        Ok(Self {
            rotary: loader.rotary(cosines, sines)?,
            window: config.layers.first().and_then(|kind| kind.window),
            qkv: loader.linear(qkv.with_bias(config.biases.qkv))?,
            head_norms: config.head_norms(loader, &format!("{at}.self_attn"))?,
            output: loader.linear(LinearSpec::new(queries * head, &output))?,
            feed_forward_norm: loader.norm(&format!("{at}.post_attention_layernorm"))?,
            gate_up: loader.linear(LinearSpec::new(size, &gate_up).used_as(Outputs::Gated))?,
            down: loader.linear(LinearSpec::new(inner, &down))?,
            activation: config.activation,
        })
    }

    /// Takes rows from the inputs of attention to the layer's end.
    pub(super) fn run(&self, forward: &mut CpuForward<'_>) {
        let transform: QkTransform<'_, Cpu> = match &self.head_norms {
            Some(norms) => QkTransform::NormedAndRotated(norms, &self.rotary),
            None => QkTransform::Rotated(&self.rotary),
        };
        let span = self
            .window
            .map_or(AttentionSpan::Whole, AttentionSpan::Window);
        forward.project(&self.qkv, transform, 0);
        forward.attend(span, 0);
        forward.add_attended(&self.output, &self.feed_forward_norm);
        forward.activate(&self.gate_up, self.activation);
        forward.end(&self.down);
    }
}
