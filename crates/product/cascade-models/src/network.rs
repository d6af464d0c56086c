//! What sessions are built on: networks, and sequences of rows fed to them.

use std::fmt::Debug;
use std::sync::Arc;

use cascade_core::{Architecture, Result, Scores, TokenId, Want};

use cascade_gpu::LaunchCost;

use crate::mask::Plan;

/// The weights of a model on a device.
pub(crate) trait Network: Debug + Send + Sync {
    fn architecture(&self) -> Architecture;

    /// Rows of its embedding, and columns of its logits.
    fn vocab_size(&self) -> usize;

    /// Number of parameters; a tied head counts once.
    fn num_parameters(&self) -> usize;

    /// Bytes of weights that one forward reads, whatever the number of rows.
    fn bytes_per_forward(&self) -> usize;

    /// Layers that a forward goes through: the decoder's.
    fn layers(&self) -> usize;

    /// Bytes of keys and values that the layers keep of one position of a sequence; those of a position of the source are as
    /// many.
    fn bytes_per_position(&self) -> usize;

    /// Kernels that a forward of so many rows launched, for a network on a GPU that has run one.
    fn launches(&self, _rows: usize) -> Option<usize> {
        None
    }

    /// What the launches of the last forward take, for a network on a GPU that has run one whose sequence still exists.
    fn profile(&self, _repeats: usize) -> Result<Vec<LaunchCost>> {
        Ok(Vec::new())
    }

    /// Positions that there are, if they are limited.
    fn max_context(&self) -> Option<usize>;

    /// The token that is read before the context.
    fn start(&self) -> Option<TokenId>;

    /// A sequence with nothing in it. Allocates nothing.
    fn sequence(self: Arc<Self>) -> Box<dyn Sequence>;
}

/// Rows fed to a network one after the other, and the keys and values they left behind, in slots.
///
/// Whatever fails leaves the slots as they were before the call.
pub(crate) trait Sequence: Debug + Send {
    /// Rows of one forward at most, as far as the context goes: longer gaps are fed in pieces, which bounds the memory that a forward takes.
    fn chunk(&self) -> usize;

    /// Makes `source` what cross-attention looks at. Encoding is put off until rows are fed.
    fn set_source(&mut self, source: &[TokenId]);

    /// Forgets all slots from `len` on. Free.
    fn truncate(&mut self, len: usize);

    /// Moves `slots`, which ascend from `at` or later, to where the slot `at` begins, and forgets everything else from `at` on. On
    /// failure, slots `..at` are left.
    fn keep(&mut self, at: usize, slots: &[u32]) -> Result<()>;

    /// Feeds the rows of `plan` behind the slots there are.
    fn feed(&mut self, plan: &Plan<'_>) -> Result<()>;

    /// Feeds the rows of `plan` and gives what `want` asks for, of its last context row and its nodes.
    fn score(&mut self, plan: &Plan<'_>, want: Want) -> Result<Scores>;
}
