//! Folders laid out as on the hub: formats, names and files of their time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cascade_core::{Prompt, Scorer, TextCodec, TokenTree, Want};
use cascade_models::{LoadOptions, LoadedModel, ModelSource, WeightFormat, load};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

const VICUNA: &str = "lmsys/vicuna-7b-v1.3";
const FLAN: &str = "google/flan-t5-xxl";
const SMALL: &str = "google/flan-t5-small";

fn lookalikes() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"));
    Path::new(here).join("../../tests/lookalikes")
}

fn copy(name: &str) -> TempDir {
    let copy = TempDir::new().unwrap();
    for file in fs::read_dir(lookalikes().join(name)).unwrap() {
        let file = file.unwrap();
        let bytes = fs::read(file.path()).unwrap();
        fs::write(copy.path().join(file.file_name()), bytes).unwrap();
    }
    copy
}

fn open(path: &Path) -> cascade_models::Result<LoadedModel> {
    let options = LoadOptions {
        progress: false,
        ..LoadOptions::default()
    };
    load(&ModelSource::Folder(path.to_owned()), &options)
}

/// The message with which a copy is refused after `damage`.
fn refusal_after(name: &str, damage: impl FnOnce(&Path)) -> String {
    let copy = copy(name);
    damage(copy.path());
    open(copy.path())
        .expect_err("the folder is damaged")
        .to_string()
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
    }
}

/// What transformers answered to a prompt.
#[derive(Deserialize)]
struct Golden {
    prompt: String,
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
}

fn goldens() -> BTreeMap<String, Vec<Golden>> {
    let bytes = fs::read(lookalikes().join("greedy.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[track_caller]
fn assert_answers(model: &LoadedModel, goldens: &[Golden]) {
    for golden in goldens {
        let ids = model.tokenizer.encode(&golden.prompt).unwrap();
        assert_eq!(
            ids, golden.prompt_ids,
            "{}: {:?}",
            model.name, golden.prompt
        );
        let prompt = Prompt::new(model.info().architecture, ids);
        let mut session = model.session();
        session.set_source(&prompt.source).unwrap();
        let mut context = prompt.context.clone();
        for &expected in &golden.greedy_ids {
            let scores = session.score(&context, &TokenTree::new(), Want::ARGMAX);
            let next = scores.unwrap().argmax[0];
            assert_eq!(next, expected, "{}: {:?}", model.name, golden.prompt);
            context.push(next);
        }
    }
}

#[test]
fn answers_are_those_of_transformers() {
    let goldens = goldens();
    assert_eq!(goldens.len(), 5);
    for (name, goldens) in goldens {
        let model = open(&lookalikes().join(&name)).unwrap();
        assert_answers(&model, &goldens);
        let llama = name.contains("vicuna");
        let format = if llama {
            WeightFormat::PyTorch
        } else {
            WeightFormat::Safetensors
        };
        assert_eq!(model.files.weight_format, format, "{name}");
        assert_eq!(model.eos_token_ids, [if llama { 2 } else { 1 }]);
    }
}

/// The three names of T5's table are one storage in a pickle.
#[test]
fn t5_loads_from_a_pickle_too() {
    let copy = copy(SMALL);
    fs::remove_file(copy.path().join("model.safetensors")).unwrap();
    let model = open(copy.path()).unwrap();
    assert_eq!(model.files.weight_format, WeightFormat::PyTorch);
    assert_answers(&model, &goldens()[SMALL]);
    let whole = open(&lookalikes().join(SMALL)).unwrap();
    assert_eq!(model.num_parameters(), whole.num_parameters());
}

/// What lies beside safetensors is not looked at.
#[test]
fn stale_pickles_are_passed_over() {
    let copy = copy(FLAN);
    let index = fs::read(copy.path().join("pytorch_model.bin.index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    assert!(index["weight_map"].get("shared.weight").is_some());
    fs::write(
        copy.path().join("pytorch_model-00001-of-00002.bin"),
        "damaged",
    )
    .unwrap();
    assert_answers(&open(copy.path()).unwrap(), &goldens()[FLAN]);
}

#[test]
fn a_tokenizer_without_its_json_gives_the_same_ids() {
    let copy = copy(FLAN);
    let with = open(copy.path()).unwrap().tokenizer;
    fs::remove_file(copy.path().join("tokenizer.json")).unwrap();
    let model = open(copy.path()).unwrap();
    assert!(model.tokenizer.file().ends_with("spiece.model"));
    assert_eq!(model.tokenizer.fingerprint(), with.fingerprint());
    assert_answers(&model, &goldens()[FLAN]);
}

#[test]
fn shards_that_do_not_fit_their_index_are_refused_by_name() {
    let index = "pytorch_model.bin.index.json";
    let [first, second] = [1, 2].map(|n| format!("pytorch_model-0000{n}-of-00002.bin"));
    let message = refusal_after(VICUNA, |path| fs::remove_file(path.join(&second)).unwrap());
    assert_says(&message, &[index, &second, "copy or download"]);

    // Half a shard.
    let message = refusal_after(VICUNA, |path| {
        let whole = fs::read(path.join(&second)).unwrap();
        fs::write(path.join(&second), &whole[..whole.len() / 2]).unwrap();
    });
    assert_says(&message, &[&second, "cut off", "copy or download it again"]);

    // A shard without its tensor, although another has it.
    let message = refusal_after(VICUNA, |path| {
        let text = fs::read_to_string(path.join(index)).unwrap();
        let mut json: Value = serde_json::from_str(&text).unwrap();
        json["weight_map"]["lm_head.weight"] = json!(first);
        fs::write(path.join(index), json.to_string()).unwrap();
    });
    assert_says(&message, &[&first, "no tensor lm_head.weight", "index"]);

    let message = refusal_after(VICUNA, |path| {
        let json = json!({"weight_map": {"lm_head.weight": "../../x.bin"}});
        fs::write(path.join(index), json.to_string()).unwrap();
    });
    assert_says(&message, &[index, "../../x.bin", "not a file name"]);
}

#[test]
fn pointers_in_place_of_files_are_refused_by_name() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    for (name, file) in [
        (VICUNA, "config.json"),
        (VICUNA, "generation_config.json"),
        (VICUNA, "tokenizer.model"),
        (VICUNA, "tokenizer_config.json"),
        (VICUNA, "pytorch_model.bin.index.json"),
        (VICUNA, "pytorch_model-00002-of-00002.bin"),
        (FLAN, "tokenizer.json"),
        (FLAN, "model-00001-of-00002.safetensors"),
    ] {
        let message = refusal_after(name, |path| fs::write(path.join(file), pointer).unwrap());
        assert_says(&message, &[file, "git lfs pull"]);
    }
}

/// Tables that were computed in 2023 and are computed anew today are not weights.
#[test]
fn tensors_that_nobody_asks_for_are_harmless_or_named() {
    let model = open(&lookalikes().join(VICUNA)).unwrap();
    let config = fs::read(lookalikes().join(VICUNA).join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(model.model.info().vocab_size, config["vocab_size"]);
    let message = refusal_after(VICUNA, |path| {
        let mut config = config.clone();
        config["num_hidden_layers"] = json!(1);
        fs::write(path.join("config.json"), config.to_string()).unwrap();
    });
    assert_says(&message, &["9 tensors", "model.layers.1."]);
}
