//! The layer that heads of one layer are made of: one of a decoder of the LLaMA family.

use crate::Result;
use crate::backend::cpu::{Cpu, CpuForward, Rotary};
use crate::backend::{Activation, Loader};
use crate::decoder::{DecoderConfig, Layer as DecoderLayer, LayerKind, ProjectionLayout};

/// The weights of the layer. What stands before its attention is the head's own.
#[derive(Debug)]
pub(super) struct Layer {
    rotary: Rotary,
    layer: DecoderLayer<Cpu>,
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
        loader: &mut Loader<'_, Cpu>,
    ) -> Result<Self> {
        // Whatever class the target is of.
        let config = DecoderConfig {
            stored: ProjectionLayout::Separate,
            ..config.clone()
        };
        let kind = config.layers.first().copied().unwrap_or(LayerKind::PLAIN);
        Ok(Self {
            rotary: loader.rotary(config.rope.rotations(positions, config.heads.size))?,
            layer: config.layer(loader, kind, at, inputs)?,
            activation: config.activation,
        })
    }

    /// Takes rows from the inputs of attention to the layer's end.
    pub(super) fn run(&self, forward: &mut CpuForward<'_>) {
        self.layer.project(forward, &self.rotary, 0);
        self.layer.attend(forward, self.activation, 0);
        forward.end(self.layer.down());
    }
}
