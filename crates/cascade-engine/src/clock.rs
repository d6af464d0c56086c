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

/// The CPU time of the calling thread: what forwards and drafts take where that thread computes
/// them alone, however busy the machine is. The machine's clock where the system has no such one.
///
/// Only times that one thread reads can be compared, as ledgers and policies do.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadClock;

impl Clock for ThreadClock {
    fn now(&self) -> Duration {
        cpu_time_of(Computing::Thread).unwrap_or_else(|| SystemClock.now())
    }
}

/// Time that the processors have spent on this process, all of its threads together; `None` where
/// the system does not tell. Unlike the time that passes, it does not grow while others compute.
pub fn cpu_time() -> Option<Duration> {
    cpu_time_of(Computing::Process)
}

enum Computing {
    Thread,
    Process,
}

#[cfg(unix)]
fn cpu_time_of(what: Computing) -> Option<Duration> {
    let time = rustix::time::clock_gettime(match what {
        Computing::Thread => rustix::time::ClockId::ThreadCPUTime,
        Computing::Process => rustix::time::ClockId::ProcessCPUTime,
    });
    let (seconds, nanoseconds) = (time.tv_sec.try_into(), time.tv_nsec.try_into());
    Some(Duration::new(seconds.ok()?, nanoseconds.ok()?))
}

#[cfg(not(unix))]
fn cpu_time_of(_: Computing) -> Option<Duration> {
    None
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

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn cpu_time_grows_with_what_is_computed() {
        let before = cpu_time().unwrap();
        let mut sum = 0u64;
        while cpu_time().unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(cpu_time().unwrap() > before);
    }

    #[test]
    #[cfg(unix)]
    fn a_thread_that_waits_takes_no_time() {
        let (wall, work) = (SystemClock.now(), ThreadClock.now());
        std::thread::sleep(Duration::from_millis(20));
        let (wall, work) = (SystemClock.now() - wall, ThreadClock.now() - work);
        assert!(work < wall / 2, "{work:?} of {wall:?}");
        let before = ThreadClock.now();
        while ThreadClock.now() == before {
            std::hint::black_box(());
        }
    }
}
