//! The `cascade` command as people use it.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn cascade(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cascade"))
        .args(args)
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .env("HF_HOME", "/nonexistent/hf")
        .env_remove("HF_HUB_OFFLINE")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error of a command that must fail with a message, and not by panicking.
fn error(output: &Output) -> String {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.starts_with("error: ") && !message.contains("panicked"),
        "{message}"
    );
    message
}

fn records(output: &Output) -> Vec<Value> {
    stdout(output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn config(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../configs")
        .join(name)
        .display()
        .to_string()
}

fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path)
        .unwrap()
        .write_all(content)
        .unwrap();
    (folder, path)
}

#[test]
fn runs_the_embedded_demo_without_a_word() {
    let text = stdout(&cascade(&["run", "--max-new-tokens", "12"]));
    assert!(
        text.starts_with("first proposed by: demo-t5-target demo-t5-base demo-t5-small max-gram"),
        "{text}"
    );
    assert!(text.contains("[3/3]") && !text.contains('\u{1b}'), "{text}");
    let last = text.lines().last().unwrap();
    for part in [
        "total: 36 tokens in",
        "tokens/s",
        "mean acceptance length",
        "drafted tokens accepted",
        "calls: demo-t5-target ",
    ] {
        assert!(last.contains(part), "{last}");
    }
}

#[test]
fn colours_on_demand() {
    let text = stdout(&cascade(&[
        "run",
        "--limit",
        "1",
        "--max-new-tokens",
        "12",
        "--color",
        "always",
    ]));
    assert!(text.contains('\u{1b}'));
}

#[test]
fn json_tells_everything_and_the_comparison_holds() {
    for family in ["demo-t5.yaml", "demo-llama.yaml"] {
        let output = cascade(&[
            "run",
            "--config",
            &config(family),
            "--dataset",
            "gsm8k",
            "--offset",
            "5",
            "--limit",
            "2",
            "--max-new-tokens",
            "20",
            "--compare",
            "--json",
        ]);
        let records = records(&output);
        assert_eq!(records.len(), 2);
        for record in &records {
            let count = |key: &str| {
                record[key]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{key} in {record}"))
            };
            let tokens = record["token_ids"].as_array().unwrap().len() as u64;
            assert_eq!(count("num_tokens"), tokens);
            assert_eq!(
                record["token_origins"].as_array().unwrap().len() as u64,
                tokens
            );
            assert!(record["prompt"].as_str().unwrap().contains("question"));
            assert!(!record["text"].as_str().unwrap().is_empty());
            assert!(count("num_accepted_draft_tokens") <= count("num_draft_tokens"));
            let histogram: u64 = record["acceptance_histogram"]
                .as_array()
                .unwrap()
                .iter()
                .map(|n| n.as_u64().unwrap())
                .sum();
            assert_eq!(histogram, count("num_spec_steps"));
            assert_eq!(record["models"][0]["role"], "target");
            assert_eq!(record["models"][0]["calls"], record["num_spec_steps"]);
            assert_eq!(record["models"].as_array().unwrap().len(), 4);
            for key in [
                "wall_seconds",
                "tokens_per_second",
                "mean_acceptance_length",
                "speedup",
            ] {
                assert!(record[key].as_f64().unwrap() > 0.0, "{key}");
            }
            assert_eq!(record["equal_to_plain"], true);
        }
    }
}

#[test]
fn plain_decoding_asks_the_target_only() {
    let record = &records(&cascade(&[
        "run",
        "--limit",
        "1",
        "--max-new-tokens",
        "9",
        "--no-speculation",
        "--json",
    ]))[0];
    assert_eq!(record["mean_acceptance_length"], 1.0);
    assert_eq!(record["num_draft_tokens"], 0);
    assert_eq!(record["models"][0]["calls"], 9);
    assert_eq!(record["models"][1]["calls"], 0);
}

#[test]
fn prompts_from_a_file_carry_their_fields_through() {
    let lines = b"{\"prompt\": \"Tom has 3 apples.\", \"id\": 17, \"text\": \"mine\"}\n\n{\"prompt\": \"2 + 2\"}\n";
    let (_folder, path) = file("prompts.jsonl", lines);
    let output = cascade(&[
        "run",
        "--prompts",
        path.to_str().unwrap(),
        "--max-new-tokens",
        "4",
        "--json",
    ]);
    let records = records(&output);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0]["id"], 17);
    assert_eq!(records[0]["prompt"], "Tom has 3 apples.");
    assert_ne!(records[0]["text"], "mine");
    assert_eq!(records[0]["num_tokens"], 4);
}

#[test]
fn bad_prompts_are_refused_before_anything_is_generated() {
    let (_folder, path) = file("bad.jsonl", b"{\"prompt\": \"fine\"}\n{\"prompt\": 3}\n");
    let output = cascade(&["run", "--prompts", path.to_str().unwrap(), "--json"]);
    assert!(error(&output).contains("bad.jsonl:2"), "{}", error(&output));
    assert!(output.stdout.is_empty());
    assert!(error(&cascade(&["run", "--prompt", "  "])).contains("prompt is empty"));
    assert!(error(&cascade(&["run", "--prompts", "/nowhere.jsonl"])).contains("/nowhere.jsonl"));
    assert!(error(&cascade(&["run", "--offset", "5000"])).contains("1319"));
    let long = "word ".repeat(3000);
    let too_long = error(&cascade(&[
        "run",
        "--config",
        &config("demo-llama.yaml"),
        "--prompt",
        &long,
    ]));
    assert!(
        too_long.contains("1024 positions") && too_long.contains("shorten"),
        "{too_long}"
    );
}

#[test]
fn bad_configurations_and_models_name_file_and_cure() {
    let (_folder, path) = file(
        "bad.yaml",
        b"target: { model: embedded:demo-t5-target }\nlenienze: 3\n",
    );
    let unknown = error(&cascade(&["run", "--config", path.to_str().unwrap()]));
    assert!(
        unknown.contains("bad.yaml") && unknown.contains("lenienze"),
        "{unknown}"
    );
    assert!(error(&cascade(&["config", "check", "/nowhere.yaml"])).contains("/nowhere.yaml"));
    let hub = error(&cascade(&[
        "run",
        "--config",
        &config("t5-xxl.yaml"),
        "--device",
        "cpu",
    ]));
    assert!(
        hub.contains("google/flan-t5-xxl") && hub.contains("127.0.0.1:9"),
        "{hub}"
    );
}

#[test]
fn config_check_shows_the_cascade() {
    let text = stdout(&cascade(&["config", "check", &config("t5-xxl.yaml")]));
    for part in [
        "target     flan-t5-xxl (google/flan-t5-xxl, bf16)",
        "drafter    max-gram (statistical)",
        "flan-t5-xxl reviews 8 from flan-t5-base, then 5 from flan-t5-small, then 10 from max-gram",
        "flan-t5-small reviews 10 from max-gram",
        "lenience   3 for neural, 1 for statistical",
        "ok",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    let loaded = stdout(&cascade(&[
        "config",
        "check",
        "--load",
        &config("demo-llama.yaml"),
    ]));
    assert!(
        loaded.contains("loaded     demo-llama-target") && loaded.contains("M parameters"),
        "{loaded}"
    );
}

#[test]
fn doctor_and_completions() {
    let doctor = stdout(&cascade(&["doctor"]));
    for part in [
        "candle 0.11.1",
        "threads",
        "/nonexistent/hf/hub (does not exist yet)",
        "demo-t5-target",
        "http://127.0.0.1:9",
    ] {
        assert!(doctor.contains(part), "`{part}` is missing in\n{doctor}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(stdout(&cascade(&["completions", shell])).contains("cascade"));
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cascade"))
        .args(["run", "--limit", "1", "--max-new-tokens", "64"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
