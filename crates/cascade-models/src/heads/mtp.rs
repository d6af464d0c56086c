//! MTP: a layer in the files of a model that predicts the token after the next one, as MiMo
//! (arXiv:2505.07608) has it.
//!
//! Row i reads the state after token i and, behind it, the embedding of token i + 1, each behind a
//! norm of its own, through a linear map; then comes a layer of the model's own kind, and a norm.
//! What is behind that norm takes the place of the last hidden state, for the next row and for the
//! model's output head.

use super::layer::Layer;
use super::recurrent::Recurrent;
use crate::Result;
use crate::backend::cpu::{Cpu, CpuForward, Map, Norm, Table};
use crate::backend::{LinearSpec, Loader};
use crate::decoder::DecoderConfig;

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
    layer: Layer,
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
        loader: &mut Loader<'_, Cpu>,
    ) -> Result<Self> {
        let size = layer.size;
        let fuse = [(format!("{LAYER}.input_proj"), size)];
        let norm = |name: &str| loader.norm(&format!("{LAYER}.{name}"));
        Ok(Self {
            state_norm: norm("hidden_layernorm")?,
            embedding_norm: norm("token_layernorm")?,
            attention_norm: norm("input_layernorm")?,
            norm: norm("final_layernorm")?,
            fuse: loader.linear(LinearSpec::new(2 * size, fuse))?,
            layer: Layer::load(layer, LAYER, size, positions, loader)?,
        })
    }
}

impl Recurrent for Mtp {
    fn rows(&self, forward: &mut CpuForward<'_>, states: &[f32], shared: &Table) {
        let embeddings = self.embedding_norm.apply(&forward.embeddings(shared));
        let joined = forward.side_by_side(&self.state_norm.apply(states), &embeddings);
        let stream = self.fuse.forward(&joined);
        let normed = self.attention_norm.apply(&stream);
        forward.begin(stream, normed);
        self.layer.run(forward);
    }

    fn give(&self, states: Vec<f32>) -> Vec<f32> {
        self.norm.apply(&states)
    }
}
