//! Scoring is observationally pure: a session that has seen anything answers like one that has seen
//! nothing.

use std::sync::Arc;

use cascade_core::{Error, HiddenLayers, Matrix, Scorer, Scores, TokenId, TokenTree, Want};
use cascade_models::{DType, Device, Model};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::calls::{next_context, random_tree, random_want};
use crate::common::demo::{self, load_on};
use crate::common::tiny::{
    Poison, both, cold, llama, llama_in, llama_of, random_tokens, t5, t5_of,
};

const TOLERANCE: f32 = 1e-5;

fn assert_close(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        let close = (a - b).abs() <= TOLERANCE * (1.0 + b.abs());
        assert!(close, "{what}: {a} and {b}");
    }
}

fn assert_matrices(a: &Option<Matrix>, b: &Option<Matrix>, what: &str) {
    match (a, b) {
        (Some(a), Some(b)) => {
            assert_eq!(a.rows(), b.rows(), "{what}");
            (0..a.rows()).for_each(|row| assert_close(a.row(row), b.row(row), what));
        }
        (a, b) => assert_eq!(a, b, "{what}"),
    }
}

/// `warm` and `cold` say the same, up to the last bits; `logits` are the cold session's.
fn assert_same(warm: &Scores, cold: &Scores, logits: &Matrix) {
    assert_eq!(warm.argmax.len(), cold.argmax.len());
    for (row, (&a, &b)) in warm.argmax.iter().zip(&cold.argmax).enumerate() {
        let row = logits.row(row);
        assert_close(&[row[a as usize]], &[row[b as usize]], "argmax");
    }
    assert_matrices(&warm.logits, &cold.logits, "logits");
    assert_eq!(warm.hidden.layers(), cold.hidden.layers());
    for layer in warm.hidden.layers().iter() {
        let of = |scores: &Scores| scores.hidden.of(layer).cloned();
        assert_matrices(&of(warm), &of(cold), "hidden");
    }
    match (&warm.entropy, &cold.entropy) {
        (Some(a), Some(b)) => assert_close(a, b, "entropy"),
        (a, b) => assert_eq!(a, b),
    }
    match (&warm.gathered, &cold.gathered) {
        (Some(a), Some(b)) => {
            assert_close(&a.argmax, &b.argmax, "argmax picks");
            assert_close(&a.nodes, &b.nodes, "node picks");
        }
        (a, b) => assert_eq!(a, b),
    }
    // Equal to the last bit.
    assert_eq!(warm.top, cold.top);
}

fn random_walk(
    model: &Arc<Model>,
    seed: u64,
    steps: usize,
    mut sources: impl FnMut(&mut StdRng) -> Vec<TokenId>,
) {
    let rng = &mut StdRng::seed_from_u64(seed);
    let least = usize::from(sources(rng).is_empty());
    let mut warm = model.session();
    let mut source = sources(rng);
    warm.set_source(&source).unwrap();
    let (mut context, mut tree) = (Vec::new(), TokenTree::new());
    for _ in 0..steps {
        if rng.random_bool(0.05) {
            source = sources(rng);
            warm.set_source(&source).unwrap();
        }
        context = next_context(rng, &context, &tree);
        if context.len() < least {
            context = random_tokens(rng, least);
        }
        tree = random_tree(rng);
        let want = random_want(rng);
        let scores = warm.score(&context, &tree, want).unwrap();
        let mut cold = cold(model, &source);
        let expected = cold.score(&context, &tree, want).unwrap();
        let logits = cold.score(&context, &tree, Want::LOGITS).unwrap();
        assert_same(&scores, &expected, &logits.logits.unwrap());
        assert!(scores.rows_computed > tree.len());
        assert!(scores.rows_computed <= expected.rows_computed);
    }
}

fn short_source(rng: &mut StdRng) -> Vec<TokenId> {
    let count = rng.random_range(1..12);
    random_tokens(rng, count)
}

#[test]
fn a_t5_session_has_no_memory() {
    random_walk(&t5(), 3, 2000, short_source);
}

#[test]
fn a_llama_session_has_no_memory() {
    random_walk(&llama(), 4, 2000, |_| Vec::new());
}

/// Demo models have sizes that make whole blocks.
#[test]
fn no_type_has_a_memory() {
    for dtype in DType::ALL {
        let load = |name: &str| load_on(&demo::folder(name), &Device::Cpu, dtype);
        random_walk(&load("demo-t5-small"), 5, 25, short_source);
        random_walk(&load("demo-llama-small"), 6, 25, |_| Vec::new());
    }
}

#[test]
fn a_row_has_the_same_bits_in_every_type() {
    let rng = &mut StdRng::seed_from_u64(8);
    for dtype in DType::ALL {
        let load = |name: &str| load_on(&demo::folder(name), &Device::Cpu, dtype);
        let models = vec![
            (load("demo-t5-small"), vec![1, 2, 3]),
            (load("demo-llama-small"), Vec::new()),
        ];
        assert_rows_alone(rng, models);
    }
}

#[test]
fn a_row_has_the_same_bits_however_it_is_computed() {
    assert_rows_alone(&mut StdRng::seed_from_u64(7), both(&[1, 2, 3]).to_vec());
}

fn assert_rows_alone(rng: &mut StdRng, models: Vec<(Arc<Model>, Vec<TokenId>)>) {
    let none = TokenTree::new();
    for (model, source) in models {
        let context = random_tokens(rng, 9);
        let tree = random_tree(rng);
        let mut session = cold(&model, &source);
        let scores = session.score(&context, &tree, Want::LOGITS).unwrap();
        let rows = scores.logits.unwrap();
        for node in 0..tree.len() {
            let mut context = context.clone();
            context.extend(tree.path_tokens(Some(node)));
            for step in [1, context.len()] {
                let mut session = cold(&model, &source);
                for len in (step..context.len()).step_by(step) {
                    session.score(&context[..len], &none, Want::ARGMAX).unwrap();
                }
                let scores = session.score(&context, &none, Want::LOGITS).unwrap();
                assert_eq!(rows.row(node + 1), scores.logits.unwrap().row(0));
            }
        }
    }
}

#[test]
fn only_what_is_new_is_computed() {
    for (model, source) in both(&[1]) {
        // The decoder start token is a token of the context, too.
        let start = source.len();
        let mut session = cold(&model, &source);
        let mut computed = |context: &[TokenId], tree: &TokenTree| {
            let scores = session.score(context, tree, Want::ARGMAX).unwrap();
            scores.rows_computed
        };
        let none = TokenTree::new();
        let mut tree = TokenTree::new();
        let a = tree.push(5, None);
        let b = tree.push(6, None);
        tree.push(7, Some(a));
        let c = tree.push(7, Some(b));
        tree.push(8, Some(c));
        assert_eq!(computed(&[1, 2, 3], &tree), start + 3 + 5);
        // The branch 6, 7, 8 was accepted and 9 came after it.
        assert_eq!(computed(&[1, 2, 3, 6, 7, 8, 9], &none), 1);
        // The same again, one token back, and another word.
        assert_eq!(computed(&[1, 2, 3, 6, 7, 8, 9], &none), 1);
        assert_eq!(computed(&[1, 2, 3, 6, 7, 8], &none), 1);
        assert_eq!(computed(&[1, 2, 3, 9, 9], &none), 2);
    }
}

#[test]
fn long_gaps_are_fed_in_pieces() {
    let rng = &mut StdRng::seed_from_u64(6);
    for (model, source) in both(&[4, 2]) {
        // More than a piece.
        let long = 650;
        let context = random_tokens(rng, long);
        let tree = random_tree(rng);
        let mut at_once = cold(&model, &source);
        let scores = at_once.score(&context, &tree, Want::LOGITS).unwrap();
        assert_eq!(
            scores.rows_computed,
            source.len().min(1) + long + tree.len()
        );
        let mut bit_by_bit = cold(&model, &source);
        for len in (50..long).step_by(80) {
            let none = TokenTree::new();
            bit_by_bit
                .score(&context[..len], &none, Want::ARGMAX)
                .unwrap();
        }
        let expected = bit_by_bit.score(&context, &tree, Want::LOGITS).unwrap();
        // Equal to the last bit.
        assert_eq!(scores.logits, expected.logits);
    }
}

#[test]
fn errors_leave_a_session_as_it_was() {
    let none = TokenTree::new();
    for (model, source) in both(&[1, 2]) {
        let vocabulary = model.info().vocab_size as TokenId;
        let stranger = TokenTree::chain([1, vocabulary]);
        let mut session = cold(&model, &source);
        session
            .score(&[1, 2, 3], &TokenTree::chain([4]), Want::ARGMAX)
            .unwrap();
        for (context, tree) in [(&[1, vocabulary, 3][..], &none), (&[1, 2, 3], &stranger)] {
            let error = session.score(context, tree, Want::ARGMAX).unwrap_err();
            let Error::TokenOutOfVocabulary { token, vocab_size } = error else {
                panic!("{error}");
            };
            assert_eq!((token, vocab_size), (vocabulary, model.info().vocab_size));
        }
        assert!(session.set_source(&[vocabulary]).is_err());
        let scores = session
            .score(&[1, 2, 3, 4, 5], &none, Want::LOGITS)
            .unwrap();
        let expected = cold(&model, &source).score(&[1, 2, 3, 4, 5], &none, Want::LOGITS);
        assert_matrices(&scores.logits, &expected.unwrap().logits, "logits");
        assert_eq!(scores.rows_computed, 1);
    }
}

fn assert_improper(scores: cascade_core::Result<Scores>, expected: TokenId) {
    match scores {
        Err(Error::ImproperLogits { token, logit }) => {
            assert!(token == expected && logit.is_nan(), "{token}: {logit}");
        }
        other => panic!("{other:?}"),
    }
}

fn wants() -> [Want; 4] {
    let with_top = Want::ARGMAX.with_top(2);
    [Want::ARGMAX, Want::GATHERED, Want::LOGITS, with_top]
}

#[test]
fn a_damaged_head_is_an_error_however_little_is_wanted() {
    let poison = Some(Poison {
        name: "lm_head",
        row: 7,
    });
    let untied = r#", "tie_word_embeddings": false"#;
    let t5 = t5_of(DType::F32, untied, poison);
    let models = [(t5, vec![1, 2]), (llama_of(2, poison), vec![])];
    for (model, source) in models {
        let mut session = cold(&model, &source);
        for want in wants() {
            let scores = session.score(&[1, 2], &TokenTree::chain([3]), want);
            assert_improper(scores, 7);
        }
    }
}

/// The embedding of token 7 is NaN, all others are finite.
#[test]
fn a_session_outlives_rows_that_are_not_numbers() {
    let poison = |name| Some(Poison { name, row: 7 });
    let untied = r#", "tie_word_embeddings": false"#;
    let t5 = t5_of(DType::F32, untied, poison("shared"));
    let llama = llama_of(2, poison("embed_tokens"));
    let mut bad = TokenTree::chain([4, 5]);
    bad.push(7, Some(0));
    let models = [(t5, vec![1, 2]), (llama, vec![])];
    for (model, source) in models {
        let mut session = cold(&model, &source);
        for want in wants() {
            assert_improper(session.score(&[1, 2, 3], &bad, want), 0);
            // The branch beside the bad one.
            let good = TokenTree::chain([6, 1]);
            let scores = session.score(&[1, 2, 3, 4, 5, 6], &good, want).unwrap();
            let expected = cold(&model, &source)
                .score(&[1, 2, 3, 4, 5, 6], &good, want)
                .unwrap();
            assert_eq!(
                (scores.argmax, scores.gathered, scores.top, scores.logits),
                (
                    expected.argmax,
                    expected.gathered,
                    expected.top,
                    expected.logits
                )
            );
            // A bad token of the context spoils every row after it, not its own alone.
            let none = TokenTree::new();
            assert_improper(session.score(&[1, 7, 3, 4], &none, want), 0);
            assert_improper(session.score(&[1, 7, 3, 4, 5], &none, want), 0);
            session.score(&[1, 2], &good, want).unwrap();
        }
    }
}

#[test]
fn each_architecture_refuses_what_it_cannot_read() {
    let none = TokenTree::new();
    let mut session = t5().session();
    let refused = session.score(&[1], &none, Want::ARGMAX);
    assert!(matches!(refused, Err(Error::EmptySource)));
    assert!(matches!(session.set_source(&[]), Err(Error::EmptySource)));
    assert_eq!(session.info().max_context, None);

    let mut session = llama().session();
    let refused = session.set_source(&[1, 2]);
    assert!(matches!(
        refused,
        Err(Error::SourceWithoutEncoder { tokens: 2 })
    ));
    session.set_source(&[]).unwrap();
    let refused = session.score(&[], &none, Want::ARGMAX);
    assert!(matches!(refused, Err(Error::EmptyContext)));
    let context = vec![1; 699];
    let refused = session.score(&context, &TokenTree::chain([1, 1]), Want::ARGMAX);
    assert!(matches!(
        refused,
        Err(Error::ContextTooLong {
            needed: 701,
            limit: 700
        })
    ));
    session
        .score(&context, &TokenTree::chain([1]), Want::ARGMAX)
        .unwrap();
}

#[test]
fn the_same_source_again_costs_nothing() {
    let model = t5();
    let none = TokenTree::new();
    let mut session = cold(&model, &[1, 2]);
    session.score(&[1, 2, 3], &none, Want::ARGMAX).unwrap();
    session.set_source(&[1, 2]).unwrap();
    assert_eq!(
        session
            .score(&[1, 2, 3], &none, Want::ARGMAX)
            .unwrap()
            .rows_computed,
        1
    );
    session.set_source(&[2, 1]).unwrap();
    assert_eq!(
        session
            .score(&[1, 2, 3], &none, Want::ARGMAX)
            .unwrap()
            .rows_computed,
        4
    );
}

#[test]
fn half_precision_stays_close() {
    for settings in ["", r#", "feed_forward_proj": "gated-silu""#] {
        let exact = t5_of(DType::F32, settings, None);
        let half = t5_of(DType::F16, settings, None);
        let tree = TokenTree::chain([1, 2, 3]);
        let want = Want::LOGITS.with_last_hidden();
        let exact = cold(&exact, &[5, 6]).score(&[7], &tree, want).unwrap();
        let half = cold(&half, &[5, 6]).score(&[7], &tree, want).unwrap();
        let (exact, half) = (exact.logits.unwrap(), half.logits.unwrap());
        for row in 0..exact.rows() {
            for (a, b) in exact.row(row).iter().zip(half.row(row)) {
                assert!((a - b).abs() < 0.02 * (1.0 + a.abs()), "{a} and {b}");
            }
        }
    }
}

#[test]
fn biases_count_and_are_the_same_in_all_types() {
    let biases = r#", "attention_bias": true, "mlp_bias": true"#;
    let [exact, half] = [DType::F32, DType::F16].map(|dtype| llama_in(dtype, 2, biases, None));
    // Queries 24, keys and values 12 each, output 12; gate and up 10 each, down 12.
    let expected = llama().num_parameters() + 2 * (60 + 32);
    assert_eq!(exact.num_parameters(), expected);
    let tree = TokenTree::chain([1, 2, 3]);
    let [exact, half, plain] = [exact, half, llama()].map(|model| {
        let scores = model.session().score(&[5, 6, 7], &tree, Want::LOGITS);
        scores.unwrap().logits.unwrap()
    });
    assert_ne!(exact, plain);
    for row in 0..exact.rows() {
        for (a, b) in exact.row(row).iter().zip(half.row(row)) {
            assert!((a - b).abs() < 0.02 * (1.0 + a.abs()), "{a} and {b}");
        }
    }
}

#[test]
fn trees_that_no_memory_holds_are_refused() {
    for model in [t5(), llama()] {
        let limit = model.info().max_nodes.unwrap();
        assert!((1000..1 << 24).contains(&limit), "{limit}");
        let mut tree = TokenTree::new();
        for _ in 0..=limit {
            tree.push(1, None);
        }
        assert_eq!(model.session().info().max_nodes, Some(limit));
        assert_eq!(model.session().info().vocab_size, model.info().vocab_size);
        let source: &[TokenId] = match model.info().architecture {
            cascade_core::Architecture::EncoderDecoder => &[1],
            cascade_core::Architecture::DecoderOnly => &[],
        };
        let error = cold(&model, source)
            .score(&[1], &tree, Want::ARGMAX)
            .unwrap_err();
        assert!(error.to_string().contains("tree.max_nodes"), "{error}");
    }
}

/// States of prompts and trees are those of a cold session, whatever was cached and however many
/// pieces the prompt is read in, and reading them does not change the scores.
#[test]
fn hidden_states_are_those_of_their_rows() {
    for model in [t5(), llama()] {
        let source: &[TokenId] = match model.info().architecture {
            cascade_core::Architecture::EncoderDecoder => &[1],
            cascade_core::Architecture::DecoderOnly => &[],
        };
        let layers = model.info().hidden;
        assert_eq!(layers, HiddenLayers::up_to(model.layers()));
        let want = Want::LOGITS.with_hidden(layers);
        let all: Vec<TokenId> = (0..600).map(|i| 1 + i % 3).collect();
        let context = &all[..];
        let tree = TokenTree::chain([2, 3]);
        let mut warm = cold(&model, source);
        warm.score(&context[..9], &tree, Want::ARGMAX).unwrap();
        let after = Some(4);
        let found = warm
            .score(context, &tree, want.with_hidden_after(after))
            .unwrap();
        let plain = cold(&model, source)
            .score(context, &tree, Want::LOGITS)
            .unwrap();
        assert_eq!(found.logits, plain.logits);
        let of =
            |scores: &Scores, layer, row: usize| scores.hidden.of(layer).unwrap().row(row).to_vec();
        for end in [4, 5, 11, context.len() - 1, context.len()] {
            let alone = cold(&model, source)
                .score(&context[..end], &TokenTree::new(), want)
                .unwrap();
            for layer in layers.iter() {
                assert_eq!(
                    of(&found, layer, end - 4),
                    of(&alone, layer, 0),
                    "{layer}, {end}"
                );
            }
        }
        let longer = [context, &[2]].concat();
        let node = cold(&model, source)
            .score(&longer, &TokenTree::new(), want)
            .unwrap();
        for layer in layers.iter() {
            let state = found.hidden.after(layer, Some(0), 2).unwrap();
            assert_eq!(state, of(&node, layer, 0), "{layer}");
        }
        let missing = Want::ARGMAX.with_hidden(HiddenLayers::up_to(model.layers() + 1));
        let error = warm.score(context, &tree, missing).unwrap_err().to_string();
        assert!(
            error.contains("the hidden state that enters layer"),
            "{error}"
        );
    }
}
