//! The rows of a reviewer as distributions.

use std::sync::Arc;

use cascade_core::{Distribution, Matrix, Result, Sampling};

/// A reviewer's distributions, one for each row of its scores (see
/// [`Scores`](cascade_core::Scores)). A review requests each row when it reaches it.
pub trait RowDistributions {
    /// The distribution of a row.
    ///
    /// # Errors
    /// If the row is not a valid distribution.
    ///
    /// # Panics
    /// If there is no such row.
    fn distribution(&mut self, row: usize) -> Result<Arc<Distribution>>;
}

/// Distributions by softmax and [`Sampling`] from logits, computed on demand: a review reads the
/// rows along one path only, however large the tree.
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

/// Precomputed distributions.
impl RowDistributions for [Arc<Distribution>] {
    fn distribution(&mut self, row: usize) -> Result<Arc<Distribution>> {
        Ok(Arc::clone(&self[row]))
    }
}
