//! Calls that share forwards are answered as each is alone, bit for bit.

use std::sync::Arc;

use cascade_core::{Architecture, Error, Scorer, TokenId, TokenTree, Want};
use cascade_models::{
    random_model, score_together, CacheType, DType, Device, LoadOptions, Model, ScoreCall, Session,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{json, Value};

use crate::common::calls::{next_context, Text};
use crate::common::tiny::{cold, llama, llama_of, random_tokens, t5, t5_of, Poison, GATED};
use crate::random;

fn text(rng: &mut StdRng, model: &Arc<Model>) -> Text {
    let source = match model.info().architecture {
        Architecture::EncoderDecoder => {
            let count = rng.random_range(1..30);
            random_tokens(rng, count)
        }
        Architecture::DecoderOnly => Vec::new(),
    };
    Text::new(model, source)
}

/// Mostly a step as an engine takes it, and now and then a prompt.
fn go_on(text: &mut Text, rng: &mut StdRng) {
    text.context = next_context(rng, &text.context, &text.tree);
    if rng.random_bool(0.05) {
        let count = [40, 90, 600][rng.random_range(0..3)];
        text.context = random_tokens(rng, count);
    }
    if text.context.is_empty() && text.source.is_empty() {
        text.context = random_tokens(rng, 1);
    }
    text.ask(rng);
}

/// Texts join and leave; each round, any of them call.
fn random_rounds(models: &[Arc<Model>], seed: u64, rounds: usize, most: usize) {
    let rng = &mut StdRng::seed_from_u64(seed);
    let mut texts: Vec<Text> = Vec::new();
    for _ in 0..rounds {
        let count = rng.random_range(1..=most);
        texts.retain(|_| rng.random_bool(0.95));
        texts.truncate(count);
        while texts.len() < count {
            let model = &models[rng.random_range(0..models.len())];
            texts.push(text(rng, model));
        }
        let share = [0.4, 1.0][rng.random_range(0..2)];
        let mut calling: Vec<&mut Text> = texts.iter_mut().collect();
        calling.retain(|_| rng.random_bool(share));
        calling.iter_mut().for_each(|text| go_on(text, rng));
        let calls = calling.iter_mut().map(|text| text.call()).collect();
        let answers = score_together(calls);
        assert_eq!(answers.len(), calling.len());
        for (text, answer) in calling.iter().zip(answers) {
            text.assert_alone(answer.unwrap());
        }
    }
}

fn cpu_model(config: Value, dtype: DType, cache: Option<CacheType>) -> Arc<Model> {
    let options = LoadOptions {
        device: Device::Cpu,
        dtype,
        cache_dtype: cache,
        ..LoadOptions::default()
    };
    random_model(config, &options).unwrap()
}

/// Models of both architectures in a type.
fn models(dtype: DType, cache: Option<CacheType>) -> Vec<Arc<Model>> {
    let mut llama = random::llama();
    llama["max_position_embeddings"] = json!(1000);
    let configs = [llama, random::t5(true)];
    let models = configs.map(|config| cpu_model(config, dtype, cache));
    models.into()
}

#[test]
fn texts_together_are_what_they_are_alone() {
    random_rounds(&[llama()], 1, 60, 16);
    random_rounds(&[t5()], 2, 60, 16);
    // Of several models: each its own forwards.
    random_rounds(&[llama(), t5(), llama_of(4, None)], 3, 60, 16);
}

#[test]
fn texts_together_are_what_they_are_alone_in_every_type() {
    for (seed, dtype) in [
        DType::F32,
        DType::BF16,
        DType::F16,
        DType::Q8_0,
        DType::Q4_0,
    ]
    .into_iter()
    .enumerate()
    {
        random_rounds(&models(dtype, None), seed as u64, 10, 16);
    }
    random_rounds(&models(DType::BF16, Some(CacheType::BF16)), 9, 10, 16);
}

#[test]
#[ignore = "slow: hundreds of rounds in every type"]
fn texts_together_are_what_they_are_alone_in_hundreds_of_rounds() {
    for dtype in [
        DType::F32,
        DType::BF16,
        DType::F16,
        DType::Q8_0,
        DType::Q4_0,
    ] {
        for cache in [None, Some(CacheType::BF16), Some(CacheType::F16)] {
            random_rounds(&models(dtype, cache), 11, 60, 32);
        }
    }
}

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
