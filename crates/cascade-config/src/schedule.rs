//! Who drafts and how much: the schedule of a configuration.

use cascade_engine::{
    AssumedCosts, KMatrix, OnStatement, OnlineSchedule, Placement, Schedule, StaticSchedule,
};

/// The schedule of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduleConfig {
    /// A K matrix says how many tokens each drafter drafts: `k: {…}`.
    Static(KMatrix),
    /// Tokens whose expected gain exceeds their measured cost ([`OnlineSchedule`]): `schedule:
    /// online`, and what a configuration without `k` means.
    Online,
}

impl ScheduleConfig {
    /// `static` or `online`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Static(_) => "static",
            Self::Online => "online",
        }
    }

    /// The K matrix, if there is one.
    pub const fn k(&self) -> Option<&KMatrix> {
        match self {
            Self::Static(k) => Some(k),
            Self::Online => None,
        }
    }

    /// The schedule itself. `assumed` are costs before they are measured. Only the online one
    /// believes statements, and gives what became of them.
    pub fn schedule(
        &self,
        placement: Placement,
        assumed: AssumedCosts,
        tell: OnStatement,
    ) -> Box<dyn Schedule> {
        match self {
            Self::Static(k) => Box::new(StaticSchedule::new(k.clone()).with_placement(placement)),
            Self::Online => Box::new(OnlineSchedule::new(assumed).telling(tell)),
        }
    }
}

impl From<KMatrix> for ScheduleConfig {
    fn from(k: KMatrix) -> Self {
        Self::Static(k)
    }
}
