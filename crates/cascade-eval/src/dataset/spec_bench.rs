//! Spec-Bench: MT-bench, translation, summarization, question answering, math and
//! retrieval-augmented generation, in one file of MT-bench's form.

use super::entry::{Entry, Result};
use super::mt_bench;
use crate::Sample;

/// The category is MT-bench's own for its 80 conversations (`writing`, …), and the task's for the
/// others.
pub(super) fn sample(entry: Entry, position: usize) -> Result<Sample> {
    mt_bench::sample(entry, position)
}
