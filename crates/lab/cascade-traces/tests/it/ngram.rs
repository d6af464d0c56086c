//! Weights of the Max-Gram tree, fitted to recorded outputs.

use cascade_core::TokenId;
use cascade_ngram::{MaxGramTree, MaxGramTreeConfig};
use cascade_traces::ngram::Fitting;
use cascade_traces::trace::{Finish, Record};

fn record(id: &str, context: &[TokenId], output: &[TokenId]) -> Record {
    Record {
        id: id.to_owned(),
        category: None,
        turn: 1,
        source: Vec::new(),
        context: context.to_vec(),
        output: output.to_vec(),
        margins: None,
        seed: None,
        top: None,
        yields: Default::default(),
        finish: Finish::Length,
    }
}

#[test]
fn fitting_raises_what_is_held_out_and_prompts_stay_together() {
    let ids = ["a", "a", "b", "c", "d", "d", "e"];
    let records: Vec<Record> = (0..)
        .zip(ids)
        .map(|(i, id)| {
            // Everything repeats, which the weights can learn.
            let output: Vec<TokenId> = (0..200).map(|at| (at * (i + 3)) % 17).collect();
            record(id, &[1, 2, 3], &output)
        })
        .collect();
    let (train, held_out) = Fitting::split(&records, 0.4);
    let named = |records: &[&Record]| records.iter().map(|of| of.id.clone()).collect::<Vec<_>>();
    assert_eq!(named(&train), ["a", "a", "b", "d", "d"]);
    assert_eq!(named(&held_out), ["c", "e"]);
    assert!(Fitting::split(&records, 0.0).1.is_empty());

    let options = MaxGramTreeConfig {
        session_tokens: 0,
        hints: 0,
        ..MaxGramTreeConfig::default()
    };
    let drafter = MaxGramTree::new(options, None);
    let fitting = Fitting {
        train,
        held_out,
        passes: 3,
        rate: 0.1,
    };
    let mut seen = 0;
    let fitted = fitting.run(&drafter, |pass, _| {
        seen = pass;
        pass < 2
    });
    assert_eq!((seen, fitted.passes.len()), (2, 2), "ended by the caller");
    assert_ne!(&fitted.weights, drafter.weights());
    let nats = |judged: cascade_traces::ngram::Judged| {
        [judged.train, judged.held_out].map(|of| of.nats_per_token.unwrap())
    };
    let (before, after) = (nats(fitted.before), nats(fitted.passes[1]));
    assert!(
        after[0] < before[0] && after[1] < before[1],
        "{before:?} {after:?}"
    );
    assert_eq!(fitted.before.held_out.tokens, 400);
}
