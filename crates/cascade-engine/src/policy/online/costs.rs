//! What forwards of a model cost and earn: its times by rows, how busy the machine is, and the
//! rate of tokens.

use cascade_core::{ForwardTimes, RowTimes};

use crate::policy::lately::{FAST, Lately};

/// Tokens of the context over which a forward takes about as long.
const STEP: usize = 64;

/// T(R) of a model, and the load of the machine: measured over expected times, with forgetting. A
/// busy machine makes all forwards slower alike, so what more rows add, in forwards of one row, is
/// T(R) alone.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    times: ForwardTimes,
    /// Tokens of the context of late, in steps, and times after it.
    context: usize,
    now: RowTimes,
    /// None before the first measurement, if the unit of the times is not known.
    load: Lately,
}

impl Costs {
    /// Times in seconds, of a machine with nothing else to do, or without a load in a unit that is
    /// not known before a forward was measured.
    pub(super) fn new(times: ForwardTimes, load: Option<f64>) -> Self {
        Self {
            now: times.after(0),
            times,
            context: 0,
            load: Lately(load),
        }
    }

    /// Forwards are after a context of so many tokens from now on.
    pub(super) fn follow(&mut self, context: usize) {
        let context = context - context % STEP;
        if context != self.context {
            self.context = context;
            self.now = self.times.after(context);
        }
    }

    /// Seconds of a forward of a mean number of rows; `None` before the first measurement.
    pub(super) fn seconds(&self, rows: f64) -> Option<f64> {
        Some(self.load.0? * self.at(rows))
    }

    /// Time of such a forward in the unit of T(R).
    pub(super) fn at(&self, rows: f64) -> f64 {
        self.now.at(rows)
    }

    /// Learns the load from a forward.
    pub(super) fn learn(&mut self, rows: usize, seconds: f64) {
        let found = seconds / self.at(rows as f64);
        if found.is_finite() && found > 0.0 {
            self.load.learn(found);
        }
    }
}

/// Tokens of late, in units of plain decoding, which it begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    tokens: f64,
    time: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            tokens: 1.0 / FAST,
            time: 1.0 / FAST,
        }
    }
}

impl Rate {
    /// How many times the tokens of plain decoding.
    pub(super) fn gain(self) -> f64 {
        (self.tokens / self.time).max(1.0)
    }

    /// Learns the tokens of a step, and its time in steps of plain decoding. Beside other texts the
    /// rate is that of more steps: it stands for theirs too.
    pub(super) fn learn(&mut self, tokens: f64, time: f64, texts: usize) {
        let keep = (1.0 - FAST).powf(1.0 / texts as f64);
        self.tokens = keep * self.tokens + tokens;
        self.time = keep * self.time + time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cascade_core::RowTimes;

    #[test]
    fn the_load_is_followed_and_rows_cost_what_they_did() {
        let mut costs = Costs::new(RowTimes::linear(1.0, 0.2).into(), None);
        assert_eq!(costs.seconds(1.0), None);
        assert!((costs.at(6.0) - 2.0).abs() < 1e-9);
        costs.learn(6, 4e-3);
        assert!((costs.seconds(1.0).unwrap() / 2e-3 - 1.0).abs() < 1e-9);
        (0..40).for_each(|_| costs.learn(6, 12e-3));
        assert!(
            (costs.seconds(1.0).unwrap() / 6e-3 - 1.0).abs() < 0.05,
            "{costs:?}"
        );
        (0..20).for_each(|_| costs.learn(1, 2e-3));
        assert!(
            (costs.seconds(1.0).unwrap() / 2e-3 - 1.0).abs() < 0.05,
            "{costs:?}"
        );
        assert!((costs.at(6.0) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_pause_of_the_machine_is_no_load() {
        let mut costs = Costs::new(RowTimes::linear(1e-3, 0.2).into(), Some(1.0));
        costs.learn(1, 1.0);
        assert!(costs.seconds(1.0).unwrap() < 1.13e-3, "{costs:?}");
        costs.learn(0, f64::NAN);
        costs.learn(3, 0.0);
        assert!(costs.seconds(1.0).unwrap() < 1.13e-3, "{costs:?}");
    }

    #[test]
    fn rows_of_long_contexts_cost_more() {
        let times = [(64, 1, 1.0), (64, 2, 1.1), (1024, 1, 2.0), (1024, 2, 3.0)];
        let mut costs = Costs::new(ForwardTimes::measured(times).unwrap(), Some(1.0));
        assert!((costs.at(2.0) - 1.1).abs() < 1e-9);
        costs.follow(1024);
        assert!((costs.at(2.0) - 3.0).abs() < 1e-9);
    }
}
