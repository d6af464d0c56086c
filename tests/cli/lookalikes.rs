//! The shipped configurations, on look-alikes of their models in the hub's cache.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{command, error, project, stdout};

/// The configurations, with the names of their targets and of their bigram tables, which are for
/// the real vocabularies.
const CONFIGS: [(&str, &str, &str); 3] = [
    ("vicuna-7b", "lmsys/vicuna-7b-v1.3", "embedded:llama"),
    ("vicuna-7b-tree", "lmsys/vicuna-7b-v1.3", "embedded:llama"),
    ("t5-xxl", "google/flan-t5-xxl", "embedded:t5"),
];

fn cascade(cache: &Path, args: &[&str]) -> Output {
    command(args)
        .env("HF_HUB_CACHE", cache)
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap()
}

/// The look-alikes as the hub's cache holds them.
fn cache() -> TempDir {
    let cache = TempDir::new().unwrap();
    let made = Command::new("sh")
        .arg(project("tests/lookalikes/cache.sh"))
        .arg(cache.path())
        .status();
    assert!(made.unwrap().success());
    cache
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A configuration that is the shipped one but for the bigram table, which is made from our own
/// documentation with the target's tokenizer.
fn config(name: &str, target: &str, table: &str, cache: &Path, folder: &Path) -> String {
    let own = folder.join(format!("{name}.safetensors"));
    let corpus = project("README.md");
    let build = [
        "bigram",
        "build",
        &corpus,
        "--tokenizer",
        target,
        "--out",
        text(&own),
    ];
    stdout(&cascade(cache, &build));
    let shipped = fs::read_to_string(project(&format!("configs/{name}.yaml"))).unwrap();
    assert!(shipped.contains(table), "{name}");
    let config = folder.join(format!("{name}.yaml"));
    fs::write(&config, shipped.replace(table, text(&own))).unwrap();
    text(&config).to_owned()
}

/// The record of one prompt.
fn answer(cache: &Path, config: &str, prompt: &str) -> Value {
    let args = ["run", "--config", config, "--device", "cpu", "--json"];
    let run = cascade(
        cache,
        &[&args[..], &["--max-new-tokens", "32", "--prompt", prompt]].concat(),
    );
    serde_json::from_str(&stdout(&run)).unwrap()
}

#[test]
fn shipped_configurations_answer_as_transformers_does() {
    let cache = cache();
    let folder = TempDir::new().unwrap();
    let goldens = fs::read(project("tests/lookalikes/greedy.json")).unwrap();
    let goldens: Value = serde_json::from_slice(&goldens).unwrap();
    for (name, target, table) in CONFIGS {
        let config = config(name, target, table, cache.path(), folder.path());
        // In bf16, as shipped.
        let record = answer(cache.path(), &config, "How much is 1 apple?");
        assert_ne!(record["token_ids"].as_array().unwrap().len(), 0, "{name}");
        // In f32, as transformers computed.
        let shipped = fs::read_to_string(&config).unwrap();
        fs::write(&config, shipped.replace("dtype: bf16", "dtype: f32")).unwrap();
        for golden in goldens[target].as_array().unwrap() {
            let record = answer(cache.path(), &config, golden["prompt"].as_str().unwrap());
            assert_eq!(record["token_ids"], golden["greedy_ids"], "{name}");
            assert!(record["num_draft_tokens"].as_u64().unwrap() > 0, "{name}");
        }
    }
}

/// As they are, the tables do not fit: they are for the real vocabularies.
#[test]
fn tables_of_other_vocabularies_are_refused() {
    let cache = cache();
    let config = project("configs/vicuna-7b.yaml");
    let run = cascade(
        cache.path(),
        &[
            "run", "--config", &config, "--device", "cpu", "--prompt", "x",
        ],
    );
    let message = error(&run);
    assert!(message.contains("embedded:llama"), "{message}");
}
