//! Models in GGUF files, from a configuration to the text.

use std::path::Path;

use serde_json::Value;

use crate::common::{cascade, error, project, stdout};
use crate::line::words;

/// A configuration of tiny models, which say nothing that makes sense.
fn write_config(folder: &Path, target: &str) -> String {
    let model = |name: &str| project(&format!("tests/goldens/gguf/{name}.gguf"));
    let yaml = format!(
        "target: {{ model: {} }}\ndrafters:\n  - model: {}\n  - max_gram: {{}}\n\
         k: {{ matrix: [[2, 3], [0, 3]] }}\n",
        model(target),
        model("mistral-f16")
    );
    let path = folder.join("gguf.yaml");
    std::fs::write(&path, yaml).unwrap();
    path.display().to_string()
}

fn record(config: &str, more: &[&str]) -> Value {
    let prompt = ["run", "--config", config, "--prompt", "The quick brown fox"];
    let length = ["--max-new-tokens", "16", "--json"];
    let output = cascade(&[&prompt[..], &length, more].concat());
    serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap()
}

#[test]
fn a_cascade_of_gguf_files_says_what_its_target_says() {
    let folder = tempfile::tempdir().unwrap();
    let config = write_config(folder.path(), "llama-f32");
    let (with, without) = (record(&config, &[]), record(&config, &["--no-speculation"]));
    assert_eq!(with["token_ids"], without["token_ids"]);
    assert_eq!(with["token_ids"].as_array().unwrap().len(), 16);
    assert!(with["num_draft_tokens"].as_u64().unwrap() > 0);
    let checked = stdout(&cascade(&["config", "check", "--load", &config]));
    assert!(checked.contains("llama-f32.gguf"), "{checked}");
}

#[test]
fn a_gguf_file_brings_its_chat_template() {
    let model = project("tests/goldens/gguf/qwen2-q4_0.gguf");
    let length = ["--max-new-tokens", "4", "--json"];
    let run = words("run -m {} --chat --system {} Hi", &[&model, "Be brief. "]);
    let output = stdout(&cascade(&[&run[..], &length].concat()));
    let record: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    // The template of the golden joins the messages.
    assert_eq!(record["prompt"], "Be brief. Hi");
    let without = project("tests/goldens/gguf/llama-f32.gguf");
    let message = error(&cascade(&["run", "-m", &without, "--chat", "Hi"]));
    assert!(message.contains("comes with no chat template"), "{message}");
}

#[test]
fn gguf_files_that_are_missing_or_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = write_config(folder.path(), "nowhere");
    let run = ["run", "--config", &config, "--prompt", "x"];
    let message = error(&cascade(&run));
    assert!(message.contains("there is no file"), "{message}");
    assert!(
        message.contains("nowhere.gguf; check the path"),
        "{message}"
    );
    // Another vocabulary.
    let config = write_config(folder.path(), "qwen2-q4_0");
    let message = error(&cascade(&["run", "--config", &config, "--prompt", "x"]));
    assert!(message.contains("mistral-f16.gguf"), "{message}");
}

#[test]
fn a_quantized_file_says_what_the_original_says_in_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let original = project("tests/goldens/gguf/llama3-q8_0.gguf");
    let file = folder.path().join("small.gguf").display().to_string();
    let quantize = ["quantize", &original, "--dtype", "q4_0", "--out", &file];
    let said = stdout(&cascade(&quantize));
    assert!(
        said.contains("small.gguf") && said.contains("16 matrices in q4_0"),
        "{said}"
    );
    let says = |model: &str, dtype: &str| {
        let run = ["run", "-m", model, "--dtype", dtype, "--json", "The quick"];
        let output = stdout(&cascade(&[&run[..], &["--max-new-tokens", "8"]].concat()));
        let record: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
        record["token_ids"].clone()
    };
    assert_eq!(says(&file, "stored"), says(&original, "q4_0"));
}

#[test]
fn a_folder_becomes_a_file_that_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["demo-llama-small", "demo-t5-small"] {
        let file = folder.path().join(format!("{model}.gguf"));
        let file = file.to_str().unwrap();
        let original = format!("embedded:{model}");
        let quantize = ["quantize", &original, "--dtype", "q8_0", "--out", file];
        let said = stdout(&cascade(&quantize));
        assert!(said.contains("matrices in q8_0"), "{said}");
        let says = |model: &str, dtype: &str| {
            let run = [
                "run",
                "-m",
                model,
                "--dtype",
                dtype,
                "--raw",
                "--json",
                "Ann has 3",
            ];
            let output = stdout(&cascade(&[&run[..], &["--max-new-tokens", "12"]].concat()));
            let record: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
            record["token_ids"].clone()
        };
        assert_eq!(says(file, "stored"), says(&original, "q8_0"));
    }
}

/// As transformers saves a model that it read from a GGUF file: epsilon is 1e-5 in f32.
#[test]
fn numbers_of_a_gguf_file_go_back_into_one() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    std::fs::create_dir(&model).unwrap();
    for entry in std::fs::read_dir(project("crates/cascade-demo/models/demo-llama-small")).unwrap()
    {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), model.join(entry.file_name())).unwrap();
    }
    let config = std::fs::read_to_string(model.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["rms_norm_eps"] = f64::from(1e-5_f32).into();
    config["_model_name_or_path"] = "model.gguf".into();
    std::fs::write(model.join("config.json"), config.to_string()).unwrap();
    let file = folder.path().join("small.gguf").display().to_string();
    let model = model.display().to_string();
    let quantize = cascade(&["quantize", &model, "--dtype", "q8_0", "--out", &file]);
    assert!(stdout(&quantize).contains("matrices in q8_0"));
    let said = String::from_utf8_lossy(&quantize.stderr).into_owned();
    assert!(!said.contains("_model_name_or_path"), "{said}");
    let four = error(&cascade(&[
        "quantize", &model, "--dtype", "q4_k_m", "--out", &file,
    ]));
    assert!(four.contains("4 bits here are q4_0"), "{four}");
}

#[test]
fn what_cannot_be_written_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.gguf");
    let words = r#"{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}"#;
    // What the format has no words for, and a weight that is NaN.
    for (model, last, said) in [
        ("tiny-smollm3", None, "positions that some do not have"),
        (
            "tiny-llama-mha",
            Some(f32::NAN),
            "model.safetensors: tensor model.norm.weight has NaN",
        ),
    ] {
        let original = project(&format!("tests/goldens/models/{model}"));
        let place = folder.path().join(model);
        std::fs::create_dir(&place).unwrap();
        std::fs::copy(format!("{original}/config.json"), place.join("config.json")).unwrap();
        let mut weights = std::fs::read(format!("{original}/model.safetensors")).unwrap();
        let end = weights.len() - 4;
        if let Some(last) = last {
            weights[end..].copy_from_slice(&last.to_le_bytes());
        }
        std::fs::write(place.join("model.safetensors"), weights).unwrap();
        std::fs::write(place.join("tokenizer.json"), words).unwrap();
        let quantize = ["quantize", place.to_str().unwrap(), "--dtype", "q8_0"];
        let out = ["--out", file.to_str().unwrap()];
        let output = cascade(&[&quantize[..], &out].concat());
        assert_eq!(output.status.code(), Some(2));
        // Warnings come before the work.
        let message = String::from_utf8(output.stderr).unwrap();
        let error = message.lines().last().unwrap();
        assert!(
            error.starts_with("error: ") && error.contains(said),
            "{message}"
        );
        assert!(!file.exists());
    }
}
