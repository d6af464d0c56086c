//! `cascade-lab train classifier`, `head` and `drafter`, from a recording to a cascade that uses
//! them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{refused, run};
use crate::common::project;

fn config(folder: &Path, name: &str, rule: &str) -> String {
    let path = folder.join(name);
    let text = format!(
        "target: {{ model: embedded:demo-t5-target }}\n\
         drafters:\n  - model: embedded:demo-t5-small\n    stop_rule: {{ {rule} }}\n\
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

/// A recording, and what was trained of it: to the end, and again by a training that had nothing
/// left to do.
struct Trained {
    folder: tempfile::TempDir,
    trace: String,
    /// The command, but for the folder that is written.
    train: String,
    whole: String,
    part: String,
}

impl Trained {
    /// Trains by `train KIND` with `settings`, which prints `says` and writes `files`.
    fn new(kind: &str, settings: &str, says: &[&str], files: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let demo = project("configs/demo-t5.yaml");
        let trace = at("trace.jsonl");
        run(&format!(
            "trace record --config {demo} --dataset problems --limit 12 --max-new-tokens 24 -o {trace}"
        ));
        let drafter = "-d embedded:demo-t5-small --cost 0.2";
        let train = format!("train {kind} --trace {trace} {drafter} {settings} --out");
        let (whole, part) = (at("whole"), at("part"));
        let text = run(&format!("{train} {whole}"));
        for part in says {
            assert!(text.contains(part), "`{part}` is missing in\n{text}");
        }
        // A killed training leaves its last checkpoint; here it is that of the end, and nothing is
        // done again.
        run(&format!("{train} {part}"));
        run(&format!("{train} {part} --resume"));
        for file in files {
            let read = |out: &str| fs::read(Path::new(out).join(file)).unwrap();
            assert_eq!(read(&whole), read(&part), "{file}");
        }
        let again = refused(&format!("{train} {part}"));
        assert!(again.contains("--resume goes on"), "{again}");
        Self {
            folder,
            trace,
            train,
            whole,
            part,
        }
    }

    /// Neither other settings nor another family.
    fn refuses_others(&self, kind: &str, setting: &str) {
        let message = refused(&format!("{} {} --resume {setting}", self.train, self.part));
        assert!(message.contains("other examples or settings"), "{message}");
        let other = self.folder.path().join("other");
        for (drafter, part) in [
            ("embedded:demo-llama-small", "is decoder-only"),
            (
                &*project("tests/lookalikes/google/flan-t5-small"),
                "another tokenizer",
            ),
        ] {
            let message = refused(&format!(
                "train {kind} --trace {} -d {drafter} --cost 0.2 --out {}",
                self.trace,
                other.display()
            ));
            assert!(message.contains(part), "{message}");
        }
    }

    /// Tokens that are drafted in each step where a stop rule ends drafts, which change no output.
    fn steps(&self, rule: &str) -> Vec<u64> {
        let config = config(self.folder.path(), "cascade.yaml", rule);
        let text = run(&format!(
            "run --config {config} --dataset problems --offset 20 --limit 1 --max-new-tokens 24 --compare --json"
        ));
        let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(record["equal_to_plain"], true, "{record}");
        let steps = record["per_step_drafted"].as_array().unwrap().iter();
        steps.map(|step| step.as_u64().unwrap()).collect()
    }
}

#[test]
fn a_recording_becomes_a_classifier_that_ends_drafts() {
    let says = [
        "replayed",
        "oracle",
        "the best static length",
        "Held out",
        "F1",
    ];
    let files = ["classifier.safetensors", "training.jsonl"];
    let settings = "--epochs 5 --patience 5 --units 4";
    let trained = Trained::new("classifier", settings, &says, &files);
    assert_eq!(history(Path::new(&trained.whole)).len(), 5);
    trained.refuses_others("classifier", "--seed 9");

    let file = format!("{}/classifier.safetensors", trained.whole);
    let steps = |more: &str| trained.steps(&format!("classifier: {{ file: {file}, {more} }}"));
    let always = steps("threshold: 1");
    assert!(always.iter().all(|&drafted| drafted <= 1), "{always:?}");
    let never = steps("threshold: 0, longest: 12");
    assert!(never.contains(&12), "{never:?}");

    for (classifier, part) in [
        (
            format!("{{ file: {} }}", trained.trace),
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
        let rule = format!("classifier: {classifier}");
        let config = config(trained.folder.path(), "bad.yaml", &rule);
        let message = refused(&format!("run Hello --config {config}"));
        assert!(message.contains(part), "`{part}` is missing in {message}");
    }
}

#[test]
fn a_recording_becomes_a_head_that_ends_drafts() {
    let says = [
        "replayed",
        "oracle",
        "the best static length",
        "Held out",
        "calibration error",
    ];
    let files = ["model.safetensors", "config.json", "training.jsonl"];
    let trained = Trained::new("head", "--depth 1", &says, &files);
    let Trained {
        trace,
        train,
        part,
        whole,
        ..
    } = &trained;
    assert_eq!(history(Path::new(whole)).len(), 3);
    trained.refuses_others("head", "--reject-weight 3");
    // What is read is not replaced, whatever was written there before.
    let read = Path::new(part).join("training.jsonl");
    fs::copy(trace, &read).unwrap();
    let message = refused(&format!(
        "train head --trace {} -d embedded:demo-t5-small --cost 0.2 --out {part} --resume",
        read.display()
    ));
    assert!(message.contains("input"), "{message}");
    assert_eq!(fs::read(&read).unwrap(), fs::read(trace).unwrap());
    // The target's probabilities are another lesson than its recorded tokens.
    let sampled = trained.folder.path().join("sampled").display().to_string();
    run(&format!(
        "{train} {sampled} --target embedded:demo-t5-target --limit 11"
    ));
    let weights = |out: &str| fs::read(Path::new(out).join("model.safetensors")).unwrap();
    assert_ne!(weights(whole), weights(&sampled));

    let steps = |more: &str| trained.steps(&format!("head: {{ folder: {whole}, {more} }}"));
    let always = steps("threshold: 0");
    assert!(always.iter().all(|&drafted| drafted <= 2), "{always:?}");
    let never = steps("threshold: 1, longest: 12");
    assert!(never.contains(&12), "{never:?}");
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
        format!(
            "train head --trace {trace} -d embedded:demo-t5-small --cost 0.2 --depth 0 --epochs 1 --out {out}"
        )
    };
    let whole = record("whole.jsonl", "--top-probabilities 6");
    let text = run(&train(&whole, "head"));
    for part in ["simulated", "min(1, p/q)"] {
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
        for part in ["replayed", "Tokens per forward", "Held out"] {
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
