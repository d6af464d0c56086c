//! How often a hub that fails is asked again, and after which wait.

use std::time::{Duration, SystemTime};

use super::failure::{Again, Failure, Outcome};
use super::progress::Display;
use crate::HubLimits;

/// How many more failures are put up with.
pub(super) struct Patience<'a> {
    limits: &'a HubLimits,
    retries: u32,
    failures: u32,
}

impl<'a> Patience<'a> {
    pub(super) fn new(limits: &'a HubLimits) -> Self {
        Self {
            limits,
            retries: limits.retries,
            failures: 0,
        }
    }

    /// Where the cache can stand in for the hub, the hub has one more chance only.
    pub(super) fn with_cached(self, cached: bool) -> Self {
        let most = if cached { 1 } else { u32::MAX };
        let retries = self.retries.min(most);
        Self { retries, ..self }
    }

    /// Waits until it is time for another attempt, or gives the failure back if there is to be
    /// none.
    pub(super) fn wait_or_give_up(
        &mut self,
        failure: Failure,
        reached: bool,
        display: &Display,
    ) -> Outcome<()> {
        let Failure::Unreachable { reason, again } = failure else {
            return Err(failure);
        };
        let give_up = |reason: String| Err(Failure::unreachable(reason, Again::No));
        self.failures += 1;
        let wait = match again {
            Again::No => return give_up(reason),
            Again::IfReached if !reached => return give_up(reason),
            _ if self.failures > self.retries => {
                return give_up(match self.failures {
                    1 => reason,
                    attempts => format!("{reason}, in the last of {attempts} attempts"),
                });
            }
            Again::After(wait) if wait > self.limits.longest_wait => {
                let wait = wait.as_secs();
                return give_up(format!("{reason}, and asks to come back in {wait} s"));
            }
            Again::After(wait) => wait,
            Again::Soon | Again::IfReached => self.backoff(),
        };
        display.say(&format!(
            "{reason}; next attempt in {:.1} s",
            wait.as_secs_f64()
        ));
        std::thread::sleep(wait);
        Ok(())
    }

    /// Failures so far do not count any more.
    pub(super) fn renew(&mut self) {
        self.failures = 0;
    }

    /// Doubles with each failure. Up to half of it is left to chance, so that many who failed
    /// together do not come back together.
    fn backoff(&self) -> Duration {
        let doublings = (self.failures - 1).min(16);
        let whole = self.limits.backoff.saturating_mul(1 << doublings);
        let whole = whole.min(self.limits.longest_wait);
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let chance = now.subsec_micros() % 1000;
        whole / 2 + whole / 2 * chance / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let limits = HubLimits::default();
        for (failures, most) in [(1, 500), (2, 1000), (5, 8000), (9, 60_000), (1000, 60_000)] {
            let mut patience = Patience::new(&limits);
            patience.failures = failures;
            let wait = patience.backoff().as_millis();
            assert!((most / 2..=most).contains(&wait), "{failures}: {wait}");
        }
    }

    #[test]
    fn what_is_final_is_not_tried_again() {
        let limits = HubLimits {
            backoff: Duration::from_millis(1),
            retries: 2,
            ..HubLimits::default()
        };
        let display = Display::new(false);
        let mut patience = Patience::new(&limits);
        let mut next = |failure, reached| patience.wait_or_give_up(failure, reached, &display);
        let unreachable = |again| Failure::unreachable("why", again);
        assert!(next(Failure::untrusted("odd"), true).is_err());
        assert!(next(unreachable(Again::Soon), true).is_ok());
        assert!(next(unreachable(Again::IfReached), true).is_ok());
        let Err(Failure::Unreachable { reason, .. }) = next(unreachable(Again::Soon), true) else {
            panic!("two are enough");
        };
        assert_eq!(reason, "why, in the last of 3 attempts");
        let next = |again, reached| {
            let display = Display::new(false);
            Patience::new(&limits).wait_or_give_up(unreachable(again), reached, &display)
        };
        let mut cached = Patience::new(&limits).with_cached(true);
        for good in [true, false] {
            let next = cached.wait_or_give_up(unreachable(Again::Soon), true, &display);
            assert_eq!(next.is_ok(), good);
        }
        assert!(next(Again::No, true).is_err());
        assert!(next(Again::IfReached, false).is_err());
        assert!(next(Again::After(Duration::from_millis(1)), true).is_ok());
        assert!(next(Again::After(Duration::from_secs(61)), true).is_err());
    }
}
