//! Calls that share forwards are answered as each is alone, bit for bit.

use cascade_core::{Error, Scorer, TokenId, TokenTree, Want};
use cascade_models::{DType, ScoreCall, Session, score_together};

use crate::common::tiny::{GATED, Poison, cold, llama_of, t5, t5_of};

/// With candle sessions take turns, and answer what they answer alone.
#[cfg(feature = "candle")]
#[test]
fn sessions_take_turns_with_candle() {
    let device = cascade_models::DeviceSpec::CandleCpu.open().unwrap();
    let folder = crate::common::demo::folder("demo-llama-small");
    let model = crate::common::demo::load_on(&folder, &device, DType::F32);
    assert!(!model.gathers());
    let mut sessions = [model.session(), model.session()];
    let trees = [TokenTree::chain([5, 6]), TokenTree::new()];
    let contexts: [&[TokenId]; 2] = [&[1, 2, 3], &[4]];
    let calls = sessions
        .iter_mut()
        .zip(&trees)
        .zip(contexts)
        .map(|((session, tree), context)| ScoreCall {
            session,
            context,
            tree,
            want: Want::LOGITS,
        });
    let answers = score_together(calls.collect());
    for ((answer, tree), context) in answers.into_iter().zip(&trees).zip(contexts) {
        let alone = model.session().score(context, tree, Want::LOGITS);
        assert_eq!(answer.unwrap(), alone.unwrap());
    }
}

/// Calls that cannot be answered, and one whose logits are NaN, among others.
#[test]
fn the_error_of_a_call_is_its_own() {
    let poison = Some(Poison {
        name: "embed",
        row: 7,
    });
    let (spoiled, sound) = (llama_of(2, poison), llama_of(2, None));
    let empty = TokenTree::new();
    let mut sessions: Vec<Session> = (0..5).map(|_| spoiled.session()).collect();
    let contexts: [&[TokenId]; 5] = [&[1, 2, 3], &[1, 7], &[4, 5], &[], &[99]];
    for _ in 0..2 {
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
        for number in [0, 2] {
            let alone = sound
                .session()
                .score(contexts[number], &empty, Want::LOGITS);
            let found = answers[number].as_ref().unwrap();
            assert_eq!(found.logits, alone.unwrap().logits, "text {number}");
        }
        assert!(matches!(answers[1], Err(Error::ImproperLogits { .. })));
        assert!(matches!(answers[3], Err(Error::EmptyContext)));
        assert!(matches!(
            answers[4],
            Err(Error::TokenOutOfVocabulary { token: 99, .. })
        ));
    }
    // A source that spoils its own text alone.
    let poison = Poison {
        name: "shared",
        row: 7,
    };
    let model = t5_of(DType::F32, GATED, Some(poison));
    let sources = [[1, 2], [7, 2], [3, 4]];
    let mut sessions = sources.map(|source| cold(&model, &source));
    let calls = sessions.iter_mut().map(|session| ScoreCall {
        session,
        context: &[],
        tree: &empty,
        want: Want::LOGITS,
    });
    let answers = score_together(calls.collect());
    assert!(matches!(answers[1], Err(Error::ImproperLogits { .. })));
    let sound = t5();
    for number in [0, 2] {
        let alone = cold(&sound, &sources[number]).score(&[], &empty, Want::LOGITS);
        let found = answers[number].as_ref().unwrap();
        assert_eq!(found.logits, alone.unwrap().logits, "text {number}");
    }
}
