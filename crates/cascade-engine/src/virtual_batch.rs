//! Texts that share forwards in virtual time.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cascade_core::{RowTimes, SharedForward};

use crate::VirtualClock;

/// Texts that are generated at a time and share forwards of assumed times, as the `Batcher` of
/// cascade-models shares real ones: for replays and tests. Each generation has a thread, and one of
/// them runs at a time, in the order of the texts, so that all of it is reproducible. A forward is
/// computed when all of them are in a call; if calls are for several levels, those of the smallest
/// first. Clones are the same batch.
#[derive(Clone, Debug)]
pub struct VirtualBatch {
    shared: Arc<SharedBatch>,
}

/// What clones of a [`VirtualBatch`] and its texts have in common.
#[derive(Debug)]
struct SharedBatch {
    state: Mutex<State>,
    /// Wakes each text when it is its turn.
    turns: Vec<Condvar>,
}

#[derive(Debug)]
struct State {
    texts: Vec<Text>,
    /// Whose turn it is.
    turn: usize,
    forwards: u64,
}

#[derive(Clone, Debug)]
enum Text {
    /// The text may go on, from this forward.
    Ready(Option<SharedForward>),
    /// The text waits for a forward.
    Calling(Call),
    Ended,
}

#[derive(Clone, Debug)]
struct Call {
    level: usize,
    rows: usize,
    times: RowTimes,
    clock: VirtualClock,
}

impl VirtualBatch {
    /// So many texts.
    pub fn new(texts: usize) -> Self {
        Self {
            shared: Arc::new(SharedBatch {
                state: Mutex::new(State {
                    texts: vec![Text::Ready(None); texts],
                    turn: 0,
                    forwards: 0,
                }),
                turns: (0..texts).map(|_| Condvar::new()).collect(),
            }),
        }
    }

    /// The texts, each to be driven by a thread of its own; all of them must be.
    pub fn texts(&self) -> Vec<VirtualText> {
        let text = |number| VirtualText {
            shared: Arc::clone(&self.shared),
            number,
            clock: VirtualClock::default(),
        };
        (0..self.shared.turns.len()).map(text).collect()
    }

    /// Forwards so far.
    pub fn forwards(&self) -> u64 {
        self.shared.lock().forwards
    }
}

/// One of the texts of a [`VirtualBatch`].
#[derive(Clone, Debug)]
pub struct VirtualText {
    shared: Arc<SharedBatch>,
    number: usize,
    clock: VirtualClock,
}

impl VirtualText {
    /// The clock of the text: equal parts of the forwards that it has rows in.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// How many texts of the batch have not ended.
    pub(crate) fn texts(&self) -> usize {
        let state = self.shared.lock();
        let going_on = |text: &&Text| !matches!(text, Text::Ended);
        state.texts.iter().filter(going_on).count()
    }

    /// Does the text's work: waits for its turn, and lets others go on at the end, also if it
    /// panics.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        let state = self.shared.lock();
        drop(self.shared.wait(state, self.number));
        let _ends = Ends(self);
        work()
    }

    /// Waits for a forward of a level in which it has so many rows.
    pub(crate) fn forward(&self, level: usize, rows: usize, times: &RowTimes) -> SharedForward {
        let mut state = self.shared.lock();
        state.texts[self.number] = Text::Calling(Call {
            level,
            rows,
            times: times.clone(),
            clock: self.clock.clone(),
        });
        self.shared.pass(&mut state);
        state = self.shared.wait(state, self.number);
        match state.texts[self.number] {
            Text::Ready(Some(forward)) => forward,
            // Nobody's turn comes before it is ready.
            _ => SharedForward::default(),
        }
    }
}

/// Ends a text.
struct Ends<'a>(&'a VirtualText);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let text = self.0;
        let mut state = text.shared.lock();
        state.texts[text.number] = Text::Ended;
        text.shared.pass(&mut state);
    }
}

impl SharedBatch {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>, text: usize) -> MutexGuard<'a, State> {
        while state.turn != text || !matches!(state.texts[text], Text::Ready(_)) {
            let turn = self.turns[text].wait(state);
            state = turn.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Lets the next text go on, after a forward if all are in a call.
    fn pass(&self, state: &mut State) {
        if !state.texts.iter().any(Text::is_ready) {
            state.compute();
        }
        if let Some(next) = state.texts.iter().position(Text::is_ready) {
            state.turn = next;
            self.turns[next].notify_one();
        }
    }
}

impl Text {
    const fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    const fn call(&self) -> Option<&Call> {
        match self {
            Self::Calling(call) => Some(call),
            _ => None,
        }
    }
}

impl State {
    /// Computes the forward of the smallest level that is called.
    fn compute(&mut self) {
        let calls = self.texts.iter().filter_map(Text::call);
        let Some(level) = calls.map(|call| call.level).max() else {
            return;
        };
        let of_level = |text: &Text| text.call().filter(|call| call.level == level).cloned();
        let calls: Vec<Option<Call>> = self.texts.iter().map(of_level).collect();
        let texts = calls.iter().flatten().count();
        let rows = calls.iter().flatten().map(|call| call.rows).sum();
        let seconds = calls
            .iter()
            .flatten()
            .next()
            .map_or(0.0, |call| call.times.seconds(rows));
        self.forwards += 1;
        let time = Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        let forward = SharedForward {
            texts,
            rows,
            time,
            reads_prompt: false,
        };
        for (text, call) in self.texts.iter_mut().zip(calls) {
            if let Some(call) = call {
                call.clock.advance(time.div_f64(texts as f64));
                *text = Text::Ready(Some(forward));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::Clock;

    /// Two texts call the target; the second drafts before.
    #[test]
    fn drafters_first_and_forwards_divided() {
        let batch = VirtualBatch::new(2);
        let times = RowTimes::linear(1.0, 0.5);
        let seen = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (number, text) in batch.texts().into_iter().enumerate() {
                let (times, seen) = (&times, &seen);
                scope.spawn(move || {
                    text.run(|| {
                        let forward = |level, rows| {
                            let forward = text.forward(level, rows, times);
                            let seen = &mut *seen.lock().unwrap();
                            seen.push((number, level, forward.texts, forward.rows));
                        };
                        if number == 1 {
                            forward(1, 1);
                        }
                        forward(0, 1 + number);
                        if number == 0 {
                            forward(0, 3);
                        }
                    });
                    let seconds = text.clock().now().as_secs_f64();
                    // A forward of 3 rows for both; alone, one of a row or of 3.
                    assert_eq!(seconds, [1.0 + 2.0, 1.0 + 1.0][number]);
                });
            }
        });
        let seen = seen.into_inner().unwrap();
        let expected = [(1, 1, 1, 1), (0, 0, 2, 3), (1, 0, 2, 3), (0, 0, 1, 3)];
        assert_eq!(seen, expected);
        assert_eq!(batch.forwards(), 3);
    }
}
