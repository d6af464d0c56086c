//! Logits, hidden states and relative-position buckets against a reference implementation; see
//! tests/goldens.

use std::path::PathBuf;
use std::sync::Arc;

use cascade_core::{Matrix, Scorer, TokenId, TokenTree, Want};
use cascade_models::{DType, Device, Model, Session};
use serde_json::{Value, json};

use crate::common::goldens::{Golden, goldens};

/// How far logits and hidden states may be from the reference, relative to the greatest.
const TOLERANCE: f32 = 1e-4;

/// All checkpoints, and how many configurations each has: as transformers 4 saves them, and as
/// transformers 5 does.
const MODELS: [(&str, usize); 22] = [
    ("tiny-llama-mha", 2),
    ("tiny-llama-gqa", 2),
    ("tiny-llama-linear-rope", 2),
    ("tiny-llama3-rope", 2),
    ("tiny-llama-yarn", 2),
    ("tiny-llama-dynamic", 2),
    ("tiny-llama-biases", 2),
    ("tiny-mistral", 2),
    ("tiny-mistral-window", 2),
    ("tiny-qwen2", 2),
    ("tiny-qwen2-window", 1),
    ("tiny-qwen3", 1),
    ("tiny-qwen3-yarn", 1),
    ("tiny-smollm3", 1),
    ("tiny-phi3", 2),
    ("tiny-phi3-longrope", 2),
    ("tiny-t5-v1.0", 2),
    ("tiny-t5-v1.1", 2),
    ("tiny-ul2", 2),
    ("tiny-t5-silu", 2),
    ("tiny-t5-gelu", 1),
    ("tiny-mt5", 2),
];

/// The configurations of a checkpoint.
fn configs(name: &str) -> Vec<Value> {
    let folder = goldens().join("models").join(name);
    let files = ["config.json", "config-4.json", "config-5.json"].map(|file| folder.join(file));
    let there = files.into_iter().filter(|file| file.exists());
    let read = |file: PathBuf| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    there.map(read).collect()
}

/// The model, with its config.json written in another way.
fn load_as(name: &str, config: Value) -> (Arc<Model>, Golden) {
    load_on(&Device::Cpu, name, config)
}

fn load_on(device: &Device, name: &str, config: Value) -> (Arc<Model>, Golden) {
    let folder = goldens().join("models").join(name);
    let tensors = |file| Golden::read(&folder.join(file));
    let weights = tensors("model.safetensors");
    let model = Model::build(config, &weights, device, DType::F32).unwrap();
    (Arc::new(model), tensors("golden.safetensors"))
}

impl Golden {
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

fn assert_rows(found: &Matrix, expected: &[Vec<f32>], tolerance: f32, what: &str) {
    assert_eq!(found.rows(), expected.len(), "{what}");
    let scale = expected
        .iter()
        .flatten()
        .fold(1.0f32, |m, x| m.max(x.abs()));
    for (row, expected) in expected.iter().enumerate() {
        assert_eq!(found.columns(), expected.len(), "{what}");
        for (column, (a, b)) in found.row(row).iter().zip(expected).enumerate() {
            assert!(
                (a - b).abs() <= tolerance * scale,
                "{what}: row {row}, column {column}: {a} instead of {b}"
            );
        }
    }
}

/// Logits in one pass, behind a warm cache, and one by one.
fn check(name: &str, (model, golden): &(Arc<Model>, Golden), tolerance: f32) {
    let tokens = golden.tokens("tokens");
    let first = golden.first_context();
    let want = Want::LOGITS.with_last_hidden();

    let rest = TokenTree::chain(tokens[first..].iter().copied());
    let scores = golden
        .session(model)
        .score(&tokens[..first], &rest, want)
        .unwrap();
    assert_rows(
        &scores.logits.unwrap(),
        &golden.rows("logits"),
        tolerance,
        name,
    );
    assert_rows(
        scores.hidden.of(cascade_core::HiddenLayer::Last).unwrap(),
        &golden.rows("hidden"),
        tolerance,
        name,
    );

    let warm_from = golden.integers("warm_from")[0] as usize;
    let mut session = golden.session(model);
    let none = TokenTree::new();
    session.score(&tokens[..warm_from], &none, want).unwrap();
    let rest = TokenTree::chain(tokens[warm_from + 1..].iter().copied());
    let scores = session.score(&tokens[..=warm_from], &rest, want).unwrap();
    assert_rows(
        &scores.logits.unwrap(),
        &golden.rows("warm_logits"),
        tolerance,
        name,
    );
    assert_eq!(scores.rows_computed, tokens.len() - warm_from);

    let mut session = golden.session(model);
    let rows = golden.rows("logits");
    for (len, row) in (first..=tokens.len()).zip(&rows) {
        let scores = session.score(&tokens[..len], &none, want).unwrap();
        assert_rows(
            &scores.logits.unwrap(),
            std::slice::from_ref(row),
            tolerance,
            name,
        );
    }
}

/// Logits of a tree, and the context and tree that they are of.
fn check_tree(
    name: &str,
    (model, golden): &(Arc<Model>, Golden),
    tolerance: f32,
) -> (Matrix, Vec<TokenId>, TokenTree) {
    let mut tree = TokenTree::new();
    let parents = golden.integers("tree_parents");
    for (token, parent) in golden.tokens("tree_tokens").into_iter().zip(parents) {
        tree.push(token, usize::try_from(parent).ok());
    }
    let context = golden.tokens("tree_context");
    let scores = golden
        .session(model)
        .score(&context, &tree, Want::LOGITS)
        .unwrap();
    let logits = scores.logits.unwrap();
    assert_rows(&logits, &golden.rows("tree_logits"), tolerance, name);
    (logits, context, tree)
}

/// A tree has the bits of each of its paths by itself, as plain decoding computes them.
fn check_bits(name: &str, loaded: &(Arc<Model>, Golden)) {
    let (logits, context, tree) = check_tree(name, loaded, TOLERANCE);
    let (model, golden) = loaded;
    for node in 0..tree.len() {
        let path = tree.path_tokens(Some(node));
        let mut session = golden.session(model);
        session
            .score(&context, &TokenTree::new(), Want::LOGITS)
            .unwrap();
        let whole: Vec<TokenId> = context.iter().copied().chain(path).collect();
        let plain = session
            .score(&whole, &TokenTree::new(), Want::LOGITS)
            .unwrap()
            .logits
            .unwrap();
        assert_eq!(plain.row(0), logits.row(node + 1), "{name}, node {node}");
    }
}

#[test]
fn every_configuration_gives_the_logits_of_transformers() {
    for (name, versions) in MODELS {
        let configs = configs(name);
        assert_eq!(configs.len(), versions, "{name}");
        for config in configs {
            let loaded = load_as(name, config);
            check(name, &loaded, TOLERANCE);
            check_bits(name, &loaded);
            let warns = ["dynamic", "longrope"]
                .iter()
                .any(|way| name.ends_with(way));
            assert_eq!(loaded.0.warnings().len(), usize::from(warns), "{name}");
        }
    }
}

/// The second engine, on the same device.
#[cfg(feature = "candle")]
#[test]
fn candle_gives_the_logits_of_transformers() {
    const CLOSE: f32 = 2e-5;
    let device = cascade_models::DeviceSpec::CandleCpu.open().unwrap();
    for (name, _) in MODELS {
        for config in configs(name) {
            let loaded = load_on(&device, name, config);
            check(name, &loaded, CLOSE);
            check_tree(name, &loaded, CLOSE);
        }
    }
}

#[test]
fn every_checkpoint_is_checked() {
    let folders = std::fs::read_dir(goldens().join("models")).unwrap();
    let mut names: Vec<String> = folders
        .map(|folder| folder.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut listed = MODELS.map(|(name, _)| name.to_owned());
    names.sort();
    listed.sort();
    assert_eq!(names, listed);
}

/// Frequencies that follow the length of the whole text would differ between a draft and plain
/// decoding.
#[test]
fn contexts_end_where_rotations_would_follow_the_length() {
    for name in ["tiny-llama-dynamic", "tiny-phi3-longrope"] {
        let (model, golden) = load_as(name, configs(name).remove(0));
        assert_eq!(model.info().max_context, Some(80));
        assert!(model.warnings()[0].contains("end at 80"), "{name}");
        let tokens: Vec<TokenId> = golden.tokens("tokens").repeat(2);
        let score = |count: usize| {
            let none = TokenTree::new();
            golden
                .session(&model)
                .score(&tokens[..count], &none, Want::LOGITS)
        };
        score(80).unwrap();
        let message = score(81).unwrap_err().to_string();
        assert!(
            message.contains("81") && message.contains("80"),
            "{message}"
        );
    }
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
    let rewritten = |name: &str, rewrite: fn(Value) -> Value| {
        let config = rewrite(configs(name).remove(0));
        check(name, &load_as(name, config), TOLERANCE);
    };
    rewritten("tiny-llama-gqa", nested_rotary_settings);
    rewritten("tiny-llama-linear-rope", nested_rotary_settings);
    // It calls embeddings tied although the checkpoint has a head, and says apart from it whether
    // hidden states are scaled.
    rewritten("tiny-t5-v1.1", |mut config| {
        config["tie_word_embeddings"] = json!(true);
        config["scale_decoder_outputs"] = json!(false);
        config
    });
    rewritten("tiny-t5-v1.0", |mut config| {
        config["scale_decoder_outputs"] = json!(true);
        config
    });
}
