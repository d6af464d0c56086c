//! Logits, hidden states and relative-position buckets against a reference implementation; see
//! tests/goldens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{safetensors, Tensor};
use cascade_core::{Matrix, Scorer, TokenId, TokenTree, Want};
use cascade_models::{
    relative_position_bucket, DType, Device, Model, Result, Session, WeightSource,
};
use serde_json::{json, Value};

const TOLERANCE: f32 = 1e-4;

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/goldens")
}

fn load(name: &str) -> (Arc<Model>, Golden) {
    load_as(name, |config| config)
}

/// The model, with its config.json written in another way.
fn load_as(name: &str, rewrite: fn(Value) -> Value) -> (Arc<Model>, Golden) {
    let folder = goldens().join("models").join(name);
    let config = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let config = rewrite(serde_json::from_str(&config).unwrap());
    let tensors = |file| safetensors::load(folder.join(file), &candle_core::Device::Cpu).unwrap();
    let weights = Golden(tensors("model.safetensors"));
    let model = Model::build(config, &weights, &Device::Cpu, DType::F32).unwrap();
    (Arc::new(model), Golden(tensors("golden.safetensors")))
}

impl WeightSource for Golden {
    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let tensor = &self.0[name];
        assert_eq!(tensor.dims(), shape, "{name}");
        Ok(tensor.flatten_all().unwrap().to_vec1().unwrap())
    }
}

struct Golden(HashMap<String, Tensor>);

impl Golden {
    fn integers(&self, key: &str) -> Vec<i64> {
        self.0[key].to_vec1().unwrap()
    }

    fn tokens(&self, key: &str) -> Vec<TokenId> {
        self.integers(key).iter().map(|&t| t as TokenId).collect()
    }

    fn rows(&self, key: &str) -> Vec<Vec<f32>> {
        self.0[key].to_vec2().unwrap()
    }

    /// A session that the source, if there is one, has been given to.
    fn session(&self, model: &Arc<Model>) -> Session {
        let mut session = model.session();
        if self.0.contains_key("source") {
            session.set_source(&self.tokens("source")).unwrap();
        }
        session
    }

    /// Tokens of context that the first golden row comes after.
    fn first_context(&self) -> usize {
        usize::from(!self.0.contains_key("source"))
    }
}

fn assert_rows(found: &Matrix, expected: &[Vec<f32>], what: &str) {
    assert_eq!(found.rows(), expected.len(), "{what}");
    let scale = expected
        .iter()
        .flatten()
        .fold(1.0f32, |m, x| m.max(x.abs()));
    for (row, expected) in expected.iter().enumerate() {
        assert_eq!(found.columns(), expected.len(), "{what}");
        for (column, (a, b)) in found.row(row).iter().zip(expected).enumerate() {
            assert!(
                (a - b).abs() <= TOLERANCE * scale,
                "{what}: row {row}, column {column}: {a} instead of {b}"
            );
        }
    }
}

fn check(name: &str) {
    check_as(name, |config| config);
}

fn check_as(name: &str, rewrite: fn(Value) -> Value) {
    let (model, golden) = load_as(name, rewrite);
    let tokens = golden.tokens("tokens");
    let first = golden.first_context();
    let want = Want::LOGITS.with_hidden();

    let rest = TokenTree::chain(tokens[first..].iter().copied());
    let scores = golden
        .session(&model)
        .score(&tokens[..first], &rest, want)
        .unwrap();
    assert_rows(&scores.logits.unwrap(), &golden.rows("logits"), "prefill");
    assert_rows(&scores.hidden.unwrap(), &golden.rows("hidden"), "hidden");

    let warm_from = golden.integers("warm_from")[0] as usize;
    let mut session = golden.session(&model);
    let none = TokenTree::new();
    session.score(&tokens[..warm_from], &none, want).unwrap();
    let rest = TokenTree::chain(tokens[warm_from + 1..].iter().copied());
    let scores = session.score(&tokens[..=warm_from], &rest, want).unwrap();
    assert_rows(&scores.logits.unwrap(), &golden.rows("warm_logits"), "warm");
    assert_eq!(scores.rows_computed, tokens.len() - warm_from);

    let mut session = golden.session(&model);
    let rows = golden.rows("logits");
    for (len, row) in (first..=tokens.len()).zip(&rows) {
        let scores = session.score(&tokens[..len], &none, want).unwrap();
        assert_rows(
            &scores.logits.unwrap(),
            std::slice::from_ref(row),
            "one by one",
        );
    }
}

fn check_tree(name: &str) {
    let (model, golden) = load(name);
    let mut tree = TokenTree::new();
    let parents = golden.integers("tree_parents");
    for (token, parent) in golden.tokens("tree_tokens").into_iter().zip(parents) {
        tree.push(token, usize::try_from(parent).ok());
    }
    let context = golden.tokens("tree_context");
    let scores = golden
        .session(&model)
        .score(&context, &tree, Want::LOGITS)
        .unwrap();
    assert_rows(&scores.logits.unwrap(), &golden.rows("tree_logits"), "tree");
}

/// Rotary settings as transformers 5 saves them: in one object, and none at the top.
fn nested_rotary_settings(mut config: Value) -> Value {
    let theta = config["rope_theta"].take();
    let mut parameters = match config["rope_scaling"].take() {
        Value::Null => json!({"rope_type": "default"}),
        scaling => json!({"rope_type": scaling["rope_type"], "factor": scaling["factor"]}),
    };
    parameters["rope_theta"] = theta;
    config["rope_parameters"] = parameters;
    config
}

#[test]
fn configurations_that_transformers_5_saved_give_the_same_logits() {
    check_as("tiny-llama-gqa", nested_rotary_settings);
    check_as("tiny-llama-linear-rope", nested_rotary_settings);
    // It calls embeddings tied although the checkpoint has a head, and says apart from it whether
    // hidden states are scaled.
    check_as("tiny-t5-v1.1", |mut config| {
        config["tie_word_embeddings"] = json!(true);
        config["scale_decoder_outputs"] = json!(false);
        config
    });
    check_as("tiny-t5-v1.0", |mut config| {
        config["scale_decoder_outputs"] = json!(true);
        config
    });
}

#[test]
fn t5_v1_0() {
    check("tiny-t5-v1.0");
    check_tree("tiny-t5-v1.0");
}

#[test]
fn t5_v1_1() {
    check("tiny-t5-v1.1");
    check_tree("tiny-t5-v1.1");
}

#[test]
fn llama_with_grouped_keys() {
    check("tiny-llama-gqa");
    check_tree("tiny-llama-gqa");
}

#[test]
fn llama_with_stretched_positions() {
    check("tiny-llama-linear-rope");
    check_tree("tiny-llama-linear-rope");
}

#[derive(serde::Deserialize)]
struct Buckets {
    num_buckets: usize,
    max_distance: usize,
    relative_positions: Vec<i64>,
    buckets: Vec<u32>,
}

#[test]
fn buckets_of_all_distances() {
    let json = std::fs::read_to_string(goldens().join("buckets.json")).unwrap();
    let tables: HashMap<String, Vec<Buckets>> = serde_json::from_str(&json).unwrap();
    for (direction, tables) in tables {
        for table in tables {
            assert_eq!(table.relative_positions.len(), table.buckets.len());
            for (&relative, &bucket) in table.relative_positions.iter().zip(&table.buckets) {
                let found = relative_position_bucket(
                    relative,
                    direction == "bidirectional",
                    table.num_buckets,
                    table.max_distance,
                );
                assert_eq!(found, bucket, "{direction}, {relative}");
            }
        }
    }
}
