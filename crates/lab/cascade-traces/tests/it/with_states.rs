//! A recorded target with the hidden states of its model.

use std::sync::Arc;

use cascade_core::toy::ToyScorer;
use cascade_core::{Architecture, HiddenLayer, HiddenLayers, Scorer, TokenId, TokenTree, Want};
use cascade_engine::Options;
use cascade_traces::trace::{Trace, TraceScorer, WithStates};

use crate::toy_trace;

const VOCABULARY: usize = 16;
/// More than are read in one forward.
const TOKENS: usize = 600;
const PROMPT: [TokenId; 3] = [1, 2, 3];

fn toy(architecture: Architecture) -> ToyScorer {
    ToyScorer::target("target", VOCABULARY, 7).with_architecture(architecture)
}

fn recorded(architecture: Architecture) -> Arc<Trace> {
    let options = Options::default().with_max_new_tokens(TOKENS);
    toy_trace(&toy(architecture), &PROMPT, &options)
}

fn with_states(trace: &Arc<Trace>, model: ToyScorer) -> WithStates {
    let recorded = TraceScorer::new(Arc::clone(trace)).unwrap();
    WithStates::new(recorded, Box::new(model), "a model")
}

/// States of rows along the record are those of the model, wherever the context ends and whatever
/// else is drafted; of others there are none.
#[test]
fn states_are_the_models_along_the_record() {
    let layers = HiddenLayers::LAST.with(HiddenLayer::Entering(1));
    for architecture in [Architecture::DecoderOnly, Architecture::EncoderDecoder] {
        let trace = recorded(architecture);
        let record = &trace.records[0];
        let text = [&record.context[..], &record.output].concat();
        assert_eq!(record.output.len(), TOKENS);
        let mut found = with_states(&trace, toy(architecture));
        let mut model = toy(architecture);
        found.set_source(&record.source).unwrap();
        model.set_source(&record.source).unwrap();
        let prompt = record.context.len();
        for (begun, after) in [(0, Some(1)), (5, None), (300, Some(290)), (0, None)] {
            let context = &text[..prompt + begun];
            let after = after.map(|after: usize| after.min(context.len()));
            let ahead = &text[context.len()..];
            let mut tree = TokenTree::new();
            let wrong = tree.push((ahead[0] + 1) % VOCABULARY as TokenId, None);
            tree.push(ahead[1], Some(wrong));
            let first = tree.push(ahead[0], None);
            tree.push(ahead[1], Some(first));
            let want = Want::ARGMAX.with_hidden(layers).with_hidden_after(after);
            let found = found.score(context, &tree, want).unwrap();
            let wanted = model.score(context, &tree, want).unwrap();
            assert_eq!(found.argmax_after(Some(first)), ahead[1]);
            for layer in layers.iter() {
                let (found, wanted) = (found.hidden.of(layer), wanted.hidden.of(layer));
                let (found, wanted) = (found.unwrap().as_slice(), wanted.unwrap().as_slice());
                let context = after.map_or(0, |after| context.len() - after) + 1;
                assert_eq!(found.len(), context + 4);
                assert_eq!(found[..context], wanted[..context]);
                assert!(found[context].is_nan() && found[context + 1].is_nan());
                assert_eq!(found[context + 2..], wanted[context + 2..]);
            }
        }
    }
}

#[test]
fn another_model_is_refused_by_what_it_says() {
    let trace = recorded(Architecture::DecoderOnly);
    let other = ToyScorer::drafter("other", VOCABULARY, 7, 1, 128);
    let mut other = with_states(&trace, other);
    let tree = TokenTree::new();
    let context = &trace.records[0].context;
    // Nobody wants states.
    other.score(context, &tree, Want::ARGMAX).unwrap();
    let error = other
        .score(context, &tree, Want::ARGMAX.with_last_hidden())
        .unwrap_err()
        .to_string();
    assert!(error.contains("of the 600 tokens of record 0"), "{error}");
}
