//! What sessions are built on: networks, and sequences of rows appended to them.

use std::fmt::Debug;
use std::sync::Arc;

use cascade_core::{HiddenLayers, HiddenStates, Result, Scores, TokenId, Want};

use crate::info::ModelInfo;
use crate::plan::Plan;

/// What the launches of a forward on a GPU that are for one purpose take.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaunchCost {
    /// What they are for.
    pub purpose: &'static str,
    /// How many there are in a forward.
    pub launches: usize,
    /// Seconds that they take one after the other, without those for other purposes between them.
    pub seconds: f64,
    /// Bytes of weights that they read.
    pub weights: usize,
}

/// The weights of a model on a device.
pub(crate) trait Network: Debug + Send + Sync {
    /// What is known of it without running it.
    fn info(&self) -> &ModelInfo;

    /// Bytes of weights that a forward of so many rows reads.
    fn bytes_per_forward(&self, rows: usize) -> usize;

    /// Bytes of keys and values that the layers keep of one position of a sequence; those of a
    /// position of the source are as many.
    fn bytes_per_position(&self) -> usize;

    /// The hidden states that its forwards give.
    fn hidden(&self) -> HiddenLayers;

    /// What the user should know of how its weights are held, in sentences.
    fn notes(&self) -> Vec<String>;

    /// Kernels that a forward of `rows` rows launched, for a network on a GPU that has run one.
    fn launches(&self, rows: usize) -> Option<usize>;

    /// What the launches of the last forward take, for a network on a GPU that has run one whose
    /// sequence still exists.
    fn profile(&self, repeats: usize) -> Result<Vec<LaunchCost>>;

    /// A sequence with nothing in it. Allocates nothing.
    fn sequence(self: Arc<Self>) -> Box<dyn Sequence>;
}

/// Rows appended to a network one after the other, and the keys and values they left behind, in
/// slots.
///
/// Whatever fails leaves the slots as they were before the call.
pub(crate) trait Sequence: Debug + Send {
    /// Rows of one forward at most, as far as the context goes: longer gaps are appended in pieces,
    /// which bounds the memory that a forward takes.
    fn chunk(&self) -> usize;

    /// Makes `source` what cross-attention reads. Encoding is put off until rows are appended.
    fn set_source(&mut self, source: &[TokenId]);

    /// Forgets all slots from `len` on. Free.
    fn truncate(&mut self, len: usize);

    /// Moves `slots`, which ascend from `at` or later, to where the slot `at` begins, and forgets
    /// everything else from `at` on. On failure, slots `..at` are left.
    fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()>;

    /// Appends the rows of `plan` to the slots there are, and gives the hidden states of its last
    /// `rows` that are asked for.
    fn append(
        &mut self,
        plan: &Plan<'_>,
        hidden: HiddenLayers,
        rows: usize,
    ) -> Result<HiddenStates>;

    /// Appends the rows of `plan` and gives what `want` asks for, of its last context row and its
    /// nodes; hidden states of the rows before those, too, as far as
    /// [`hidden_after`](Want::hidden_after) goes.
    fn score(&mut self, plan: &Plan<'_>, want: Want) -> Result<Scores>;
}
