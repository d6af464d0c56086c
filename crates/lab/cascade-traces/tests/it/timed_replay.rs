//! A live target that replays the output of a recorded one.

use std::sync::Arc;

use cascade_core::toy::ToyScorer;
use cascade_core::{Architecture, Scorer, TokenTree, Want};
use cascade_engine::{Cascade, Convention, KMatrix, Options};
use cascade_eval::ErrorKind;
use cascade_ngram::MaxGram;
use cascade_traces::trace::{
    LookupLog, SimulatedDrafter, TimedReplayScorer, Trace, TraceScorer, replay, replay_timed,
};

use crate::toy_trace;

const VOCABULARY: usize = 16;

fn options() -> Options {
    Options::default().with_max_new_tokens(40)
}

fn trace() -> Arc<Trace> {
    toy_trace(
        &ToyScorer::target("target", VOCABULARY, 7),
        &[1, 2, 3],
        &options(),
    )
}

fn recorded() -> TraceScorer {
    TraceScorer::new(trace()).unwrap()
}

fn cascade(target: impl Scorer + Send + 'static) -> Cascade {
    let k = KMatrix::new(vec![vec![3]], Convention::Added).unwrap();
    let builder = Cascade::builder().target("target", target);
    let built = builder
        .statistical("max-gram", MaxGram::new())
        .k_matrix(k)
        .build();
    built.unwrap()
}

#[test]
fn answers_are_the_recorded_ones_whatever_the_live_model_says() {
    let record = &trace().records[0];
    let expected = replay(&mut cascade(recorded()), record, &options()).unwrap();
    for seed in [7, 8] {
        let live = ToyScorer::target("live", 2 * VOCABULARY, seed);
        let log = LookupLog::default();
        let timed_scorer = TimedReplayScorer::new(live, recorded(), log.clone()).unwrap();
        let timed = replay_timed(&mut cascade(timed_scorer), record, &options(), &log);
        let (generation, costs) = timed.unwrap();
        assert_eq!(generation.tokens, record.output);
        assert_eq!(generation.steps, expected.steps);
        let steps: Vec<_> = costs.iter().map(|cost| cost.step).collect();
        assert_eq!(steps, expected.steps[1..]);
        for cost in costs {
            assert!(
                cost.timings.overhead() <= generation.wall
                    && cost.timings.forward <= generation.wall
            );
        }
    }
}

#[test]
fn rows_are_those_that_the_live_model_computed() {
    let live = ToyScorer::target("live", VOCABULARY, 9);
    let mut alone = ToyScorer::target("live", VOCABULARY, 9);
    let mut timed_scorer = TimedReplayScorer::new(live, recorded(), LookupLog::default()).unwrap();
    timed_scorer.set_source(&[]).unwrap();
    alone.set_source(&[]).unwrap();
    let score = |scorer: &mut dyn Scorer| {
        let scores = scorer.score(&[1, 2, 3], &TokenTree::chain([4]), Want::ARGMAX);
        scores.unwrap().rows_computed
    };
    assert_eq!(score(&mut timed_scorer), score(&mut alone));
}

#[test]
fn the_shorter_of_two_limits_counts() {
    let live = ToyScorer::target("live", VOCABULARY, 9).with_max_context(24);
    let timed_scorer = TimedReplayScorer::new(live, recorded(), LookupLog::default()).unwrap();
    assert_eq!(timed_scorer.info().max_context, Some(24));
    assert_eq!(timed_scorer.info().vocab_size, VOCABULARY);
}

#[test]
fn models_that_cannot_compute_it_are_refused() {
    let refused = |live: ToyScorer, what: &str| {
        let error = TimedReplayScorer::new(live, recorded(), LookupLog::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OtherModel);
        assert!(error.to_string().contains(what), "{error}");
    };
    // Rows behind the greatest recorded token are padding; there is one for each of the others.
    let trace = trace();
    let tokens = trace.records[0]
        .context
        .iter()
        .chain(&trace.records[0].output);
    let greatest = *tokens.max().unwrap() as usize;
    let short = ToyScorer::target("live", greatest, 1);
    refused(short, &format!("{greatest} tokens, and token {greatest}"));
    let fewer = ToyScorer::target("live", greatest + 1, 1);
    let timed = TimedReplayScorer::new(fewer, recorded(), LookupLog::default()).unwrap();
    assert_eq!(timed.info().vocab_size, greatest + 1);
    let encoder = ToyScorer::target("live", 16, 1).with_architecture(Architecture::EncoderDecoder);
    refused(encoder, "encoder-decoder");
}

fn simulated(acceptance: f64) -> SimulatedDrafter<ToyScorer> {
    let live = ToyScorer::target("live", VOCABULARY, 9);
    SimulatedDrafter::new(live, recorded(), acceptance).unwrap()
}

/// For each token of the record, whether the drafter says it.
fn right(acceptance: f64) -> Vec<bool> {
    let trace = trace();
    let record = &trace.records[0];
    let mut drafter = simulated(acceptance);
    let places = 0..record.output.len();
    places
        .map(|place| {
            let mut context = record.context.clone();
            context.extend(&record.output[..place]);
            let scores = drafter.score(&context, &TokenTree::new(), Want::ARGMAX);
            scores.unwrap().argmax[0] == record.output[place]
        })
        .collect()
}

#[test]
fn a_simulated_drafter_is_right_as_often_as_it_is_told() {
    assert!(right(1.0).iter().all(|&right| right));
    let (seldom, often) = (right(0.3), right(0.7));
    let count = |of: &[bool]| of.iter().filter(|&&right| right).count();
    let tokens = seldom.len();
    assert!(tokens >= 30 && count(&seldom) > 0 && count(&often) < tokens);
    assert!(count(&seldom) < count(&often));
    // Where one is right, so is a better one; and it is the same each time.
    assert!(seldom.iter().zip(&often).all(|(a, b)| !a || *b));
    assert_eq!(often, right(0.7));
}

#[test]
fn a_simulated_drafter_is_calibrated_and_knows_no_more() {
    let trace = trace();
    let record = &trace.records[0];
    let mut drafter = simulated(0.7);
    let next = record.output[0];
    // The first node follows the recording, the second does not.
    let mut tree = TokenTree::new();
    tree.push(next, None);
    tree.push((next + 5) % VOCABULARY as u32, None);
    let scores = drafter
        .score(&record.context, &tree, Want::GATHERED)
        .unwrap();
    let gathered = scores.gathered.unwrap();
    assert_eq!(gathered.argmax, [0.7; 3]);
    let rest = 0.3 / (VOCABULARY as f32 - 1.0);
    assert!((gathered.nodes[1] - rest).abs() < 1e-6);
    let own = if scores.argmax[0] == next { 0.7 } else { rest };
    assert!((gathered.nodes[0] - own).abs() < 1e-6);
    assert_ne!(scores.argmax[0], (next + 5) % VOCABULARY as u32);
    for want in [
        Want::LOGITS,
        Want::ARGMAX.with_last_hidden(),
        Want::ARGMAX.with_top(2),
    ] {
        let error = drafter.score(&record.context, &tree, want).unwrap_err();
        assert!(error.to_string().contains("simulated"), "{error}");
    }
    for acceptance in [0.0, 1.1, f64::NAN] {
        let live = ToyScorer::target("live", VOCABULARY, 9);
        let error = SimulatedDrafter::new(live, recorded(), acceptance).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Simulation);
    }
}

#[test]
fn a_drafter_may_have_fewer_rows_than_the_recording() {
    let trace = trace();
    let record = &trace.records[0];
    let tokens = record.context.iter().chain(&record.output);
    let rows = *tokens.max().unwrap() as usize + 1;
    let live = ToyScorer::target("live", rows, 9);
    let drafter = SimulatedDrafter::new(live, recorded(), 0.8).unwrap();
    assert_eq!(drafter.info().vocab_size, rows);
    let k = KMatrix::new(vec![vec![3]], Convention::Added).unwrap();
    let mut cascade = Cascade::builder()
        .target("target", recorded())
        .neural("drafter", drafter)
        .k_matrix(k)
        .build()
        .unwrap();
    let generation = replay(&mut cascade, record, &options()).unwrap();
    assert_eq!(generation.tokens, record.output);
    assert!(generation.num_accepted_draft_tokens() > 0);
}
