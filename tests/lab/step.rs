//! `cascade-lab bench step`, end to end.

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
             drafters: [{{ max_gram: {{ bigram: embedded:demo }} }}]\n\
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
        let cascade_of = &measured["cascades"][0];
        assert!(cascade_of["steps"].as_u64().unwrap() > 4);
        // Both emit the same tokens, but those of the first steps are not timed.
        let tokens = |of: &Value| of["tokens"].as_u64().unwrap();
        let (drafted, plain) = (tokens(&cascade_of["walltime"]), tokens(&measured["plain"]));
        assert!(drafted <= plain + 2 * 7 && plain <= drafted + 2 * 7);
        let speed = |of: &Value| of["tokens_per_second"].as_f64().unwrap();
        let ratio = speed(&cascade_of["walltime"]) / speed(&measured["plain"]);
        assert!((cascade_of["speedup"].as_f64().unwrap() / ratio - 1.0).abs() < 1e-9);
        let bytes = measured["bytes_per_forward"].as_f64().unwrap();
        let memory = measured["memory_bytes_per_second"].as_f64().unwrap();
        assert!((measured["memory_bound"].as_f64().unwrap() / (memory / bytes) - 1.0).abs() < 1e-9);
        // Acceptance equals that of replays of the two records, the first and the 26th of 50.
        let replay = ["replay", "--trace", &trace, "--config", config.path()];
        let count = |offset: &str| {
            let limits = ["--limit", "1", "--offset", offset, "--json"];
            let replayed = stdout(&cascade(&[&replay[..], &limits].concat()));
            let sums: Value = serde_json::from_str(replayed.lines().last().unwrap()).unwrap();
            let count = |name: &str| sums["total"][name].as_u64().unwrap();
            (count("num_tokens"), count("num_spec_steps"))
        };
        let (first, second) = (count("0"), count("25"));
        let length = (first.0 + second.0) as f64 / (first.1 + second.1) as f64;
        let found = cascade_of["tokens_per_step"].as_f64().unwrap();
        assert!(
            length > 1.0 && (found - length).abs() < 1e-9,
            "{found} {length}"
        );
        let part = |name: &str| cascade_of["median_seconds"][name].as_f64().unwrap();
        assert!(part("forward") > 0.0 && part("overhead") > 0.0);
        assert_eq!(cascade_of["drafters"][0]["name"], "max-gram");
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
    assert!(
        table.contains("forwards of flan-t5-small with random weights"),
        "{table}"
    );
    assert!(table.contains("  plain decoding\n"), "{table}");
    assert!(table.contains("all but the target's forward"), "{table}");
    let other = error(&[&args[..], &shape("vicuna-68m")].concat());
    assert!(other.contains("decoder-only"), "{other}");
}

#[test]
fn several_cascades_are_timed_around_one_target() {
    let (first, second) = (Statistical::new("demo-t5"), Statistical::new("demo-t5"));
    let other = Statistical::new("demo-llama");
    let trace = project("traces/demo-t5-problems.jsonl");
    let args = ["bench", "step", "--trace", &trace, "--limit", "1"];
    let both = ["--config", first.path(), "--config", second.path()];
    let measured = object(&[&args[..], &both, &["--json"]].concat());
    let cascades = measured["cascades"].as_array().unwrap();
    assert_eq!(cascades.len(), 2);
    assert_eq!(
        cascades[0]["tokens_per_step"],
        cascades[1]["tokens_per_step"]
    );
    let mixed = ["--config", first.path(), "--config", other.path()];
    let message = error(&[&args[..], &mixed].concat());
    assert!(message.contains("different targets"), "{message}");
}

#[test]
fn steps_with_neural_drafters_name_their_forwards() {
    let trace = project("traces/demo-t5-problems.jsonl");
    let demo = project("configs/demo-t5.yaml");
    let step = ["bench", "step", "--trace", &trace, "--config", &demo];
    let measured = object(&[&step[..], &["--limit", "1", "--json"]].concat());
    let drafters = measured["cascades"][0]["drafters"].as_array().unwrap();
    assert!(drafters.iter().any(|drafter| drafter["neural"] == true));
    assert!(drafters.iter().any(|drafter| drafter["neural"] == false));
    let table = stdout(&cascade(&[&step[..], &["--limit", "1"]].concat()));
    assert!(table.contains("in its forwards"), "{table}");
    assert!(error(&[&step[..], &["--limit", "0"]].concat()).contains("--limit"));
    assert!(error(&[&step[..], &["--dtype", "f32"]].concat()).contains("--shape"));
    assert!(error(&["bench", "step", "--config", &demo]).contains("--trace"));
}

#[test]
fn a_drafter_that_is_not_there_is_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("simulated.yaml");
    let text = "target: { model: nobody/target }\n\
                drafters: [{ model: nobody/drafter, name: base }]\n\
                k: { convention: added, matrix: [[4]] }\n\
                generation: { max_new_tokens: 24 }\n";
    std::fs::write(&config, text).unwrap();
    let trace = project("traces/demo-llama-problems.jsonl");
    let config = config.to_str().unwrap();
    let step = ["bench", "step", "--trace", &trace, "--config", config];
    let shape = ["--shape", "vicuna-68m", "--random-weights", "--limit", "1"];
    let with = |drafter: &str| {
        let simulated = ["--drafter", drafter, "--json"];
        object(&[&step[..], &shape, &simulated].concat())
    };
    let per_step = |measured: &Value| measured["cascades"][0]["tokens_per_step"].as_f64().unwrap();
    let always = with("base=vicuna-68m:1");
    // All that is drafted is kept, but in the last step the limit may cut the draft.
    assert!((4.0..=5.0).contains(&per_step(&always)), "{always}");
    assert_eq!(always["simulated_drafters"][0]["acceptance"], 1.0);
    assert_eq!(always["cascades"][0]["drafters"][0]["neural"], true);
    let seldom = with("base=vicuna-68m:0.3:bf16");
    assert!(per_step(&seldom) < 0.7 * per_step(&always), "{seldom}");
    assert_eq!(per_step(&seldom), per_step(&with("base=vicuna-68m:0.3")));
    for (drafter, word) in [
        ("other=vicuna-68m:0.5", "no configuration has"),
        ("base=vicuna-68m:1.5", "at most 1"),
        ("base=flan-t5-small:0.5", "encoder-decoder"),
        ("base=nothing:0.5", "known shapes"),
        ("base=vicuna-68m", "NAME=SHAPE:ACCEPTANCE"),
    ] {
        let message = error(&[&step[..], &shape, &["--drafter", drafter]].concat());
        assert!(message.contains(word), "{message}");
    }
}
