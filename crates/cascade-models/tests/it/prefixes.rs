//! Sessions that share what they have read answer as each does alone, bit for bit.

use std::sync::Arc;

use cascade_core::{Scorer, Scores, TokenId, TokenTree, Want};
use cascade_models::{ScoreCall, Session, SharedPrefixes, score_together};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::common::tiny::{cold, llama, random_tokens, t5};

/// Slots of a page.
const PAGE: usize = 64;

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
