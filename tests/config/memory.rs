//! Models that do not fit into memory are refused before anything is loaded.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use cascade_config::{AssembleOptions, Config, DeviceSpec, Notices, Overcommit};
use cascade_models::{Device, HubOptions};
use serde_json::json;

use crate::bad_configs::assert_says;

/// Parameters of a layer of the models below, which are all layers.
const PER_LAYER: usize = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * HIDDEN + 2 * HIDDEN;
const HIDDEN: usize = 1024;

/// A model whose weights in f32 take `bytes`. Only its configuration says so: an attempt to load it
/// fails on its empty weights.
fn model(folder: &Path, bytes: usize) {
    write_model(folder, HIDDEN, bytes.div_ceil(4 * PER_LAYER));
}

/// A model that no machine has the memory for, in any type.
fn too_large(folder: &Path) {
    write_model(folder, 1 << 16, 10_000);
}

fn write_model(folder: &Path, hidden: usize, layers: usize) {
    let config = json!({
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "vocab_size": 16,
        "max_position_embeddings": 32,
        "rms_norm_eps": 1e-6,
    });
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    for file in ["tokenizer.json", "model.safetensors"] {
        fs::write(folder.join(file), "").unwrap();
    }
}

/// The message with which a target and a drafter are refused, and what was said before.
fn messages(folder: &Path, dtype: &str, overcommit: Overcommit) -> (String, Vec<String>) {
    let text = "{ target: { model: ./target, dtype: DTYPE }, drafters: [{ model: ./drafter }], \
                k: { matrix: [[2]] }, device: cpu }";
    let config = Config::parse(&text.replace("DTYPE", dtype), "large.yaml", folder).unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let notices = {
        let said = Arc::clone(&said);
        Notices::new(move |notice| said.lock().unwrap().push(notice.to_owned()))
    };
    let options = AssembleOptions::default()
        .with_hub(HubOptions::new("http://127.0.0.1:9", folder))
        .with_notices(notices)
        .with_overcommit(overcommit);
    let error = match config.assemble(&options) {
        Ok(_) => panic!("there are no weights"),
        Err(error) => error.to_string(),
    };
    let said = said.lock().unwrap().clone();
    (error, said)
}

fn message(folder: &Path, dtype: &str) -> String {
    messages(folder, dtype, Overcommit::Refuse).0
}

#[test]
fn two_models_that_fit_alone_but_not_together() {
    let free = DeviceSpec::Cpu
        .open()
        .unwrap_or(Device::Cpu)
        .free_memory()
        .unwrap()
        .bytes;
    let folder = tempfile::tempdir().unwrap();
    model(&folder.path().join("target"), free / 10 * 9);
    model(&folder.path().join("drafter"), 1 << 20);
    // Together they fit; what fails is loading.
    let loading = message(folder.path(), "f32");
    assert!(loading.contains("not a tokenizer"), "{loading}");
    model(&folder.path().join("drafter"), free / 2);
    let refused = message(folder.path(), "f32");
    assert_says(
        &refused,
        "large.yaml: target, drafter take about … (weights … on cpu … can be had ( … \
         `dtype: bf16` … --allow-memory-overcommit",
    );
}

#[test]
fn only_smaller_types_are_advised() {
    let folder = tempfile::tempdir().unwrap();
    too_large(&folder.path().join("target"));
    model(&folder.path().join("drafter"), 1 << 20);
    for (dtype, smaller) in [
        ("f32", "bf16"),
        ("bf16", "q8_0"),
        ("f16", "q8_0"),
        ("q8_0", "q4_0"),
    ] {
        let refused = message(folder.path(), dtype);
        let advised = format!("take smaller models, `dtype: {smaller}`, a shorter");
        assert!(refused.contains(&advised), "{dtype}: {refused}");
    }
    let refused = message(folder.path(), "q4_0");
    assert!(
        refused.contains("take smaller models, a shorter"),
        "{refused}"
    );
}

#[test]
fn what_does_not_fit_is_loaded_on_request_after_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    too_large(&folder.path().join("target"));
    model(&folder.path().join("drafter"), 1 << 20);
    let (loading, said) = messages(folder.path(), "bf16", Overcommit::Warn);
    assert!(loading.contains("not a tokenizer"), "{loading}");
    let [warning] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(
        warning.starts_with("target, drafter take about"),
        "{warning}"
    );
    assert!(warning.contains("can be had ("), "{warning}");
    let (loading, said) = messages(folder.path(), "bf16", Overcommit::Allow);
    assert!(
        loading.contains("not a tokenizer") && said.is_empty(),
        "{loading} {said:?}"
    );
}

/// Half or twice as many, because others take memory and give it back meanwhile.
#[test]
fn sessions_that_fit_are_those_of_which_nothing_is_said() {
    cascade_demo::register();
    let config = Config::open("embedded:demo-llama").unwrap();
    let pool = config.pool(&AssembleOptions::default().with_device(Some(DeviceSpec::Cpu)));
    pool.assemble(&config).unwrap();
    let tokens = 1 << 16;
    let Some(fit) = pool.sessions_that_fit(&config, tokens).unwrap() else {
        return;
    };
    let said = |sessions| pool.check_caches(&config, sessions, tokens).unwrap();
    assert_eq!(said(fit / 2), None);
    assert!(said(2 * fit + 1).is_some());
}
