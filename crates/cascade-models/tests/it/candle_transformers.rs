//! Logits against candle-transformers: an implementation that shares no forward pass with ours.
//!
//! Its LLaMA is compared row by row. Its T5 decoder buckets relative positions as an encoder does,
//! which is wrong from distance 9 on, so that T5 is compared up to there; goldens from Hugging Face
//! transformers cover the rest.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, IndexOp, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::{llama, t5};
use cascade_core::{Scorer, TokenId, TokenTree, Want};
use cascade_models::{LoadOptions, ModelSource, Session, load};

const TOLERANCE: f32 = 2e-4;

/// Decoder positions at which its T5 is right.
const T5_POSITIONS: usize = 9;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../cascade-demo/models")
        .join(name)
}

fn ours(name: &str) -> Session {
    let source = ModelSource::parse(&folder(name).to_string_lossy()).unwrap();
    load(&source, &LoadOptions::default()).unwrap().session()
}

fn weights(name: &str) -> VarBuilder<'static> {
    let files = std::fs::read_dir(folder(name)).unwrap();
    let mut tensors = HashMap::new();
    for file in files.map(|file| file.unwrap().path()) {
        if file
            .extension()
            .is_some_and(|extension| extension == "safetensors")
        {
            tensors.extend(candle_core::safetensors::load(&file, &Device::Cpu).unwrap());
        }
    }
    VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu)
}

fn config<C: serde::de::DeserializeOwned>(name: &str) -> C {
    let text = std::fs::read_to_string(folder(name).join("config.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Tokens of a text that is no text.
fn tokens(count: u32) -> Vec<TokenId> {
    (0..count).map(|i| 3 + (i * i * 7 + 11 * i) % 300).collect()
}

fn tensor(tokens: &[TokenId]) -> Tensor {
    Tensor::new(tokens, &Device::Cpu)
        .unwrap()
        .unsqueeze(0)
        .unwrap()
}

/// Rows after `context` and each token of `draft`.
fn rows(session: &mut Session, context: &[TokenId], draft: &[TokenId]) -> Vec<Vec<f32>> {
    let tree = TokenTree::chain(draft.iter().copied());
    let logits = session
        .score(context, &tree, Want::LOGITS)
        .unwrap()
        .logits
        .unwrap();
    (0..logits.rows())
        .map(|row| logits.row(row).to_vec())
        .collect()
}

fn assert_close(ours: &[f32], theirs: &[f32], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (token, (a, b)) in ours.iter().zip(theirs).enumerate() {
        assert!(
            (a - b).abs() < TOLERANCE,
            "{what}, token {token}: {a} and {b}"
        );
    }
}

#[test]
fn llama_logits_are_those_of_candle_transformers() {
    for name in ["demo-llama-target", "demo-llama-small"] {
        let config: llama::LlamaConfig = config(name);
        let config = config.into_config(false);
        let theirs = llama::Llama::load(weights(name), &config).unwrap();
        let mut cache = llama::Cache::new(true, DType::F32, &config, &Device::Cpu).unwrap();
        let text = tokens(40);
        let (context, draft) = text.split_at(24);
        let found = rows(&mut ours(name), context, draft);
        // It returns the last row alone.
        let mut at = 0;
        for (row, found) in found.iter().enumerate() {
            let end = context.len() + row;
            let input = tensor(&text[at..end]);
            let logits = theirs.forward(&input, at, &mut cache).unwrap();
            let expected: Vec<f32> = logits.i(0).unwrap().to_vec1().unwrap();
            assert_close(found, &expected, &format!("{name}, row {row}"));
            at = end;
        }
    }
}

#[test]
fn t5_logits_are_those_of_candle_transformers_as_far_as_it_is_right() {
    for name in ["demo-t5-target", "demo-t5-small"] {
        let config: t5::Config = config(name);
        let mut theirs = t5::T5ForConditionalGeneration::load(weights(name), &config).unwrap();
        let source = tokens(30);
        let encoded = theirs.encode(&tensor(&source)).unwrap();
        let start = config.decoder_start_token_id.unwrap_or(config.pad_token_id) as TokenId;
        let output = tokens(T5_POSITIONS as u32 - 1);
        let mut session = ours(name);
        session.set_source(&source).unwrap();
        for (row, found) in rows(&mut session, &[], &output).iter().enumerate() {
            theirs.clear_kv_cache();
            let input = [&[start], &output[..row]].concat();
            let logits = theirs.decode(&tensor(&input), &encoded).unwrap();
            let expected: Vec<f32> = logits.flatten_all().unwrap().to_vec1().unwrap();
            assert_close(found, &expected, &format!("{name}, row {row}"));
        }
    }
}
