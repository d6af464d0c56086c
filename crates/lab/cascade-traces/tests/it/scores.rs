//! What models are worth along recorded answers: perplexities, and first tokens of drafts.

use cascade_core::toy::ToyScorer;
use cascade_engine::{Cascade, Convention, KMatrix, Options};
use cascade_traces::trace::{FirstToken, Predicted, TraceScorer};

use crate::toy_trace;

fn options(tokens: usize) -> Options {
    Options::default().with_max_new_tokens(tokens)
}

fn target() -> ToyScorer {
    ToyScorer::target("target", 16, 7)
}

fn first_token(drafter: ToyScorer) -> FirstToken {
    let trace = toy_trace(&target(), &[1, 2, 3], &options(60));
    let mut cascade = Cascade::builder()
        .target("target", TraceScorer::new(trace.clone()).unwrap())
        .neural("drafter", drafter)
        .k_matrix(KMatrix::new(vec![vec![1]], Convention::Added).unwrap())
        .build()
        .unwrap();
    let mut found = FirstToken::default();
    let record = &trace.records[0];
    found.add(&mut cascade, record, &options(60)).unwrap();
    found
}

#[test]
fn the_target_itself_is_always_right_and_others_are_not() {
    let itself = first_token(target());
    assert_eq!(itself.share(), Some(1.0));
    // Two tokens a step, and no draft for the last token.
    assert_eq!(itself.drafted(), 30);
    let other = first_token(ToyScorer::target("target", 16, 8));
    assert!(other.share().unwrap() < 0.5, "{other:?}");
    assert_eq!(FirstToken::default().share(), None);
}

/// The product of the weights' shares, token by token.
#[test]
fn perplexities_are_those_of_the_probabilities_one_by_one() {
    let model = target();
    // More than a forward takes.
    let trace = toy_trace(&model, &[1, 2, 3], &options(300));
    let record = &trace.records[0];
    let mut nats = 0.0;
    let mut context = record.context.clone();
    for &token in &record.output {
        let weights = model.weights(&context);
        let sum: u64 = weights.iter().sum();
        nats -= (weights[token as usize] as f64 / sum as f64).ln();
        context.push(token);
    }
    let expected = (nats / 300.0).exp();
    let mut found = Predicted::default();
    found.add(&mut model.clone(), record).unwrap();
    let perplexity = found.perplexity().unwrap();
    assert!((perplexity / expected - 1.0).abs() < 1e-5, "{perplexity}");
    assert_eq!((found.tokens(), found.agreement()), (300, Some(1.0)));
    // Another model is less sure of it, and says other tokens.
    let mut other = Predicted::default();
    let mut drafter = ToyScorer::drafter("base", 16, 7, 1, 200);
    other.add(&mut drafter, record).unwrap();
    assert!(other.perplexity() > found.perplexity());
    assert!(other.agreement() < found.agreement());
    // One record has no interval, two equal ones no spread, and no records no figures.
    assert_eq!(other.interval(), None);
    other.add(&mut drafter, record).unwrap();
    let (low, high) = other.interval().unwrap();
    assert!((high - low).abs() < 1e-9);
    assert_eq!(Predicted::default().perplexity(), None);
}
