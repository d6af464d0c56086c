//! The rows of a reviewer as distributions.

use std::sync::Arc;

use cascade_core::{Distribution, Matrix, Result, Sampling};

/// What a reviewer says: one distribution for each row of its scores (see
/// [`Scores`](cascade_core::Scores)). RowDistributions are asked for as a review gets to them.
pub trait RowDistributions {
    /// The distribution of a row.
    ///
    /// # Errors
    /// A row that is none.
    ///
    /// # Panics
    /// If there is no such row.
    fn distribution(&mut self, row: usize) -> Result<Arc<Distribution>>;
}

/// Distributions by softmax and [`Sampling`] from logits, each computed when it is first asked for:
/// a review looks at the rows along one path, however large the tree.
#[derive(Clone, Debug)]
pub struct SampledRows<'a> {
    logits: &'a Matrix,
    sampling: &'a Sampling,
    rows: Vec<Option<Arc<Distribution>>>,
}

impl<'a> SampledRows<'a> {
    /// The rows of `logits` (`[N + 1, vocabulary]`).
    pub fn new(logits: &'a Matrix, sampling: &'a Sampling) -> Self {
        Self {
            rows: vec![None; logits.rows()],
            logits,
            sampling,
        }
    }
}

impl RowDistributions for SampledRows<'_> {
    fn distribution(&mut self, row: usize) -> Result<Arc<Distribution>> {
        if let Some(distribution) = &self.rows[row] {
            return Ok(Arc::clone(distribution));
        }
        let distribution = Arc::new(self.sampling.distribution(self.logits.row(row))?);
        Ok(Arc::clone(self.rows[row].insert(distribution)))
    }
}

/// Distributions that are there already.
impl RowDistributions for [Arc<Distribution>] {
    fn distribution(&mut self, row: usize) -> Result<Arc<Distribution>> {
        Ok(Arc::clone(&self[row]))
    }
}
