//! Sequences on the processor.

use std::sync::Arc;

use candle_core::{Result as TensorResult, Tensor};
use cascade_core::{Error, Result, Scores, TokenId, Want};

use crate::arena::Arena;
use crate::mask::Plan;
use crate::network::{Network, Sequence};
use crate::readout;

/// A network whose forward passes are tensors on the processor.
pub(crate) trait TensorNetwork: Network {
    fn arena(&self) -> Arena;

    /// What cross-attention reads of a source, for each layer; nothing for a network without an encoder.
    fn encode(&self, source: &[TokenId]) -> TensorResult<Vec<Tensor>>;

    /// Runs the network over the rows of `plan`, which the arena has room for, and writes their keys and values behind its
    /// committed slots. Gives the hidden states after the final norm: `[rows, size]`.
    fn decode(&self, plan: &Plan<'_>, source: &[Tensor], arena: &Arena) -> TensorResult<Tensor>;

    /// `[rows, size]` to logits `[rows, vocabulary]` in f32.
    fn logits(&self, hidden: &Tensor) -> TensorResult<Tensor>;
}

#[derive(Debug)]
pub(crate) struct CpuSequence<N> {
    network: Arc<N>,
    arena: Arena,
    source: Vec<TokenId>,
    /// The encoded source, once rows were fed.
    encoded: Option<Vec<Tensor>>,
}

impl<N: TensorNetwork> CpuSequence<N> {
    pub(crate) fn new(network: Arc<N>) -> Self {
        Self {
            arena: network.arena(),
            network,
            source: Vec::new(),
            encoded: None,
        }
    }

    /// Hidden states of all rows of `plan`.
    fn run(&mut self, plan: &Plan<'_>) -> TensorResult<Tensor> {
        debug_assert_eq!(self.arena.len(), plan.first_position());
        let encoded = match self.encoded.take() {
            Some(encoded) => encoded,
            None => self.network.encode(&self.source)?,
        };
        let encoded = self.encoded.insert(encoded);
        self.arena.reserve(plan.rows())?;
        let hidden = self.network.decode(plan, encoded, &self.arena)?;
        self.arena.commit(plan.rows());
        Ok(hidden)
    }

    fn run_and_read(&mut self, plan: &Plan<'_>) -> TensorResult<(Tensor, Tensor)> {
        let hidden = self.run(plan)?;
        let wanted = plan.tree().len() + 1;
        let hidden = hidden.narrow(0, hidden.dim(0)? - wanted, wanted)?;
        Ok((self.network.logits(&hidden)?, hidden))
    }
}

impl<N: TensorNetwork> Sequence for CpuSequence<N> {
    fn chunk(&self) -> usize {
        512
    }

    fn set_source(&mut self, source: &[TokenId]) {
        self.source = source.to_vec();
        self.encoded = None;
    }

    fn truncate(&mut self, len: usize) {
        self.arena.truncate(len);
    }

    fn keep(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        self.arena.keep(at, slots).map_err(Error::backend)
    }

    fn feed(&mut self, plan: &Plan<'_>) -> Result<()> {
        self.run(plan).map(drop).map_err(Error::backend)
    }

    fn score(&mut self, plan: &Plan<'_>, want: Want) -> Result<Scores> {
        let before = self.arena.len();
        let scores = self
            .run_and_read(plan)
            .map_err(Error::backend)
            .and_then(|(logits, hidden)| readout::scores(logits, &hidden, plan.tree(), want));
        if scores.is_err() {
            self.arena.truncate(before);
        }
        scores
    }
}
