//! `cascade-lab train classifier`, `head` and `drafter`, from a recording to a cascade that uses
//! them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{refused, run};
use crate::common::project;

fn config(folder: &Path, name: &str, classifier: &str) -> String {
    let path = folder.join(name);
    let text = format!(
        "target: {{ model: embedded:demo-t5-target }}\n\
         drafters:\n  - model: embedded:demo-t5-small\n    stop_rule: {{ classifier: {classifier} }}\n\
         k: {{ matrix: [[12]] }}\nprompt: problem\n"
    );
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn history(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("training.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_recording_becomes_a_classifier_that_ends_drafts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let demo = project("configs/demo-t5.yaml");
    let trace = at("trace.jsonl");
    run(&format!(
        "trace record --config {demo} --dataset problems --limit 12 --max-new-tokens 24 -o {trace}"
    ));
    let train = |out: &str, more: &str| {
        format!(
            "train classifier --trace {trace} -d embedded:demo-t5-small --cost 0.2 --epochs 5 --patience 5 \
             --units 4 --out {out} {more}"
        )
    };
    let (whole, part) = (at("whole"), at("part"));
    let text = run(&train(&whole, ""));
    for part in [
        "(replayed)",
        "oracle",
        "the best static length",
        "Held out",
        "F1",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    // A killed training leaves its last checkpoint; here it is that of the end, and nothing is done
    // again.
    run(&train(&part, ""));
    run(&train(&part, "--resume"));
    let weights = |out: &str| fs::read(Path::new(out).join("classifier.safetensors")).unwrap();
    assert_eq!(weights(&whole), weights(&part));
    assert_eq!(history(Path::new(&whole)).len(), 5);
    assert_eq!(history(Path::new(&whole)), history(Path::new(&part)));
    assert!(refused(&train(&part, "")).contains("--resume goes on"));
    assert!(refused(&train(&part, "--resume --seed 9")).contains("other examples or settings"));

    let file = format!("{whole}/classifier.safetensors");
    let steps = |classifier: &str| {
        let config = config(folder.path(), "cascade.yaml", classifier);
        let text = run(&format!(
            "run --config {config} --dataset problems --offset 20 --limit 1 --max-new-tokens 24 --compare --json"
        ));
        let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(record["equal_to_plain"], true, "{record}");
        record["per_step_drafted"].as_array().unwrap().clone()
    };
    let always = steps(&format!("{{ file: {file}, threshold: 1 }}"));
    let never = steps(&format!("{{ file: {file}, threshold: 0, longest: 12 }}"));
    assert!(
        always.iter().all(|drafted| drafted.as_u64() <= Some(1)),
        "{always:?}"
    );
    assert!(
        never.iter().any(|drafted| drafted.as_u64() == Some(12)),
        "{never:?}"
    );

    for (classifier, part) in [
        (
            format!("{{ file: {trace} }}"),
            "`cascade-lab train classifier` makes such files",
        ),
        (
            "{ file: ./nothing.safetensors }".to_owned(),
            "nothing.safetensors",
        ),
        (
            format!("{{ file: {file}, threshold: 2 }}"),
            "classifier.threshold",
        ),
        (format!("{{ file: {file}, longest: 0 }}"), "1 or more"),
        (format!("{{ file: {file}, colour: red }}"), "colour"),
    ] {
        let config = config(folder.path(), "bad.yaml", &classifier);
        let message = refused(&format!("run Hello --config {config}"));
        assert!(message.contains(part), "`{part}` is missing in {message}");
    }
    let other = refused(&format!(
        "train classifier --trace {trace} -d embedded:demo-llama-small --cost 0.2 --out {}",
        at("other")
    ));
    assert!(other.contains("is decoder-only"), "{other}");
    let other = refused(&format!(
        "train classifier --trace {trace} -d {} --cost 0.2 --out {}",
        project("tests/lookalikes/google/flan-t5-small"),
        at("other")
    ));
    assert!(other.contains("another tokenizer"), "{other}");
}

#[test]
fn a_recording_becomes_a_head_that_ends_drafts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let demo = project("configs/demo-t5.yaml");
    let trace = at("trace.jsonl");
    run(&format!(
        "trace record --config {demo} --dataset problems --limit 12 --max-new-tokens 24 -o {trace}"
    ));
    let train = |out: &str, more: &str| {
        format!("train head --trace {trace} -d embedded:demo-t5-small --cost 0.2 --depth 1 --out {out} {more}")
    };
    let (whole, part) = (at("whole"), at("part"));
    let text = run(&train(&whole, ""));
    for part in [
        "(replayed)",
        "oracle",
        "the best static length",
        "Held out",
        "calibration error",
    ] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    run(&train(&part, ""));
    run(&train(&part, "--resume"));
    for file in ["model.safetensors", "config.json", "training.jsonl"] {
        let read = |out: &str| fs::read(Path::new(out).join(file)).unwrap();
        assert_eq!(read(&whole), read(&part), "{file}");
    }
    assert_eq!(history(Path::new(&whole)).len(), 3);
    assert!(refused(&train(&part, "")).contains("--resume goes on"));
    assert!(
        refused(&train(&part, "--resume --reject-weight 3")).contains("other examples or settings")
    );
    // What is read is not replaced, whatever was written there before.
    let read = Path::new(&part).join("training.jsonl");
    fs::copy(&trace, &read).unwrap();
    let message = refused(&format!(
        "train head --trace {} -d embedded:demo-t5-small --cost 0.2 --out {part} --resume",
        read.display()
    ));
    assert!(message.contains("input"), "{message}");
    assert_eq!(fs::read(&read).unwrap(), fs::read(&trace).unwrap());
    // The target's probabilities are another lesson than its recorded tokens.
    let sampled = at("sampled");
    run(&train(
        &sampled,
        "--target embedded:demo-t5-target --limit 11",
    ));
    let weights = |out: &str| fs::read(Path::new(out).join("model.safetensors")).unwrap();
    assert_ne!(weights(&whole), weights(&sampled));

    let steps = |settings: &str| {
        let path = folder.path().join("cascade.yaml");
        let text = format!(
            "target: {{ model: embedded:demo-t5-target }}\n\
             drafters:\n  - model: embedded:demo-t5-small\n    stop_rule: {{ head: {{ folder: {whole}, {settings} }} }}\n\
             k: {{ matrix: [[12]] }}\nprompt: t5-gsm8k\n"
        );
        fs::write(&path, text).unwrap();
        let text = run(&format!(
            "run --config {} --dataset problems --offset 20 --limit 1 --max-new-tokens 24 --compare --json",
            path.display()
        ));
        let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(record["equal_to_plain"], true, "{record}");
        let steps = record["per_step_drafted"].as_array().unwrap().clone();
        steps
            .iter()
            .map(|step| step.as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    let always = steps("threshold: 0");
    assert!(always.iter().all(|&drafted| drafted <= 2), "{always:?}");
    let never = steps("threshold: 1, longest: 12");
    assert!(never.contains(&12), "{never:?}");
    let other = refused(&format!(
        "train head --trace {trace} -d embedded:demo-llama-small --cost 0.2 --out {}",
        at("other")
    ));
    assert!(other.contains("is decoder-only"), "{other}");
    let other = refused(&format!(
        "train head --trace {trace} -d {} --cost 0.2 --out {}",
        project("tests/lookalikes/google/flan-t5-small"),
        at("other")
    ));
    assert!(other.contains("another tokenizer"), "{other}");
}

#[test]
fn samples_with_probabilities_become_a_head_for_sampling() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let demo = project("configs/demo-t5.yaml");
    let record = |name: &str, more: &str| {
        let trace = at(name);
        run(&format!(
            "trace record --config {demo} --dataset problems --limit 11 --max-new-tokens 12 --temperature 1 --top-k 6 \
             -o {trace} {more}"
        ));
        trace
    };
    let train = |trace: &str, out: &str| {
        let out = at(out);
        format!("train head --trace {trace} -d embedded:demo-t5-small --cost 0.2 --depth 0 --epochs 1 --out {out}")
    };
    let whole = record("whole.jsonl", "--top-probabilities 6");
    let text = run(&train(&whole, "head"));
    for part in ["(simulated)", "min(1, p/q)"] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
    let part = record("part.jsonl", "--top-probabilities 1");
    let none = record("none.jsonl", "");
    for trace in [part, none] {
        let message = refused(&train(&trace, "other"));
        assert!(message.contains("--top-probabilities"), "{message}");
    }
    // A classifier learns of greedy recordings.
    let message = refused(&format!(
        "train classifier --trace {whole} -d embedded:demo-t5-small --cost 0.2 --out {}",
        at("classifier")
    ));
    assert!(message.contains("temperature 1"), "{message}");
}

/// A recording has no states: the head's target computes them, and each step is that of a run.
fn replays_are_runs(folder: &Path, trace: &str, head: &str) {
    let config = |target: &str| {
        let path = folder.join("head.yaml");
        let text = format!(
            "target: {{ model: {target} }}\n\
             drafters:\n  - head: {head}\n  - max_gram: {{ bigram: embedded:demo }}\n\
             k: {{ matrix: [[3, 4], [0, 3]] }}\nprompt: problem\ndevice: cpu\n\
             generation: {{ max_new_tokens: 24 }}\n"
        );
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let records = |text: &str| -> Vec<Value> {
        let lines = text.lines().filter(|line| line.contains("per_step"));
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let own = config("embedded:demo-llama-target");
    let run_of =
        |command: &str| records(&run(&format!("{command} --config {own} --limit 4 --json")));
    let live = run_of("run --dataset problems");
    let replayed = run_of(&format!("replay --trace {trace}"));
    assert_eq!((live.len(), replayed.len()), (4, 4));
    for (live, replayed) in live.iter().zip(&replayed) {
        for field in ["per_step_drafted", "per_step_accepted", "token_ids"] {
            assert_eq!(live[field], replayed[field], "{field} of {head}");
            assert!(!live[field].is_null(), "{live}");
        }
    }
    let other = config("embedded:demo-llama-small");
    let other = refused(&format!("replay --trace {trace} --config {other}"));
    assert!(other.contains("hidden_size"), "{other}");
}

/// Both kinds: from a recording to a drafter that changes nothing but the number of forwards.
#[test]
fn a_recording_becomes_a_head_that_drafts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let demo = project("configs/demo-llama.yaml");
    let (trace, states) = (at("trace.jsonl"), at("states"));
    run(&format!(
        "trace record --config {demo} --dataset problems --limit 12 --max-new-tokens 24 -o {trace}"
    ));
    let train = |out: &str, more: &str| {
        format!(
            "train drafter --trace {trace} --target embedded:demo-llama-target --states {states} --epochs 2 \
             --out {out} {more}"
        )
    };
    for (kind, file) in [
        ("eagle --inner 64", "model.safetensors"),
        ("medusa --heads 2", "medusa_lm_head.safetensors"),
    ] {
        let out = at(file);
        let kind = format!("--kind {kind}");
        let text = run(&train(&out, &kind));
        for part in ["(replayed)", "Tokens per forward", "Held out"] {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        let read = |file: &str| fs::read(Path::new(&out).join(file)).unwrap();
        let weights = read(file);
        // Nothing is left to do.
        run(&train(&out, &format!("{kind} --resume")));
        assert_eq!(weights, read(file));
        let found: Value = serde_json::from_slice(&read("drafter.json")).unwrap();
        assert_eq!(found["outputs"]["held_out"], 1, "{found}");
        assert_eq!(history(Path::new(&out)).len(), 2);
        assert!(refused(&train(&out, &kind)).contains("--resume goes on"));
        let text = run(&format!(
            "run -m embedded:demo-llama-target -d head:{out} --dataset problems --offset 20 --limit 1 \
             --max-new-tokens 24 --compare --json"
        ));
        let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(record["equal_to_plain"], true, "{record}");
        replays_are_runs(folder.path(), &trace, &out);
    }
    let t5 = refused(&format!(
        "train drafter --trace {trace} --target embedded:demo-t5-target --out {}",
        at("other")
    ));
    assert!(t5.contains("is encoder-decoder"), "{t5}");
}
