//! Encoders: rows in chunks that all see each other, and decoders that look at what they left.
#![allow(clippy::unwrap_used)]

use crate::common::attention::{Scene, TOKENS};
use crate::common::batch::Batch;
use crate::common::{assert_close, on_all};
use cascade_gpu::Heads;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const HEADS: Heads = Heads {
    queries: 2,
    kv: 1,
    size: 16,
};

fn random_text(seed: u64, length: usize) -> Vec<u32> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..length)
        .map(|_| rng.random_range(0..TOKENS as u32))
        .collect()
}

#[test]
fn tokens_of_all_chunks_see_each_other() {
    let scene = Scene::new(1, HEADS).with_bias(1, 30);
    for length in [1, 64, 65, 300] {
        let text = random_text(length as u64, length);
        let seen: Vec<_> = text.iter().copied().zip(0..).collect();
        on_all(|device, dtype| {
            let model = scene.load(device, dtype);
            let (scratch, source) = (model.cache(length), model.cache(length));
            let mut runner = model.runner();
            let encoding = runner.encode(&text, &scratch, &source).unwrap();
            assert_eq!(encoding.chunks(), length.div_ceil(64));
            for chunk in 0..encoding.chunks() {
                let run = runner.run_chunk(&encoding, chunk, |f| model.project(f));
                run.unwrap();
            }
            let chunks = seen.chunks(64).enumerate().flat_map(|(chunk, rows)| {
                let run = runner.run_chunk(&encoding, chunk, |f| model.look(f));
                run.unwrap();
                model.mixed(&runner, rows.len())
            });
            let got: Vec<f32> = chunks.collect();
            let rows = seen.iter();
            let want = rows.flat_map(|&row| scene.attend(&model, row, &seen));
            assert_close(&got, want, &(dtype, length));
            got
        });
    }
}

#[test]
fn decoders_look_at_all_of_the_source() {
    let cases = [
        (1, 1, 3, 16),
        (2, 70, 1, 64),
        (3, 257, 40, 16),
        (4, 140, 9, 128),
    ];
    for (seed, length, rows, size) in cases {
        let scene = Scene::new(seed, Heads { size, ..HEADS });
        let text = random_text(seed, length);
        let seen: Vec<_> = text.iter().copied().zip(0..).collect();
        let mut batch = Batch::chain(&random_text(seed + 10, rows), 0);
        batch.wanted = 0;
        on_all(|device, dtype| {
            let model = scene.load(device, dtype);
            // Caches of different capacities.
            let (cache, scratch) = (model.cache(rows), model.cache(600));
            let mut source = model.cache(length);
            let mut runner = model.runner();
            let encoding = runner.encode(&text, &scratch, &source).unwrap();
            for chunk in 0..encoding.chunks() {
                let run = runner.run_chunk(&encoding, chunk, |f| model.project_source(f));
                run.unwrap();
            }
            source.commit(length);
            let forward = runner.forward(&batch.rows(), &cache, Some(&source), |f| {
                model.look_at_source(f);
            });
            forward.unwrap();
            let got = model.mixed(&runner, rows);
            let queries = batch.tokens.iter();
            let want = queries.flat_map(|&token| scene.attend(&model, (token, 0), &seen));
            assert_close(&got, want, &(dtype, length, rows));
            got
        });
    }
}
