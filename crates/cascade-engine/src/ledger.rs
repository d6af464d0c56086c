//! The ledger: calls, rows and time of each model.

use std::sync::Arc;
use std::time::Duration;

use crate::{Clock, SystemClock};

/// What one model did during one generation, as counts to which costs can be applied later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// Forwards of a neural model; proposals of a statistical one.
    pub calls: u64,
    /// Rows that were requested: N + 1 for a tree of N nodes. For a statistical model, tokens
    /// proposed.
    pub rows: u64,
    /// Additional rows, computed because the model had not yet seen tokens that others produced.
    pub catch_up_rows: u64,
    /// Rows of the prompt, in the first forward of a generation.
    pub prefill_rows: u64,
    /// Time spent in the model, including encoding of the source.
    #[serde(rename = "seconds", serialize_with = "crate::json::seconds")]
    pub time: Duration,
}

impl Usage {
    /// The difference to an `earlier` state.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            calls: self.calls - earlier.calls,
            rows: self.rows - earlier.rows,
            catch_up_rows: self.catch_up_rows - earlier.catch_up_rows,
            prefill_rows: self.prefill_rows - earlier.prefill_rows,
            time: self.time.saturating_sub(earlier.time),
        }
    }

    /// All rows computed.
    pub(crate) fn all_rows(&self) -> u64 {
        self.rows + self.catch_up_rows + self.prefill_rows
    }
}

/// The ledger of one model.
#[derive(Debug)]
pub(crate) struct Ledger {
    usage: Usage,
    clock: Arc<dyn Clock>,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            usage: Usage::default(),
            clock: Arc::new(SystemClock),
        }
    }
}

impl Ledger {
    /// Reads the time from another clock than the machine's.
    pub(crate) fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = clock;
    }

    /// What the model did since the ledger was last emptied.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Empties the ledger before another prompt.
    pub(crate) fn clear(&mut self) {
        self.usage = Usage::default();
    }

    /// Lets the model work, and counts how long that takes.
    pub(crate) fn timed<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = self.clock.now();
        let done = work();
        self.usage.time += self.clock.now().saturating_sub(started);
        done
    }

    /// Counts a forward that scored a tree of so many nodes.
    pub(crate) fn count_forward(&mut self, nodes: usize, rows_computed: usize) {
        let wanted = nodes as u64 + 1;
        let others = (rows_computed as u64).saturating_sub(wanted);
        if self.usage.calls == 0 {
            self.usage.prefill_rows += others;
        } else {
            self.usage.catch_up_rows += others;
        }
        self.usage.calls += 1;
        self.usage.rows += wanted;
    }

    /// Counts a proposal of so many nodes.
    pub(crate) fn count_proposal(&mut self, nodes: usize) {
        self.usage.calls += 1;
        self.usage.rows += nodes as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualClock;

    #[test]
    fn only_the_model_takes_time() {
        let (mut ledger, clock) = (Ledger::default(), VirtualClock::default());
        ledger.set_clock(Arc::new(clock.clone()));
        let pause = Duration::from_millis(3);
        for _ in 0..2 {
            clock.advance(pause);
            ledger.timed(|| clock.advance(pause));
        }
        assert_eq!(ledger.usage().time, 2 * pause);
    }

    #[test]
    fn requested_rows_are_told_from_others() {
        let mut ledger = Ledger::default();
        let counts = |ledger: &Ledger| {
            let usage = ledger.usage();
            (
                usage.calls,
                usage.rows,
                usage.prefill_rows,
                usage.catch_up_rows,
            )
        };
        // A prompt of 4 tokens, of which the last is requested with the tree's two.
        ledger.count_forward(2, 6);
        assert_eq!(counts(&ledger), (1, 3, 3, 0));
        // Three tokens more, two of them not asked for.
        ledger.count_forward(1, 4);
        assert_eq!(counts(&ledger), (2, 5, 3, 2));
        ledger.clear();
        assert_eq!(
            counts(&ledger),
            (0, 0, 0, 0),
            "another prompt, another ledger"
        );
        ledger.count_proposal(3);
        ledger.count_proposal(4);
        assert_eq!(counts(&ledger), (2, 7, 0, 0));
    }
}
