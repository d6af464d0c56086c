//! What sessions are built on: networks, and sequences of rows appended to them.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use cascade_core::{HiddenLayers, Result, Scores, TokenId, Want};
use cascade_cpu::{Cache, CacheMemory, PAGE_SLOTS};

use crate::info::ModelInfo;
use crate::plan::Plan;

/// Rows of one forward at most, as far as the context goes: longer gaps are appended in pieces,
/// which bounds the memory that a forward takes.
pub(crate) const CHUNK: usize = 512;

/// The weights of a model on a device.
pub(crate) trait Network: Any + Debug + Send + Sync {
    /// What is known of it without running it.
    fn info(&self) -> &ModelInfo;

    /// Bytes of weights that a forward of so many rows reads.
    fn bytes_per_forward(&self, rows: usize) -> usize;

    /// Bytes of keys and values that the layers keep of one position of a sequence; those of a
    /// position of the source are as many.
    fn bytes_per_position(&self) -> usize;

    /// Bytes of the keys and values of all its sequences at present, and of so many positions of
    /// one; `None` where they are not counted.
    fn cache_memory(&self) -> Option<CacheUse<'_>>;

    /// The hidden states that its forwards give.
    fn hidden(&self) -> HiddenLayers;

    /// What the user should know of how its weights are held, in sentences.
    fn notes(&self) -> Vec<String>;

    /// Whether a forward takes rows of several sequences.
    fn gathers(&self) -> bool;

    /// Whether the bits of a row do not depend on the rows beside it.
    fn is_row_invariant(&self) -> bool;

    /// Appends rows to sequences of this network: in one forward if it [gathers](Self::gathers),
    /// else one after the other. Gives what is read of each, with the bits that it has alone. What
    /// fails for one leaves its slots as they were, and concerns no other.
    fn forward(&self, texts: Vec<NewRows<'_>>) -> Vec<Result<Scores>>;

    /// A sequence with nothing in it. Allocates nothing.
    fn sequence(self: Arc<Self>) -> Box<dyn Sequence>;
}

/// The memory that sequences of a network take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheUse<'a> {
    /// What there is.
    pub(crate) memory: &'a CacheMemory,
    /// Bytes of a page.
    pub(crate) page: usize,
}

impl CacheUse<'_> {
    /// Bytes of so many positions.
    pub(crate) fn of(self, positions: usize) -> usize {
        self.page.saturating_mul(positions.div_ceil(PAGE_SLOTS))
    }
}

/// Rows that a forward appends to a sequence, and what is read of them.
#[derive(Debug)]
pub(crate) struct NewRows<'a, S: ?Sized = dyn Sequence> {
    pub(crate) sequence: &'a mut S,
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
    /// How many rows of `plan`, from the last one, logits are read of.
    pub(crate) fn logits(self, plan: &Plan<'_>) -> usize {
        match self {
            Self::Hidden(..) => 0,
            Self::Scores(_) => plan.tree().len() + 1,
        }
    }

    /// Which hidden states are read, and of how many rows of `plan`, from the last one.
    pub(crate) fn hidden(self, plan: &Plan<'_>) -> (HiddenLayers, usize) {
        match self {
            Self::Hidden(_, 0) => (HiddenLayers::NONE, 0),
            Self::Hidden(layers, rows) => (layers, rows),
            Self::Scores(want) => {
                let rows = want.hidden_rows(plan.context(), plan.tree().len());
                (want.hidden, rows.min(plan.rows()))
            }
        }
    }
}

/// Rows appended to a network one after the other, and the keys and values they left behind, in
/// slots.
///
/// Whatever fails leaves the slots as they were before the call.
pub(crate) trait Sequence: Any + Debug + Send {
    /// Bytes of its keys and values, those of the source included; 0 where they are not counted.
    fn cache_bytes(&self) -> usize {
        0
    }

    /// Keys and values of the sequence and of the source, which sequences of one network can
    /// [share](Cache::share), where they lie in pages.
    fn caches(&mut self) -> Option<(&mut Cache, &mut Option<Arc<Cache>>)> {
        None
    }

    /// Makes `source` what cross-attention reads. Encoding is put off until rows are appended.
    fn set_source(&mut self, source: &[TokenId]);

    /// Forgets all slots from `len` on. Free.
    fn truncate(&mut self, len: usize);

    /// Moves `slots`, which ascend from `at` or later, to where the slot `at` begins, and forgets
    /// everything else from `at` on. On failure, slots `..at` are left.
    fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()>;
}
