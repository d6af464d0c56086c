//! Generations on threads of their own: what a batcher answers is what a session alone answers, and
//! nobody waits for good.

use std::sync::mpsc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use cascade_core::{Error, Scorer, TokenId, TokenTree, Want};
use cascade_models::{Batcher, DType, Model};

use crate::common::tiny::{Poison, cold, llama, llama_in, llama_of, t5};

/// Long enough for the slowest machine, and an end if threads wait for each other.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs something that must not wait for good.
fn ends<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, ended) = mpsc::channel();
    thread::spawn(move || send.send(run()));
    ended.recv_timeout(PATIENCE).expect("it ends")
}

fn most_probable(session: &mut impl Scorer, context: &[TokenId]) -> TokenId {
    let scores = session.score(context, &TokenTree::new(), Want::ARGMAX);
    scores.unwrap().argmax[0]
}

fn greedy(session: &mut impl Scorer, prompt: &[TokenId], tokens: usize) -> Vec<TokenId> {
    let mut text = prompt.to_vec();
    for _ in 0..tokens {
        let next = most_probable(session, &text);
        text.push(next);
    }
    text
}

/// A target, and a smaller model.
fn two_models() -> [Arc<Model>; 2] {
    let settings = r#", "num_hidden_layers": 1"#;
    [llama(), llama_in(DType::F32, 4, settings, None)]
}

#[test]
fn forwards_are_shared() {
    ends(|| {
        let (model, batcher) = (llama(), Batcher::default());
        let texts = [0, 1, 2, 3, 4].map(|text| (text, batcher.join().running()));
        thread::scope(|scope| {
            for (text, running) in texts {
                let model = &model;
                scope.spawn(move || {
                    let mut session = running.participant().session(model);
                    let found = greedy(&mut session, &[text, 2], 20);
                    assert_eq!(found, greedy(&mut model.session(), &[text, 2], 20));
                });
            }
        });
        let counts = batcher.counts();
        assert_eq!((counts.forwards, counts.calls), (20, 100));
        assert_eq!(counts.rows, 100 + 5);
    });
}

/// Calls of drafters come first, so that one forward of the target verifies all drafts.
#[test]
fn texts_meet_at_the_target() {
    ends(|| {
        let ([target, drafter], batcher) = (two_models(), Batcher::default());
        let texts = [1, 2, 3].map(|drafted| (drafted, batcher.join().running()));
        thread::scope(|scope| {
            for (drafted, running) in texts {
                let (target, drafter) = (&target, &drafter);
                scope.spawn(move || {
                    let mut small = running.participant().session(drafter);
                    let mut large = running.participant().session(target);
                    for _ in 0..4 {
                        greedy(&mut small, &[5, 6], drafted);
                        most_probable(&mut large, &[5, 6]);
                    }
                });
            }
        });
        // In each of four steps as many forwards as the longest draft has tokens, and one more.
        assert_eq!(batcher.counts().forwards, 4 * (3 + 1));
    });
}

/// A long prompt is read beside the tokens of others, and faster when these have ended.
#[test]
fn a_prompt_does_not_stop_the_others() {
    ends(|| {
        let (model, batcher) = (llama(), Batcher::default());
        let [long, short] = [batcher.join().running(), batcher.join().running()];
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut session = long.participant().session(&model);
                let prompt: Vec<TokenId> = (0..600).map(|i| i % 7).collect();
                let found = most_probable(&mut session, &prompt);
                assert_eq!(found, most_probable(&mut model.session(), &prompt));
                drop(long);
            });
            scope.spawn(|| {
                let mut session = short.participant().session(&model);
                greedy(&mut session, &[3], 5);
                drop(short);
            });
        });
        // Five of 64 rows of the prompt and one of the other text; the rest of the prompt in one.
        assert_eq!(batcher.counts().forwards, 6);
    });
}

#[test]
fn whoever_leaves_or_waits_for_others_holds_up_nobody() {
    ends(|| {
        let (model, batcher) = (llama(), Batcher::default());
        let stays = batcher.join().running();
        let leaves = batcher.join().running();
        let panics = batcher.join().running();
        let pauses = batcher.join();
        let (resume, paused) = mpsc::channel::<()>();
        let all_there = Barrier::new(4);
        thread::scope(|scope| {
            let (model, all_there) = (&model, &all_there);
            scope.spawn(move || {
                let mut session = leaves.participant().session(model);
                all_there.wait();
                greedy(&mut session, &[1], 2);
                drop(session);
                drop(leaves);
            });
            let panicking = scope.spawn(move || {
                let mut session = panics.participant().session(model);
                all_there.wait();
                greedy(&mut session, &[2], 3);
                panic!("on purpose");
            });
            scope.spawn(move || {
                let mut session = pauses.session(model);
                let running = pauses.running();
                all_there.wait();
                greedy(&mut session, &[3], 4);
                drop(running);
                // Until the others have ended.
                paused.recv().unwrap();
                let _running = pauses.running();
                let found = greedy(&mut session, &[3], 9);
                assert_eq!(found, greedy(&mut model.session(), &[3], 9));
            });
            let mut session = stays.participant().session(model);
            all_there.wait();
            let found = greedy(&mut session, &[4], 30);
            assert_eq!(found, greedy(&mut model.session(), &[4], 30));
            drop(stays);
            assert!(panicking.join().is_err());
            resume.send(()).unwrap();
        });
    });
}

#[test]
fn the_error_of_a_text_is_its_own() {
    ends(|| {
        let poison = Some(Poison {
            name: "embed",
            row: 7,
        });
        let (spoiled, sound) = (llama_of(2, poison), llama_of(2, None));
        let batcher = Batcher::default();
        let texts = [false, true, false].map(|spoils| (spoils, batcher.join().running()));
        thread::scope(|scope| {
            for (spoils, running) in texts {
                let (spoiled, sound) = (&spoiled, &sound);
                scope.spawn(move || {
                    let mut session = running.participant().session(spoiled);
                    let mut score = |context: &[TokenId]| {
                        session.score(context, &TokenTree::new(), Want::LOGITS)
                    };
                    for _ in 0..5 {
                        if spoils {
                            let error = score(&[1, 7]).unwrap_err();
                            assert!(matches!(error, Error::ImproperLogits { .. }), "{error}");
                            let error = score(&[1; 701]).unwrap_err();
                            assert!(matches!(error, Error::ContextTooLong { .. }), "{error}");
                        }
                        let found = score(&[1, 2, 3]).unwrap().logits;
                        let alone = cold(sound, &[]);
                        let alone = { alone }.score(&[1, 2, 3], &TokenTree::new(), Want::LOGITS);
                        assert_eq!(found, alone.unwrap().logits);
                    }
                });
            }
        });
    });
}

/// Sources are encoded together, and each text reads its own.
#[test]
fn each_text_has_its_own_source() {
    ends(|| {
        let (model, batcher) = (t5(), Batcher::default());
        let texts = [1, 4, 9].map(|length| (length, batcher.join().running()));
        thread::scope(|scope| {
            for (length, running) in texts {
                let model = &model;
                scope.spawn(move || {
                    let mut session = running.participant().session(model);
                    for first in 0..3 {
                        let source: Vec<TokenId> = (0..length).map(|i| (first + i) % 9).collect();
                        session.set_source(&source).unwrap();
                        let found = greedy(&mut session, &[], 12);
                        assert_eq!(found, greedy(&mut cold(model, &source), &[], 12));
                    }
                });
            }
        });
        assert_eq!(batcher.counts().forwards, 36);
    });
}
