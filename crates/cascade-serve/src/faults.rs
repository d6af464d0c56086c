//! Faults that tests switch on, at every stage of an answer.

use std::fmt;
use std::sync::Arc;

/// A stage of an answer, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Its request is understood.
    Reading,
    /// It gets a session, while all others wait for the scheduler.
    Admission,
    /// Its generation begins.
    Beginning,
    /// Its next step is taken.
    Step,
    /// A forward that it shares with others has been computed.
    Forward,
    /// What a step gave is counted and sent.
    Report,
    /// It is complete, and its session is given back.
    End,
    /// A part of it is written for its client.
    Writing,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Reading,
        Self::Admission,
        Self::Beginning,
        Self::Step,
        Self::Forward,
        Self::Report,
        Self::End,
        Self::Writing,
    ];
}

/// What happens at the stages of answers beside their work: nothing, but in tests, which let them
/// panic or wait there.
#[derive(Clone, Default)]
pub struct Faults(Option<Arc<dyn Fn(Stage) + Send + Sync>>);

impl Faults {
    /// Calls `fault` at each stage of each answer.
    pub fn new(fault: impl Fn(Stage) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(fault)))
    }

    pub(crate) fn at(&self, stage: Stage) {
        if let Some(fault) = &self.0 {
            fault(stage);
        }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Faults({})", self.0.is_some())
    }
}
