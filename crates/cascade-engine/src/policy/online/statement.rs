//! What became of what drafters said of their tokens.

use std::fmt;
use std::sync::Arc;

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

/// Is given [`Statement`]s once what became of them is known. Does nothing by default.
#[derive(Clone, Default)]
pub struct OnStatement(Option<Arc<Tell>>);

type Tell = dyn Fn(&Statement) + Send + Sync;

impl OnStatement {
    /// Calls this.
    pub fn new(tell: impl Fn(&Statement) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(super) fn tell(&self, statement: &Statement) {
        if let Some(tell) = &self.0 {
            tell(statement);
        }
    }
}

impl fmt::Debug for OnStatement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OnStatement")
    }
}
