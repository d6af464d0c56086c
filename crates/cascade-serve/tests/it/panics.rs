//! Panics and waits at every stage of an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use cascade_serve::{Faults, ServeOptions, Stage};
use serde_json::{Value, json};

use crate::common::{QUESTION, Running, ServerResponse, text};

/// A stage panics when its number is here, once.
#[derive(Default)]
struct Armed(AtomicU64);

impl Armed {
    fn arm(&self, stage: Stage) {
        self.0.store(1 << stage as u64, SeqCst);
    }

    fn fault(&self, stage: Stage) {
        let bit = 1 << stage as u64;
        assert!(self.0.fetch_and(!bit, SeqCst) & bit == 0, "at {stage:?}");
    }
}

/// One session, which would be missed.
fn start(in_turns: bool) -> (Running, Arc<Armed>) {
    let armed = Arc::new(Armed::default());
    let hook = Arc::clone(&armed);
    let change = |options: &mut ServeOptions| {
        options.limits.sessions = 1;
        options.faults = Faults::new(move |stage| hook.fault(stage));
    };
    let server = if in_turns {
        Running::start_in_turns(change)
    } else {
        Running::start_with(change)
    };
    (server, armed)
}

fn body(stream: bool) -> Value {
    json!({
        "prompt": QUESTION, "max_tokens": 12, "temperature": 1, "seed": 4, "stream": stream,
        "logprobs": 0,
    })
}

/// Whether a request is known to have failed: by its status, or by the last event of its stream.
pub(crate) fn has_failed(answer: &ServerResponse, stream: bool) -> bool {
    if answer.status == 500 {
        assert_eq!(
            answer.json()["error"]["type"],
            "server_error",
            "{}",
            answer.body
        );
        return true;
    }
    if !stream {
        assert_eq!(answer.status, 200, "{}", answer.body);
        return false;
    }
    let (chunks, done) = answer.events();
    if !done {
        let last = &chunks.last().expect("a stream that fails says so")["error"];
        assert_eq!(last["type"], "server_error", "{}", answer.body);
    }
    !done
}

fn every_stage(in_turns: bool) {
    let (server, armed) = start(in_turns);
    let expected = server.complete(&body(false));
    let mut panics = 0;
    for (stage, stream) in Stage::ALL
        .into_iter()
        .flat_map(|stage| [(stage, false), (stage, true)])
    {
        armed.arm(stage);
        let answer = server.post("/v1/completions", &body(stream));
        assert_eq!(armed.0.load(SeqCst), 0, "{stage:?} was reached");
        assert!(has_failed(&answer, stream), "{stage:?}, stream {stream}");
        // A part of a forward, whose text had nobody to be computed apart from.
        panics += u64::from(stage != Stage::Forward);
        // The only session is there again, whole or new.
        let after = server.complete(&body(false));
        assert_eq!(text(&after), text(&expected), "after {stage:?}");
        server.settle();
    }
    assert_eq!(server.metric("cascade:panics_total"), panics as f64);
    assert_eq!(server.metric("cascade:forward_panics_total"), 2.0);
}

#[test]
fn a_panic_ends_its_answer_and_nothing_else() {
    every_stage(false);
}

#[test]
fn a_panic_of_an_answer_that_takes_turns_ends_it_and_nothing_else() {
    every_stage(true);
}

/// Faults under load: every so many stages one panics, by itself or because memory is asked for
/// that there is not, and others wait.
pub(crate) struct Load {
    every: u64,
    stages: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) of_forwards: AtomicU64,
}

impl Load {
    pub(crate) fn new(every: u64) -> Arc<Self> {
        Arc::new(Self {
            every,
            stages: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            of_forwards: AtomicU64::new(0),
        })
    }

    pub(crate) fn faults(self: &Arc<Self>) -> Faults {
        let load = Arc::clone(self);
        Faults::new(move |stage| load.fault(stage))
    }

    /// Takes no more stages into account.
    pub(crate) fn end(&self) {
        self.stages.store(u64::MAX / 2, SeqCst);
    }

    fn fault(&self, stage: Stage) {
        let number = self.stages.fetch_add(1, SeqCst) + 1;
        if number >= u64::MAX / 2 {
            return;
        }
        if number.is_multiple_of(7) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !number.is_multiple_of(self.every) {
            return;
        }
        let panics = match stage {
            Stage::Forward => &self.of_forwards,
            _ => &self.panics,
        };
        if panics.fetch_add(1, SeqCst).is_multiple_of(2) {
            panic!("a fault at {stage:?}");
        }
        drop(std::hint::black_box(Vec::<u64>::with_capacity(usize::MAX)));
    }
}
