//! One token of the demo LLaMA target on the CPU: our forward pass beside that of
//! candle-transformers, at the same context, both with a warm cache.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama;
use cascade_core::{Scorer, TokenId, TokenTree, Want};
use cascade_models::{LoadOptions, ModelSource, load};
use criterion::{Criterion, criterion_group, criterion_main};

const CONTEXT: usize = 128;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cascade-demo/models/demo-llama-target")
}

fn ours(bench: &mut Criterion, text: &[TokenId]) {
    let source = ModelSource::parse(&folder().to_string_lossy()).unwrap();
    let mut session = load(&source, &LoadOptions::default()).unwrap().session();
    for rows in [1u32, 8] {
        let draft = TokenTree::chain((1..rows).map(|i| 5 + i));
        let context = &text[..CONTEXT];
        bench.bench_function(&format!("cascade, {rows} rows"), |b| {
            b.iter(|| black_box(session.score(context, &draft, Want::ARGMAX).unwrap()));
        });
    }
}

fn theirs(bench: &mut Criterion, text: &[TokenId]) {
    let config = std::fs::read_to_string(folder().join("config.json")).unwrap();
    let config: llama::LlamaConfig = serde_json::from_str(&config).unwrap();
    let config = config.into_config(false);
    let bytes = std::fs::read(folder().join("model.safetensors")).unwrap();
    let weights = VarBuilder::from_buffered_safetensors(bytes, DType::F32, &Device::Cpu).unwrap();
    let model = llama::Llama::load(weights, &config).unwrap();
    let mut cache = llama::Cache::new(true, DType::F32, &config, &Device::Cpu).unwrap();
    let tensor = |tokens: &[TokenId]| {
        let flat = Tensor::new(tokens, &Device::Cpu).unwrap();
        flat.unsqueeze(0).unwrap()
    };
    let last = CONTEXT - 1;
    model
        .forward(&tensor(&text[..last]), 0, &mut cache)
        .unwrap();
    let token = tensor(&text[last..CONTEXT]);
    bench.bench_function("candle-transformers, 1 row", |b| {
        b.iter_batched(
            || cache.clone(),
            |mut cache| black_box(model.forward(&token, last, &mut cache).unwrap()),
            criterion::BatchSize::SmallInput,
        );
    });
}

fn forward(bench: &mut Criterion) {
    let text: Vec<TokenId> = (0..CONTEXT as u32).map(|i| 3 + (i * i * 7) % 300).collect();
    ours(bench, &text);
    theirs(bench, &text);
}

criterion_group!(benches, forward);
criterion_main!(benches);
