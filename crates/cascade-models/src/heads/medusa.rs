//! Medusa (arXiv:2401.10774): a head for each of the next tokens but one, all of which read the
//! same last hidden state.
//!
//! Head k gives logits of the token k + 2 places behind the one after which the state was: where
//! the target's own head says the next token, head 0 says the one behind it. What is between does
//! not matter to it, so all nodes of one depth have the same row. The authors accept drafts that
//! are typical for the target; here they are verified like any other.

use std::sync::Arc;

use cascade_core::{HiddenLayers, TokenId, TokenTree};

use super::config::MedusaShape;
use super::observed::Observed;
use super::{HeadNetwork, Memory};
use crate::Result;
use crate::backend::cpu::{Cpu, Map};
use crate::backend::{LinearSpec, Loader};

/// The heads, nearest token first.
#[derive(Debug)]
pub(super) struct Heads(Vec<OneHead>);

/// Residual blocks, and a matrix to logits.
#[derive(Debug)]
struct OneHead {
    blocks: Vec<Map>,
    matrix: Map,
}

impl Heads {
    /// Reads the weights.
    ///
    /// # Errors
    /// Tensors that are missing, or of another shape than the target's width and vocabulary.
    pub(super) fn load(shape: &MedusaShape, loader: &mut Loader<'_, Cpu>) -> Result<Self> {
        let MedusaShape { blocks, at, .. } = shape;
        let (size, vocab_size) = (loader.info.size, loader.info.vocab_size);
        let mut linear = |name: String, outputs: usize, bias: bool| {
            loader.linear(LinearSpec::new(size, [(name, outputs)]).with_bias(bias))
        };
        let heads = (0..shape.heads).map(|head| {
            let own = 0..*blocks;
            let own = own.map(|block| linear(format!("{at}{head}.{block}.linear"), size, true));
            Ok(OneHead {
                blocks: own.collect::<Result<_>>()?,
                matrix: linear(format!("{at}{head}.{blocks}"), vocab_size, false)?,
            })
        });
        heads.collect::<Result<_>>().map(Self)
    }
}

impl OneHead {
    fn logits(&self, state: &[f32]) -> Vec<f32> {
        let mut state = state.to_vec();
        for block in &self.blocks {
            let changes = block.forward(&state);
            let silu = |x: f32| x / (1.0 + (-x).exp());
            state
                .iter_mut()
                .zip(changes)
                .for_each(|(x, change)| *x += silu(change));
        }
        self.matrix.forward(&state)
    }
}

/// Heads on a CPU.
#[derive(Debug)]
pub(super) struct Medusa {
    pub(super) heads: Heads,
    pub(super) cpu: Cpu,
}

impl HeadNetwork for Medusa {
    fn observes(&self) -> HiddenLayers {
        HiddenLayers::LAST
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    fn reach(&self, beyond: usize) -> Option<usize> {
        self.heads.0.len().checked_sub(beyond + 1)
    }

    fn memory(self: Arc<Self>) -> Box<dyn Memory> {
        Box::new(MedusaMemory {
            network: self,
            text: Vec::new(),
            said: Vec::new(),
        })
    }
}

/// What the heads said of the last state that was asked for.
#[derive(Debug)]
struct MedusaMemory {
    network: Arc<Medusa>,
    /// The text that it is the state of.
    text: Vec<TokenId>,
    /// By head.
    said: Vec<Option<Vec<f32>>>,
}

impl MedusaMemory {
    /// What a head says.
    fn said(&mut self, head: usize, state: &[f32]) -> &[f32] {
        let heads = &self.network.heads.0;
        self.said.resize(heads.len(), None);
        self.said[head].get_or_insert_with(|| heads[head].logits(state))
    }
}

impl Memory for MedusaMemory {
    fn logits(
        &mut self,
        observed: &Observed,
        context: &[TokenId],
        tree: &TokenTree,
    ) -> (Vec<f32>, usize) {
        let known = observed.of(context);
        if self.text != context[..known] {
            self.clear();
            self.text = context[..known].to_vec();
        }
        let state = observed.rows(known - 1..known);
        let first = context.len() - known - 1;
        let network = Arc::clone(&self.network);
        let depths = (0..tree.len()).map(|node| tree.depth(node) + 1);
        let rows = std::iter::once(0).chain(depths);
        let logits = network.cpu.scope(|| {
            let mut logits = Vec::new();
            rows.for_each(|row| logits.extend_from_slice(self.said(first + row, state)));
            logits
        });
        (logits, 0)
    }

    fn clear(&mut self) {
        self.text.clear();
        self.said.clear();
    }
}
