//! What sessions are built on: networks, and sequences of rows appended to them.

use std::sync::Arc;

use cascade_core::{HiddenLayer, HiddenLayers, Result, Scores, TokenId, Want};
use cascade_cpu::Cache;

#[cfg(feature = "candle")]
use super::candle::{self, Candle, CandleSequence};
use super::cpu::Cpu;
use super::{Backend, BackendNetwork, HeldWeights, host};
use crate::plan::Plan;

/// Rows of one forward at most, as far as the context goes: longer gaps are appended in pieces,
/// which bounds the memory that a forward takes.
pub(crate) const CHUNK: usize = 512;

/// The weights of a model on a device.
#[derive(Clone, Debug)]
pub(crate) enum Network {
    Cpu(Arc<BackendNetwork<Cpu>>),
    #[cfg(feature = "candle")]
    Candle(Arc<BackendNetwork<Candle>>),
}

impl Network {
    /// How its matrices are held.
    pub(crate) fn held(&self) -> &HeldWeights {
        match self {
            Self::Cpu(network) => network.backend.held(),
            #[cfg(feature = "candle")]
            Self::Candle(network) => network.backend.held(),
        }
    }

    /// Bytes of keys and values of one position: see [`BackendNetwork::bytes_per_position`].
    pub(crate) fn bytes_per_position(&self) -> usize {
        match self {
            Self::Cpu(network) => network.bytes_per_position(),
            #[cfg(feature = "candle")]
            Self::Candle(network) => network.bytes_per_position(),
        }
    }

    /// The network on the CPU with our kernels: its forwards take rows of several sequences, the
    /// bits of a row do not depend on the rows beside it, and keys and values are counted.
    pub(crate) fn on_cpu(&self) -> Option<&Arc<BackendNetwork<Cpu>>> {
        match self {
            Self::Cpu(network) => Some(network),
            #[cfg(feature = "candle")]
            Self::Candle(_) => None,
        }
    }

    /// Appends rows to sequences of this network: on the CPU in one forward, else one after the
    /// other. Gives what is read of each, with the bits that it has alone. What fails for one
    /// leaves its slots as they were, and concerns no other.
    pub(crate) fn forward(&self, texts: Vec<NewRows<'_>>) -> Vec<Result<Scores>> {
        match self {
            Self::Cpu(network) => host::forward(network, texts),
            #[cfg(feature = "candle")]
            Self::Candle(network) => candle::forward(network, texts),
        }
    }

    /// A sequence with nothing in it. Allocates nothing.
    pub(crate) fn sequence(&self) -> Sequence {
        match self {
            Self::Cpu(network) => Sequence::Cpu(HostSequence {
                cache: network.backend.cache(network.info.cache_shape()),
                encoded: None,
            }),
            #[cfg(feature = "candle")]
            Self::Candle(network) => Sequence::Candle(CandleSequence::new(network)),
        }
    }
}

/// Rows that a forward appends to a sequence, and what is read of them.
#[derive(Debug)]
pub(crate) struct NewRows<'a, S = Sequence> {
    pub(crate) sequence: &'a mut S,
    /// What cross-attention reads: the same in all forwards of a sequence.
    pub(crate) source: &'a [TokenId],
    /// The rows, which begin where the sequence ends.
    pub(crate) plan: Plan<'a>,
    pub(crate) read: Read,
}

/// What is read of the rows of a forward.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Read {
    /// Hidden states of the last so many rows, and no scores.
    Hidden(HiddenLayers, usize),
    /// What is wanted of the last row of the context and of the nodes; hidden states of the rows
    /// before those, too, as far as [`hidden_after`](Want::hidden_after) goes.
    Scores(Want),
}

impl Read {
    /// What a forward over the rows of `plan` gives for it.
    pub(super) fn wanted(self, plan: &Plan<'_>) -> Wanted {
        let (logits, hidden, hidden_rows) = match self {
            Self::Hidden(_, 0) => (0, HiddenLayers::NONE, 0),
            Self::Hidden(layers, rows) => (0, layers, rows),
            Self::Scores(want) => {
                let rows = want.hidden_rows(plan.context(), plan.tree().len());
                (plan.tree().len() + 1, want.hidden, rows.min(plan.rows()))
            }
        };
        Wanted {
            logits,
            hidden,
            hidden_rows,
        }
    }
}

/// What a forward gives of its rows, counted from the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted {
    /// Rows that logits are given of.
    pub(super) logits: usize,
    pub(super) hidden: HiddenLayers,
    /// Rows that these hidden states are given of.
    pub(super) hidden_rows: usize,
}

impl Wanted {
    /// Whether the last layer's end is needed, and not only keys and values.
    pub(super) fn is_whole(&self) -> bool {
        self.logits > 0 || self.hidden.contains(HiddenLayer::Last)
    }
}

/// Rows appended to a network one after the other, and the keys and values they left behind, in
/// slots. Whatever fails leaves the slots as they were before the call.
#[derive(Debug)]
pub(crate) enum Sequence {
    Cpu(HostSequence),
    #[cfg(feature = "candle")]
    Candle(CandleSequence),
}

/// Rows appended to a network on the CPU.
#[derive(Debug)]
pub(crate) struct HostSequence {
    pub(crate) cache: Cache,
    /// Keys and values of the source, once rows were appended; of the same one other sequences may
    /// have them, too.
    pub(crate) encoded: Option<Arc<Cache>>,
}

impl HostSequence {
    /// Bytes of keys and values, those of the source included.
    pub(crate) fn bytes(&self) -> usize {
        self.cache.bytes() + self.encoded.as_ref().map_or(0, |encoded| encoded.bytes())
    }
}

impl Sequence {
    /// The sequence on the CPU, of which pages can be [shared](Cache::share).
    pub(crate) fn on_cpu(&mut self) -> Option<&mut HostSequence> {
        match self {
            Self::Cpu(sequence) => Some(sequence),
            #[cfg(feature = "candle")]
            Self::Candle(_) => None,
        }
    }

    /// Forgets all slots from `len` on. Free.
    pub(crate) fn truncate(&mut self, len: usize) {
        match self {
            Self::Cpu(sequence) => sequence.cache.truncate(len),
            #[cfg(feature = "candle")]
            Self::Candle(sequence) => sequence.truncate(len),
        }
    }

    /// Moves `slots`, which ascend from `at` or later, to where the slot `at` begins, and forgets
    /// everything else from `at` on. On failure, slots `..at` are left.
    pub(crate) fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        match self {
            Self::Cpu(sequence) => sequence.cache.retain(at, slots),
            #[cfg(feature = "candle")]
            Self::Candle(sequence) => sequence.retain(at, slots)?,
        }
        Ok(())
    }
}
