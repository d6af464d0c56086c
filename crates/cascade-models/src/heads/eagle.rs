//! EAGLE-1 (arXiv:2401.15077) and EAGLE-2 (arXiv:2406.16858): one layer of the target's kind that
//! predicts its next last hidden state from the one before and the token between them.
//!
//! The two differ in how drafts grow, not in their checkpoints. Row i reads the embedding of token
//! i + 1 and the state after token i, normed as the output head reads it; what it gives takes the
//! place of the state after token i + 1, for the next row and for the output head. The layer has no
//! norm before its attention, and none after it.

use super::config::EagleConfig;
use super::layer::Layer;
use super::recurrent::{Recurrent, own_embedding};
use crate::Result;
use crate::backend::cpu::{Cpu, CpuForward, Map, Table};
use crate::backend::{LinearSpec, Loader};
use crate::decoder::DecoderConfig;

/// The weights of a head.
#[derive(Debug)]
pub(super) struct Eagle {
    /// The head's own; it reads the target's if there is none.
    embedding: Option<Table>,
    fuse: Map,
    layer: Layer,
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
        loader: &mut Loader<'_, Cpu>,
    ) -> Result<Self> {
        let size = layer.size;
        let fuse = LinearSpec::new(2 * size, [("fc".to_owned(), size)]);
        Ok(Self {
            embedding: own_embedding(own.embedding, loader)?,
            fuse: loader.linear(fuse.with_bias(own.fuse_bias))?,
            layer: Layer::load(layer, "layers.0", size, positions, loader)?,
        })
    }
}

impl Recurrent for Eagle {
    fn rows(&self, forward: &mut CpuForward<'_>, states: &[f32], shared: &Table) {
        let embeddings = forward.embeddings(self.embedding.as_ref().unwrap_or(shared));
        let stream = self
            .fuse
            .forward(&forward.side_by_side(&embeddings, states));
        forward.begin(stream.clone(), stream);
        self.layer.run(forward);
    }
}
