//! Models that do not fit into memory are refused before anything is loaded.

use std::fs;
use std::path::Path;

use cascade_config::{AssembleOptions, Config, DeviceSpec};
use cascade_models::{Device, HubOptions};
use serde_json::json;

/// Parameters of a layer of the models below, which are all layers.
const PER_LAYER: usize = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * HIDDEN + 2 * HIDDEN;
const HIDDEN: usize = 1024;

/// A model whose weights in f32 take `bytes`. Only its configuration says so: an attempt to load it
/// fails on its empty weights.
fn model(folder: &Path, bytes: usize) {
    let config = json!({
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": bytes.div_ceil(4 * PER_LAYER),
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

fn message(folder: &Path) -> String {
    let text = "{ target: { model: ./target }, drafters: [{ model: ./drafter }], \
                k: { matrix: [[2]] }, device: cpu }";
    let config = Config::parse(text, "large.yaml", folder).unwrap();
    let options =
        AssembleOptions::default().with_hub(HubOptions::new("http://127.0.0.1:9", folder));
    match config.assemble(&options) {
        Ok(_) => panic!("there are no weights"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn two_models_that_fit_alone_but_not_together() {
    let free = DeviceSpec::Cpu.open().unwrap_or(Device::Cpu).free_memory();
    let free = free.unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    model(&folder.path().join("target"), free / 10 * 9);
    model(&folder.path().join("drafter"), 1 << 20);
    // Together they fit; what fails is loading.
    let loading = message(folder.path());
    assert!(loading.contains("not a tokenizer"), "{loading}");
    model(&folder.path().join("drafter"), free / 2);
    let refused = message(folder.path());
    for part in [
        "large.yaml: target, drafter take about",
        "(weights",
        "on cpu",
        "bf16",
    ] {
        assert!(refused.contains(part), "`{part}` is missing in: {refused}");
    }
}
