//! What tables and weights are worth on recorded outputs.

use std::collections::BTreeSet;
use std::sync::Arc;

use cascade_core::{Budget, Drafter, Fingerprint, Observation, ScoredTree, TokenId};
use cascade_ngram::{
    MaxGramTree, MaxGramTreeOptions, NgramBuilder, NgramLimits, NgramTable, Provenance,
};
use cascade_traces::ngram::{Calibration, Fitting, Forwards, NextTokens, TableDrafter};
use cascade_traces::trace::{Finish, Record};
use proptest::prelude::*;

fn table(
    order: usize,
    vocab_size: usize,
    documents: &[Vec<TokenId>],
    top_k: usize,
) -> Arc<NgramTable> {
    let provenance = Provenance {
        tokenizer: Fingerprint::from_stored("test"),
        sources: Vec::new(),
        command: String::new(),
        version: String::new(),
    };
    let mut builder = NgramBuilder::new(order, vocab_size, provenance);
    documents
        .iter()
        .for_each(|document| builder.add_document(document).unwrap());
    let limits = NgramLimits {
        top_k,
        ..NgramLimits::default()
    };
    Arc::new(builder.finish(limits).unwrap())
}

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
        finish: Finish::Length,
    }
}

proptest! {
    #[test]
    fn estimates_are_probabilities_and_the_best_are_the_best(
        documents in prop::collection::vec(prop::collection::vec(0..90u32, 1..200), 1..4),
        order in 1..=2usize,
        top_k in 1..20usize,
        newest in prop::collection::vec(0..90u32, 0..4),
    ) {
        let drafter = TableDrafter::new(table(order, 100, &documents, top_k));
        let all: Vec<f64> = (0..100).map(|token| drafter.probability(&newest, token)).collect();
        prop_assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let best = drafter.best(&newest, 8);
        for (token, probability) in &best {
            prop_assert!((all[*token as usize] - probability).abs() < 1e-12);
        }
        prop_assert!(best.is_sorted_by(|a, b| a.1 >= b.1));
        // Nothing is more probable than the best, but for what the table has no name for.
        let greatest = all.iter().copied().fold(0.0, f64::max);
        prop_assert!(best[0].1 >= greatest - 1e-12);
    }

    #[test]
    fn trees_have_the_most_probable_paths(
        document in prop::collection::vec(0..5u32, 20..200),
        nodes in 2..30usize,
    ) {
        let kinds = document.iter().collect::<BTreeSet<_>>().len();
        let mut drafter = TableDrafter::new(table(2, 5, &[document], 16));
        let depth = 3.min(nodes - 1);
        let draft = drafter.propose(&[1, 2], Budget { depth, nodes });
        // Every token of the text is a candidate everywhere.
        let all: usize = (1..=depth as u32).map(|depth| kinds.pow(depth)).sum();
        prop_assert_eq!(draft.tree().len(), nodes.min(all));
        let mut paths: Vec<f64> = Vec::new();
        for node in 0..draft.tree().len() {
            let above = draft.tree().parent(node).map_or(1.0, |parent| paths[parent]);
            paths.push(above * f64::from(draft.probability(node).unwrap()));
        }
        prop_assert!(paths.is_sorted_by(|a, b| a + 1e-6 >= *b), "{paths:?}");
    }
}

#[test]
fn next_tokens_are_counted_one_by_one() {
    // After 1 comes 2 (three times) or 3; after 1 2 always 4.
    let documents = [vec![1, 2, 4, 1, 2, 4, 1, 3, 1, 2, 4]];
    let table = table(2, 10, &documents, 16);
    let records = [record("a", &[0, 1], &[2, 4, 9])];
    let next = NextTokens::of(&table, &records);
    assert_eq!(
        (next.tokens, next.top_1, next.top_8, next.top_16),
        (3, 2, 2, 2)
    );
    // After 1, after 2, after 4; after 1 2 and, as 2 4 occurs three times and goes on twice, 2 4.
    assert_eq!((next.after_known_token, next.after_known_pair), (3, 2));
    let drafter = TableDrafter::new(table);
    let expected: f64 = [(&[0, 1][..], 2), (&[1, 2], 4), (&[2, 4], 9)]
        .iter()
        .map(|&(newest, token)| -drafter.probability(newest, token).ln())
        .sum();
    assert!((next.nats - expected).abs() < 1e-12 && next.nats.is_finite());
    assert_eq!(next.share(next.top_1), 2.0 / 3.0);
}

/// Drafts the same two tokens and a sibling of the first, and remembers what it observes.
#[derive(Default)]
struct Fixed {
    observed: Vec<(usize, Vec<TokenId>, Vec<TokenId>)>,
}

impl Drafter for Fixed {
    fn set_source(&mut self, _: &[TokenId]) {}

    fn propose(&mut self, _: &[TokenId], _: Budget) -> ScoredTree {
        let mut draft = ScoredTree::default();
        let first = draft.push_estimated(1, None, 0.5);
        draft.push_estimated(7, None, 0.25);
        draft.push_estimated(2, Some(first), 0.1);
        draft
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        self.observed.push((
            observation.context.len(),
            observation.emitted.to_vec(),
            observation.argmax.to_vec(),
        ));
    }
}

#[test]
fn forwards_emit_what_is_accepted_and_one_token_more() {
    const UNKNOWN: TokenId = Observation::UNKNOWN;
    let mut drafter = Fixed::default();
    let record = record("a", &[9, 9], &[1, 2, 3, 7, 5, 1]);
    let forwards = Forwards::of(&mut drafter, &record, Budget::chain(3));
    let expected = Forwards {
        tokens: 6,
        forwards: 3,
        drafted: 9,
        accepted: 4,
    };
    assert_eq!(forwards, expected);
    assert_eq!(forwards.tokens_per_forward(), 2.0);
    assert_eq!(
        drafter.observed,
        [
            (2, vec![1, 2, 3], vec![1, 2, UNKNOWN, 3]),
            (5, vec![7, 5], vec![7, UNKNOWN, 5, UNKNOWN]),
            // What would come after the end is not known.
            (7, vec![1], vec![1, UNKNOWN, UNKNOWN, UNKNOWN]),
        ]
    );
}

#[test]
fn calibration_counts_nodes_by_the_probability_of_their_path() {
    let mut calibration = Calibration::default();
    let record = record("a", &[9], &[1, 2, 3, 7, 5, 1]);
    calibration.add(&mut Fixed::default(), &record, Budget::chain(3));
    let band = |from: f64| {
        *calibration
            .bands
            .iter()
            .find(|band| band.from == from)
            .unwrap()
    };
    // Three drafts: 0.5 accepted twice, 0.25 (in 0.2 to 0.3) once, 0.5 · 0.1 once.
    assert_eq!((band(0.5).nodes, band(0.5).accepted), (3, 2));
    assert_eq!((band(0.2).nodes, band(0.2).accepted), (3, 1));
    assert_eq!((band(0.05).nodes, band(0.05).accepted), (3, 1));
    assert_eq!(band(0.5).share(), Some(2.0 / 3.0));
    assert_eq!(band(0.5).estimate(), Some(0.5));
    assert_eq!(
        (band(0.9).share(), band(0.9).standard_error()),
        (None, None)
    );
    assert!((calibration.expected_tokens_per_forward() - 1.8).abs() < 1e-6);
    assert!((calibration.error() - (0.5 + 0.25 + 0.85) / 9.0).abs() < 1e-6);
    assert_eq!(calibration.forwards.forwards, 3);
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

    let options = MaxGramTreeOptions {
        session_tokens: 0,
        hints: 0,
        ..MaxGramTreeOptions::default()
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
