//! Who drafts and how much: the schedule of a configuration.

use std::sync::mpsc::Sender;

use cascade_engine::{
    AssumedCosts, KMatrix, OnlineSchedule, Placement, Schedule, Statement, StaticSchedule,
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
    /// believes statements, and sends what became of them.
    pub fn schedule(
        &self,
        placement: Placement,
        assumed: AssumedCosts,
        statements: Option<Sender<Statement>>,
    ) -> Box<dyn Schedule> {
        match self {
            Self::Static(k) => Box::new(StaticSchedule::new(k.clone()).with_placement(placement)),
            Self::Online => Box::new(OnlineSchedule::new(assumed).telling(statements)),
        }
    }
}

impl From<KMatrix> for ScheduleConfig {
    fn from(k: KMatrix) -> Self {
        Self::Static(k)
    }
}
