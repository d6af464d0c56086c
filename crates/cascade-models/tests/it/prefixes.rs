//! Sessions that share what they have read answer as each does alone, bit for bit.

use std::sync::Arc;

use cascade_core::{Architecture, Scorer, Scores, TokenId, TokenTree, Want};
use cascade_models::{
    random_model, score_together, CacheType, DType, Device, LoadOptions, Model, ScoreCall, Session,
    SharedPrefixes,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::common::calls::Text;
use crate::common::tiny::{cold, llama, random_tokens, t5};
use crate::random;

/// Slots of a page.
const PAGE: usize = 64;

/// What contexts begin with.
struct Library {
    prefixes: Vec<Vec<TokenId>>,
    sources: Vec<Vec<TokenId>>,
}

impl Library {
    fn new(rng: &mut StdRng) -> Self {
        let trunk = random_tokens(rng, 4 * PAGE);
        let branch = |rng: &mut StdRng| {
            let kept = rng.random_range(0..=trunk.len());
            [&trunk[..kept], &random_tokens(rng, 2 * PAGE)[..]].concat()
        };
        Self {
            prefixes: (0..4).map(|_| branch(rng)).collect(),
            sources: vec![random_tokens(rng, 20), random_tokens(rng, 90)],
        }
    }

    fn context(&self, rng: &mut StdRng) -> Vec<TokenId> {
        let prefix = &self.prefixes[rng.random_range(0..self.prefixes.len())];
        let kept = if rng.random_bool(0.5) {
            prefix.len()
        } else {
            rng.random_range(1..=prefix.len())
        };
        let tail = rng.random_range(0..20);
        [&prefix[..kept], &random_tokens(rng, tail)[..]].concat()
    }
}

fn text(rng: &mut StdRng, model: &Arc<Model>, library: &Library) -> Text {
    let source = match model.info().architecture {
        Architecture::EncoderDecoder => library.sources[rng.random_range(0..2)].clone(),
        Architecture::DecoderOnly => Vec::new(),
    };
    Text::new(model, source)
}

/// Another context of the library, what the last tree leads to, or less than there was.
fn go_on(text: &mut Text, rng: &mut StdRng, library: &Library) {
    match rng.random_range(0..4) {
        0 => text.context = library.context(rng),
        1 => {
            let kept = rng.random_range(0..=text.context.len());
            text.context.truncate(kept);
        }
        _ if text.tree.is_empty() => {}
        _ => {
            let node = rng.random_range(0..text.tree.len());
            text.context.extend(text.tree.path_tokens(Some(node)));
            text.context.extend(random_tokens(rng, 1));
        }
    }
    if text.context.is_empty() {
        text.context = library.context(rng);
    }
    text.ask(rng);
}

/// Texts that share prefixes with some of the others, and now and then change with whom.
fn random_rounds(model: &Arc<Model>, seed: u64, rounds: usize) {
    let rng = &mut StdRng::seed_from_u64(seed);
    let library = Library::new(rng);
    let scopes: [Arc<SharedPrefixes>; 2] = Default::default();
    let mut texts: Vec<Text> = (0..6).map(|_| text(rng, model, &library)).collect();
    for _ in 0..rounds {
        let mut calling = Vec::new();
        for text in &mut texts {
            match rng.random_range(0..12) {
                0 => *text = self::text(rng, model, &library),
                1 => text.session.share_prefixes(None),
                2..4 => text.session.share_prefixes(Some(Arc::clone(&scopes[1]))),
                4..8 => text.session.share_prefixes(Some(Arc::clone(&scopes[0]))),
                _ => {}
            }
            if rng.random_bool(0.7) {
                go_on(text, rng, &library);
                calling.push(text);
            }
        }
        let calls = calling.iter_mut().map(|text| text.call());
        let answers = score_together(calls.collect());
        for (text, found) in calling.iter().zip(answers) {
            text.assert_alone(found.unwrap());
        }
    }
    drop(texts);
    assert_eq!(model.cache_bytes(), Some(0));
}

fn model(config: serde_json::Value, dtype: DType, cache: CacheType) -> Arc<Model> {
    let options = LoadOptions {
        device: Device::Cpu,
        dtype,
        cache_dtype: Some(cache),
        ..LoadOptions::default()
    };
    random_model(config, &options).unwrap()
}

fn models(dtype: DType, cache: CacheType) -> [Arc<Model>; 3] {
    let mut llama = random::llama();
    llama["max_position_embeddings"] = json!(1000);
    let mut windowed = llama.clone();
    windowed["model_type"] = json!("mistral");
    windowed["sliding_window"] = json!(100);
    [llama, windowed, random::t5(true)].map(|config| model(config, dtype, cache))
}

#[test]
fn texts_that_share_prefixes_are_what_they_are_alone() {
    for (seed, cache) in CacheType::ALL.into_iter().enumerate() {
        for model in models(DType::F32, cache) {
            random_rounds(&model, seed as u64, 12);
        }
    }
}

#[test]
#[ignore = "slow: rounds in every type"]
fn texts_that_share_prefixes_are_what_they_are_alone_in_every_type() {
    for dtype in [DType::F32, DType::BF16, DType::Q8_0, DType::Q4_0] {
        for cache in CacheType::ALL {
            for model in models(dtype, cache) {
                random_rounds(&model, 5, 15);
            }
        }
    }
}

fn asked(sessions: &mut [Session], contexts: &[Vec<TokenId>]) -> Vec<Scores> {
    let empty = TokenTree::new();
    let calls = sessions
        .iter_mut()
        .zip(contexts)
        .map(|(session, context)| ScoreCall {
            session,
            context,
            tree: &empty,
            want: Want::LOGITS,
        });
    let answers = score_together(calls.collect());
    answers.into_iter().map(Result::unwrap).collect()
}

/// Texts that begin alike and come at the same time: one of them reads, and one copy is kept.
#[test]
fn a_prefix_is_read_and_stored_once() {
    let (model, rng) = (llama(), &mut StdRng::seed_from_u64(3));
    let prefix = random_tokens(rng, 5 * PAGE);
    let contexts: Vec<Vec<TokenId>> = (0..6)
        .map(|text| [&prefix[..], &[text, 1, 2]].concat())
        .collect();
    let page = model.cache_bytes_of(1, 0).unwrap() / 2;
    let scope: Arc<SharedPrefixes> = Arc::default();
    let mut sessions: Vec<Session> = contexts.iter().map(|_| model.session()).collect();
    for session in &mut sessions {
        session.share_prefixes(Some(Arc::clone(&scope)));
    }
    let answers = asked(&mut sessions, &contexts);
    let rows = answers.iter().map(|scores| scores.rows_computed);
    assert_eq!(rows.collect::<Vec<_>>(), [5 * PAGE + 3, 3, 3, 3, 3, 3]);
    assert_eq!(model.cache_bytes(), Some((5 + 6) * page));
    // Who comes later finds it as long as anybody has it.
    sessions.drain(..5);
    assert_eq!(model.cache_bytes(), Some(6 * page));
    let mut later = vec![model.session()];
    later[0].share_prefixes(Some(Arc::clone(&scope)));
    let found = asked(&mut later, &contexts[..1]);
    assert_eq!(found[0].rows_computed, 3);
    assert_eq!(found[0].logits, answers[0].logits);
    later.clear();
    sessions.clear();
    assert_eq!(model.cache_bytes(), Some(0));
    let mut last = model.session();
    last.share_prefixes(Some(scope));
    let last = asked(std::slice::from_mut(&mut last), &contexts[1..2]);
    assert_eq!(
        last[0].rows_computed,
        5 * PAGE + 3,
        "nobody has it any more"
    );
    assert_eq!(last[0].logits, answers[1].logits);
}

/// What two have computed by chance, each by itself, is kept once from then on.
#[test]
fn equal_pages_become_one() {
    let (model, rng) = (llama(), &mut StdRng::seed_from_u64(4));
    let context = random_tokens(rng, 3 * PAGE + 1);
    let page = model.cache_bytes_of(1, 0).unwrap() / 2;
    let mut sessions = [model.session(), model.session()];
    asked(&mut sessions, &[context.clone(), context.clone()]);
    assert_eq!(model.cache_bytes(), Some(8 * page));
    let scope: Arc<SharedPrefixes> = Arc::default();
    for session in &mut sessions {
        session.share_prefixes(Some(Arc::clone(&scope)));
    }
    let longer = [&context[..], &[5]].concat();
    asked(&mut sessions, &[longer.clone(), longer]);
    assert_eq!(model.cache_bytes(), Some(5 * page));
}

#[test]
fn others_share_nothing() {
    let (model, rng) = (llama(), &mut StdRng::seed_from_u64(5));
    let context = random_tokens(rng, 2 * PAGE + 5);
    let mut sessions = [model.session(), model.session(), model.session()];
    sessions[0].share_prefixes(Some(Arc::default()));
    sessions[1].share_prefixes(Some(Arc::default()));
    for session in &mut sessions {
        let scores = session.score(&context, &TokenTree::new(), Want::LOGITS);
        assert_eq!(scores.unwrap().rows_computed, context.len());
    }
}

#[test]
fn a_source_is_encoded_and_stored_once() {
    let (model, rng) = (t5(), &mut StdRng::seed_from_u64(6));
    let source = random_tokens(rng, 3 * PAGE);
    let page = model.cache_bytes_of(0, 0).unwrap() / 2;
    let scope: Arc<SharedPrefixes> = Arc::default();
    let mut sessions: Vec<Session> = (0..4).map(|_| cold(&model, &source)).collect();
    for session in &mut sessions {
        session.share_prefixes(Some(Arc::clone(&scope)));
    }
    let answers = asked(&mut sessions, &[vec![1], vec![2], vec![3], vec![1]]);
    assert_eq!(model.cache_bytes(), Some((3 + 4) * page));
    let alone = cold(&model, &source).score(&[2], &TokenTree::new(), Want::LOGITS);
    assert_eq!(answers[1].logits, alone.unwrap().logits);
    // A session that goes on to another source.
    let other = random_tokens(rng, PAGE);
    sessions[0].set_source(&other).unwrap();
    let found = sessions[0].score(&[1], &TokenTree::new(), Want::LOGITS);
    let alone = cold(&model, &other).score(&[1], &TokenTree::new(), Want::LOGITS);
    assert_eq!(found.unwrap().logits, alone.unwrap().logits);
}
