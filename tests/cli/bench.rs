//! `cascade bench`, end to end.

use std::path::PathBuf;

use serde_json::Value;

use crate::common::{self, cascade, project, stdout};

fn error(args: &[&str]) -> String {
    common::error(&cascade(args))
}

fn object(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&cascade(args))).unwrap()
}

/// A configuration with Max-Gram and prompt lookup around the target of a demo family.
struct Statistical {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Statistical {
    fn new(family: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("statistical.yaml");
        let text = format!(
            "target: {{ model: embedded:{family}-target }}\n\
             drafters: [{{ max_gram: {{ bigram: embedded:{family} }} }}]\n\
             k: {{ matrix: [[6]] }}\n\
             generation: {{ max_new_tokens: 40 }}\n"
        );
        std::fs::write(&path, text).unwrap();
        Self {
            _folder: folder,
            path,
        }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

#[test]
fn a_model_by_rows_and_context() {
    let model = ["bench", "model", "embedded:demo-t5-small"];
    let sizes = ["--rows", "1,4", "--contexts", "0,16", "--repeats", "2"];
    let measured = object(&[&model[..], &sizes, &["--json"]].concat());
    assert_eq!(measured["random_weights"], false);
    let forwards = measured["forwards"].as_array().unwrap();
    assert_eq!(forwards.len(), 4);
    let memory = measured["memory_bytes_per_second"].as_f64().unwrap();
    let bytes = measured["bytes_per_forward"].as_u64().unwrap();
    assert!(bytes > 0 && bytes < 4 * measured["parameters"].as_u64().unwrap());
    let mut read = bytes;
    for forward in forwards {
        // Keys and values grow with rows and context.
        let now = forward["bytes_read"].as_u64().unwrap();
        assert!(now > read, "{now} after {read}");
        read = now;
        let share = forward["bytes_per_second"].as_f64().unwrap() / memory;
        assert!((forward["memory_share"].as_f64().unwrap() / share - 1.0).abs() < 1e-9);
        assert!(forward["launches"].is_null());
    }
    let table = stdout(&cascade(&[&model[..], &sizes].concat()));
    assert!(table.contains("the source has 128 tokens"), "{table}");
    assert!(error(&["bench", "model", "embedded:nothing"]).contains("demo-t5-small"));
    assert!(error(&[&model[..], &["--rows", "0"]].concat()).contains("1 or more"));
}

#[test]
fn a_shape_with_random_weights() {
    let shape = ["bench", "model", "--shape", "flan-t5-small"];
    let sizes = [
        "--rows",
        "1",
        "--contexts",
        "4",
        "--source",
        "4",
        "--repeats",
        "1",
    ];
    let random = ["--random-weights"];
    let measured = object(&[&shape[..], &random, &sizes, &["--json"]].concat());
    assert_eq!(measured["model"], "flan-t5-small");
    assert_eq!(measured["random_weights"], true);
    assert_eq!(measured["parameters"], 76_961_152);
    assert_eq!(measured["layers"], 8);
    let table = stdout(&cascade(&[&shape[..], &random, &sizes].concat()));
    assert!(table.contains("random weights"), "{table}");
}

#[test]
fn a_bench_needs_one_model_and_explicit_random_weights() {
    assert!(error(&["bench", "model"]).contains("<MODEL|--shape <SHAPE>>"));
    let both = [
        "bench",
        "model",
        "embedded:demo-t5-small",
        "--shape",
        "flan-t5-small",
    ];
    let message = error(&[&both[..], &["--random-weights"]].concat());
    assert!(message.contains("cannot be used with"), "{message}");
    let silent = error(&["bench", "model", "--shape", "flan-t5-small"]);
    assert!(silent.contains("--random-weights"), "{silent}");
    let message = error(&[
        "bench",
        "model",
        "embedded:demo-t5-small",
        "--random-weights",
    ]);
    assert!(message.contains("--shape"), "{message}");
    let unknown = error(&["bench", "model", "--shape", "flan-t5", "--random-weights"]);
    assert!(unknown.contains("flan-t5-xxl"), "{unknown}");
    let profile = error(&["bench", "model", "embedded:demo-t5-small", "--profile"]);
    assert!(profile.contains("on a GPU"), "{profile}");
}

#[test]
fn steps_of_both_families_with_their_own_targets() {
    for family in ["demo-t5", "demo-llama"] {
        let config = Statistical::new(family);
        let trace = project(&format!("traces/{family}-problems.jsonl"));
        let args = [
            "bench",
            "step",
            "--trace",
            &trace,
            "--config",
            config.path(),
        ];
        let measured = object(&[&args[..], &["--limit", "2", "--json"]].concat());
        assert_eq!(measured["simulated"], true);
        assert_eq!(measured["records"], 2);
        assert!(measured["steps"].as_u64().unwrap() > 4);
        // Acceptance equals that of a replay.
        let replay = ["replay", "--trace", &trace, "--config", config.path()];
        let replayed = stdout(&cascade(
            &[&replay[..], &["--limit", "2", "--json"]].concat(),
        ));
        let sums: Value = serde_json::from_str(replayed.lines().last().unwrap()).unwrap();
        let length = &sums["total"]["mean_acceptance_length"];
        assert_eq!(&measured["tokens_per_step"], length);
        assert!(length.as_f64().unwrap() > 1.0);
        let part = |name: &str| measured["median_seconds"][name].as_f64().unwrap();
        assert!(part("forward") > 0.0 && part("overhead") > 0.0);
        assert_eq!(measured["drafters"][0]["name"], "max-gram");
    }
}

#[test]
fn steps_of_a_shape() {
    let config = Statistical::new("demo-t5");
    let trace = project("traces/demo-t5-problems.jsonl");
    let args = [
        "bench",
        "step",
        "--trace",
        &trace,
        "--config",
        config.path(),
    ];
    let shape = |name| ["--shape", name, "--random-weights", "--limit", "1"];
    let table = stdout(&cascade(&[&args[..], &shape("flan-t5-small")].concat()));
    assert!(table.starts_with("simulated: flan-t5-small with random weights"));
    assert!(table.contains("all but forward"), "{table}");
    let other = error(&[&args[..], &shape("vicuna-68m")].concat());
    assert!(other.contains("decoder-only"), "{other}");
}

#[test]
fn steps_are_refused_with_neural_drafters_and_nothing_to_replay() {
    let trace = project("traces/demo-t5-problems.jsonl");
    let demo = project("configs/demo-t5.yaml");
    let step = ["bench", "step", "--trace", &trace, "--config", &demo];
    let neural = error(&step);
    assert!(
        neural.contains("demo-t5-base") && neural.contains("drafters"),
        "{neural}"
    );
    assert!(error(&[&step[..], &["--limit", "0"]].concat()).contains("--limit"));
    assert!(error(&[&step[..], &["--dtype", "f32"]].concat()).contains("--shape"));
    assert!(error(&["bench", "step", "--config", &demo]).contains("--trace"));
}
