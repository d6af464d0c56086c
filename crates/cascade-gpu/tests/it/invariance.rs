//! A row's values do not depend on the rows beside it: a whole small model, to the last bit.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use crate::common::batch::Batch;
use crate::common::decoder::{inner, Decoder, Shape, LAYERS, STREAM};
use crate::common::{bits, on_all};
use cascade_gpu::{Activation, DType, Device, Heads};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const HEADS: Heads = Shape::SMALL.heads;
const VOCABULARY: usize = Shape::SMALL.vocabulary;

fn decoder(device: &Device, dtype: DType) -> Decoder {
    Decoder::new(device, dtype, Shape::SMALL)
}

fn random_text(seed: u64, length: usize) -> Vec<u32> {
    crate::common::decoder::random_text(seed, length, VOCABULARY)
}

#[test]
fn rows_of_a_chain_say_the_same_alone_and_in_any_company() {
    let text = random_text(2, 262);
    on_all(|device, dtype| {
        let model = decoder(device, dtype);
        let cache = model.cache();
        // What follows comes to lie in two splits of the keys.
        let (start, rest) = text.split_at(244);
        model.read(&cache, 0, start, &[64]);
        let alone = model.read(&cache, start.len(), rest, &[1]);
        for sizes in [&[5][..], &[2, 16], &[18]] {
            let logits = model.read(&cache, start.len(), rest, sizes);
            assert!(bits(&logits) == bits(&alone), "{dtype:?} {sizes:?}");
        }
        alone
    });
}

/// Heads that are normed are whole first, so that they take a kernel of their own.
#[test]
fn normed_heads_say_the_same_in_chunks_of_any_size() {
    let text = random_text(5, 19);
    on_all(|device, dtype| {
        let model = Decoder::with_normed_heads(device, dtype, Shape::SMALL);
        let at_once = model.read(&model.cache(), 0, &text, &[19]);
        let in_chunks = model.read(&model.cache(), 0, &text, &[1, 8]);
        assert!(bits(&in_chunks) == bits(&at_once), "{dtype:?}");
        at_once
    });
}

#[test]
fn short_texts_say_the_same_in_chunks_of_any_size() {
    let text = random_text(3, 64);
    on_all(|device, dtype| {
        let model = decoder(device, dtype);
        let at_once = model.read(&model.cache(), 0, &text, &[64]);
        for sizes in [&[1, 8, 32][..], &[33, 31]] {
            let logits = model.read(&model.cache(), 0, &text, sizes);
            assert!(bits(&logits) == bits(&at_once), "{dtype:?} {sizes:?}");
        }
        at_once
    });
}

/// A chain says the same where others stand beside it, and its slots are looked up.
#[test]
fn strangers_beside_a_chain_do_not_matter() {
    let text = random_text(4, 20);
    on_all(|device, dtype| {
        let mut rng = StdRng::seed_from_u64(4);
        let model = decoder(device, dtype);
        let plain = model.read(&model.cache(), 0, &text, &[20]);
        let mut runner = model.runner();
        for strangers in [1, 44] {
            // Behind the chain stand siblings of its nodes: they see a part of it and themselves.
            let mut batch = Batch::chain(&text, 0);
            let mut paths: Vec<Vec<usize>> = (0..20).map(|row| (0..=row).collect()).collect();
            for row in 20..20 + strangers {
                let parent = rng.random_range(0..20);
                batch.tokens.push(rng.random_range(0..VOCABULARY as u32));
                batch.positions.push(parent as u32 + 1);
                paths.push((0..=parent).chain([row]).collect());
            }
            batch.paths = Some(paths);
            batch.wanted = batch.tokens.len();
            let logits = model.logits(&mut runner, &batch, &model.cache());
            assert!(bits(&logits[..plain.len()]) == bits(&plain), "{dtype:?}");
        }
        plain
    });
}

/// What depends on its token alone says the same in any batch of any tokens at any place.
#[test]
fn rows_without_attention_say_the_same_at_any_place() {
    let mut rng = StdRng::seed_from_u64(5);
    let batches: Vec<Vec<u32>> = [1, 2, 5, 8, 9, 16, 31, 32, 50, 64]
        .map(|size| random_text(rng.random(), size))
        .to_vec();
    on_all(|device, dtype| {
        let model = decoder(device, dtype);
        let layer = &model.layers[0];
        let (mut runner, cache) = (model.runner(), model.cache());
        let mut said: HashMap<u32, Vec<f32>> = HashMap::new();
        for tokens in &batches {
            let forward = runner.forward(&Batch::chain(tokens, 0).rows(), &cache, None, |f| {
                f.embed(&model.table, &layer.norms[0]);
                f.activate(&layer.gated, Activation::Gelu);
                f.add_inner(&layer.down, &model.norm);
                f.logits(&model.head, 0.5);
            });
            forward.unwrap();
            let logits = runner.logits(tokens.len()).unwrap();
            for (&token, row) in tokens.iter().zip(logits.chunks(VOCABULARY)) {
                let first = said.entry(token).or_insert_with(|| row.to_vec());
                assert!(bits(first) == bits(row), "{dtype:?}: {}", tokens.len());
            }
        }
        (0..VOCABULARY as u32)
            .filter_map(|token| said.remove(&token))
            .collect::<Vec<_>>()
            .concat()
    });
}

#[test]
fn forwards_that_were_prepared_are_not_recorded_again() {
    let text = random_text(7, 5);
    on_all(|device, dtype| {
        let model = decoder(device, dtype);
        let (mut runner, cache) = (model.runner(), model.cache());
        let batch = Batch::chain(&text, 0);
        let logits = model.logits(&mut runner, &batch, &cache);
        let mut prepared = model.runner();
        prepared
            .prepare([300, 0], |forward, _| model.forward(forward))
            .unwrap();
        // Rows in powers of two and a prompt without logits, for up to one, two and four splits.
        assert_eq!(prepared.recorded(), (7 + 1) * 3);
        let again = model.logits(&mut prepared, &batch, &cache);
        assert_eq!(prepared.recorded(), (7 + 1) * 3);
        assert!(bits(&again) == bits(&logits));
        logits
    });
}

#[test]
fn a_profile_counts_every_launch_and_leaves_the_runner_as_it_was() {
    let text = random_text(6, 3);
    on_all(|device, dtype| {
        let model = decoder(device, dtype);
        let (mut runner, cache) = (model.runner(), model.cache());
        assert!(runner.profile(1).unwrap().is_empty());
        let batch = Batch::chain(&text, 0);
        let logits = model.logits(&mut runner, &batch, &cache);
        let costs = runner.profile(2).unwrap();
        let launches = |purpose| {
            costs
                .iter()
                .find(|c| c.purpose == purpose)
                .unwrap()
                .launches
        };
        // A layer is five launches: these, and the maps beside them.
        assert_eq!(launches("nothing"), 5 * LAYERS + 3);
        assert_eq!(launches("attention"), LAYERS);
        assert_eq!(runner.launches(4, true), Some(5 * LAYERS + 3));
        let of_forward = costs[1..].iter();
        assert_eq!(
            of_forward.clone().map(|c| c.launches).sum::<usize>(),
            5 * LAYERS + 3
        );
        let numbers = LAYERS * STREAM * (4 * HEADS.size + 2 * HEADS.size + 3 * inner(dtype));
        let weights = dtype.weight_bytes(numbers + VOCABULARY * STREAM);
        assert_eq!(of_forward.map(|c| c.weights).sum::<usize>(), weights);
        assert!(costs.iter().all(|c| c.seconds > 0.0));
        let again = model.logits(&mut runner, &batch, &cache);
        assert!(bits(&again) == bits(&logits));
        logits
    });
}
