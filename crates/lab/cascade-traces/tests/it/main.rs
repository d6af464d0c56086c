//! Recordings and their replays.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod ngram;
mod online;
mod scores;
mod timed_replay;
mod trace;
mod train;
mod with_states;

use std::sync::Arc;

use cascade_core::toy::ToyScorer;
use cascade_core::{Fingerprint, Prompt, Scorer, TokenId};
use cascade_engine::Options;
use cascade_traces::trace::{Header, Recorder, Subject, Trace};

/// What a toy says after a prompt, as many tokens as the options allow.
fn toy_trace(target: &ToyScorer, prompt: &[TokenId], options: &Options) -> Arc<Trace> {
    let info = target.info();
    let vocabulary = Fingerprint::from_stored("a toy's");
    let (architecture, size) = (info.architecture, info.vocab_size);
    let header = Header::measured("target", architecture, &vocabulary, size, options);
    let mut recorder = Recorder::new("target", target.clone(), [], None, options).unwrap();
    let prompt = Prompt::new(architecture, prompt.to_vec());
    let recorded = recorder.record(Subject::new("0"), &prompt, |_| {});
    Arc::new(Trace::new("a toy", header, vec![recorded.unwrap().0]).unwrap())
}
