//! A live target that replays the output of a recorded one.

use std::sync::Arc;

use cascade_core::toy::ToyScorer;
use cascade_core::{Architecture, Fingerprint, Prompt, Scorer, TokenTree, Want};
use cascade_engine::{Cascade, Convention, KMatrix, Options};
use cascade_eval::trace::{
    replay, replay_timed, Header, LookupLog, Recorder, Subject, TimedReplayScorer, Trace,
    TraceScorer,
};
use cascade_eval::Error;
use cascade_ngram::MaxGram;

const VOCABULARY: usize = 16;

fn options() -> Options {
    Options::default().with_max_new_tokens(40)
}

fn trace() -> Arc<Trace> {
    let target = ToyScorer::target("target", VOCABULARY, 7);
    let vocabulary = Fingerprint::from_stored("a toy's");
    let options = options();
    let architecture = Architecture::DecoderOnly;
    let header = Header::measured("target", architecture, &vocabulary, VOCABULARY, &options);
    let mut recorder = Recorder::new("target", target, [], None, &options).unwrap();
    let prompt = Prompt {
        context: vec![1, 2, 3],
        ..Prompt::default()
    };
    let recorded = recorder.record(Subject::new("0"), &prompt, |_| {});
    Arc::new(Trace::new("a toy", header, vec![recorded.unwrap().0]).unwrap())
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
    assert_eq!(timed_scorer.max_context(), Some(24));
    assert_eq!(timed_scorer.vocab_size(), VOCABULARY);
}

#[test]
fn models_that_cannot_compute_it_are_refused() {
    let refused = |live: ToyScorer, what: &str| {
        let error = TimedReplayScorer::new(live, recorded(), LookupLog::default()).unwrap_err();
        assert!(matches!(error, Error::CannotTime { .. }));
        assert!(error.to_string().contains(what), "{error}");
    };
    refused(ToyScorer::target("live", 8, 1), "8 tokens, not 16");
    let encoder = ToyScorer::target("live", 16, 1);
    let encoder = encoder.with_architecture(Architecture::EncoderDecoder);
    refused(encoder, "encoder-decoder");
}
