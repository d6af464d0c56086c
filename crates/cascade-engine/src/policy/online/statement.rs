//! What became of what drafters said of their tokens.

use cascade_core::LevelId;

/// A token whose predecessors were accepted, and what was said of it before.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Statement {
    /// Who reviewed it.
    pub reviewer: LevelId,
    /// Who drafted it for the reviewer.
    pub drafter: LevelId,
    /// The probability that the drafter stated; `None` if it stated none.
    pub stated: Option<f32>,
    /// What the schedule made of that.
    pub believed: f64,
    /// Whether it was accepted, or would have been if it had been drafted.
    pub accepted: bool,
}
