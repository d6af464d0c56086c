//! How often a drafter's first token is what the target says.

use cascade_engine::{Cascade, Options};

use super::{Record, replay};
use crate::Result;
use crate::ratio::ByRecord;

/// Drafts whose first token the target kept, and all drafts, by record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirstToken(ByRecord);

impl FirstToken {
    /// Replays a record with a cascade of one drafter, and adds what became of the first token of
    /// each of its drafts. With a K matrix of `[[1]]` that is all it drafts.
    ///
    /// # Errors
    /// As [`replay`](fn@replay).
    pub fn add(&mut self, cascade: &mut Cascade, record: &Record, options: &Options) -> Result<()> {
        let generation = replay(cascade, record, options)?;
        let steps = generation.steps.iter();
        let drafts: Vec<_> = steps.filter(|step| step.drafted > 0).collect();
        let kept = drafts.iter().filter(|step| step.accepted > 0).count();
        self.0.0.push((kept as f64, drafts.len() as f64));
        Ok(())
    }

    /// All drafts.
    pub fn drafted(&self) -> usize {
        self.0.sums().1 as usize
    }

    /// The share of the drafts whose first token was kept; `None` if nothing was drafted.
    pub fn share(&self) -> Option<f64> {
        Some(self.0.ratio()).filter(|share| share.is_finite())
    }

    /// Its 95% interval, by resampling records.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.0.interval(|kept, drafted| kept / drafted)
    }
}
