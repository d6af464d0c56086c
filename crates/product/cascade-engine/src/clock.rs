//! What time it is: the machine's clock, or one that a replay moves.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A source of time. Ledgers, timings and policies read no other.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Time since some moment, which never falls.
    fn now(&self) -> Duration;
}

/// The machine's monotonic clock; the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed()
    }
}

/// A clock that stands still unless it is moved: for replays and tests, in which forwards take an
/// assumed time. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// Moves the clock.
    pub fn advance(&self, by: Duration) {
        let nanoseconds = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Times consecutive phases.
pub(crate) struct Laps<'c> {
    clock: &'c dyn Clock,
    last: Duration,
}

impl<'c> Laps<'c> {
    pub(crate) fn start(clock: &'c dyn Clock) -> Self {
        Self {
            clock,
            last: clock.now(),
        }
    }

    /// Time since the start or the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = self.clock.now();
        now.saturating_sub(std::mem::replace(&mut self.last, now))
    }
}
