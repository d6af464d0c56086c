//! `cascade bench`, end to end.

use std::path::PathBuf;

use serde_json::Value;

use crate::common::{self, cascade, project, stdout};
use crate::line::words;

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
fn rows_of_several_texts_are_timed_in_one_forward() {
    for model in ["embedded:demo-llama-base", "embedded:demo-t5-small"] {
        let sizes = ["--rows", "1,4", "--contexts", "16,40", "--repeats", "2"];
        let command = [&["bench", "model", model, "--json"][..], &sizes].concat();
        let one = object(&command);
        let several = object(&[&command[..], &["--texts"]].concat());
        assert_eq!([&one["texts"], &several["texts"]], [false, true]);
        let bytes = |of: &Value, at: usize| of["forwards"][at]["bytes_read"].as_u64().unwrap();
        assert_eq!(several["forwards"].as_array().unwrap().len(), 4);
        // With rows 1 and 4: each text reads the keys and values of its own context.
        let weights = one["bytes_per_forward"].as_u64().unwrap();
        let cache = bytes(&one, 0) - weights;
        assert_eq!(bytes(&several, 0), weights + cache);
        assert_eq!(bytes(&several, 1), weights + 4 * cache);
        assert!(bytes(&several, 3) > bytes(&several, 1));
    }
    let too_many = "bench model embedded:demo-t5-small --texts --rows 4096 --contexts 128";
    let message = error(&too_many.split(' ').collect::<Vec<_>>());
    assert!(message.contains("texts times positions"), "{message}");
}

/// What benches/compare_logits.py reads, with the same weights on every device.
#[test]
fn logits_of_two_engines_are_those_of_the_same_weights() {
    let folder = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["cpu", "candle:cpu"].map(|device| -> Value {
        let file = folder.path().join(device.replace(':', "-"));
        let shape = words("bench model --shape vicuna-68m --random-weights", &[]);
        let sizes = words("--rows 1 --contexts 24 --repeats 1 --json", &[]);
        let to = ["--device", device, "--logits", file.to_str().unwrap()];
        assert_eq!(
            object(&[&shape[..], &sizes, &to].concat())["device"],
            device
        );
        serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
    });
    assert_eq!(ours["by"], "cpu");
    assert!(theirs["milliseconds"].as_f64().unwrap() > 0.0);
    assert_eq!(ours["context"], theirs["context"]);
    assert_eq!(ours["greedy"].as_array().unwrap().len(), 32);
    let numbers = |said: &Value| -> Vec<f64> {
        let rows = said["logits"].as_array().unwrap().iter();
        let numbers = rows.flat_map(|row| row.as_array().unwrap().iter());
        numbers.map(|logit| logit.as_f64().unwrap()).collect()
    };
    let (ours, theirs) = (numbers(&ours), numbers(&theirs));
    assert_eq!(ours.len(), 8 * 32_000);
    let greatest = ours.iter().fold(0f64, |most, x| most.max(x.abs()));
    let far = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs());
    assert!(far.fold(0f64, f64::max) < 1e-4 * greatest);
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
    }
    let table = stdout(&cascade(&[&model[..], &sizes].concat()));
    assert!(table.contains("the source has 128 tokens"), "{table}");
    assert!(error(&["bench", "model", "embedded:nothing"]).contains("demo-t5-small"));
    assert!(error(&[&model[..], &["--rows", "0"]].concat()).contains("1 or more"));
}

#[test]
fn a_shape_with_random_weights() {
    let shape = ["bench", "model", "--shape", "flan-t5-small"];
    let sizes = words("--rows 1 --contexts 4 --source 4 --repeats 1", &[]);
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
    let both = words(
        "bench model embedded:demo-t5-small --shape flan-t5-small",
        &[],
    );
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
}

#[test]
fn steps_of_both_families_with_their_own_targets() {
    for family in ["demo-t5", "demo-llama"] {
        let config = Statistical::new(family);
        let trace = project(&format!("traces/{family}-problems.jsonl"));
        let args = words(
            "bench step --trace {} --config {}",
            &[&trace, config.path()],
        );
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
    let args = words(
        "bench step --trace {} --config {}",
        &[&trace, config.path()],
    );
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

/// Costs of a tiny model, which tests measure in no time.
fn saved(model: &str, file: &str) {
    let args = words(
        "bench model {} --contexts 16 --rows 1,2,4 --save {}",
        &[model, file],
    );
    // A busy machine may keep two measurements from agreeing; that is said, with the numbers.
    for _ in 0..20 {
        let output = cascade(&args);
        if output.status.success() {
            return;
        }
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("could not be measured") && said.contains("4 rows:"),
            "{said}"
        );
    }
    panic!("{model}: no two measurements agree");
}

#[test]
fn costs_are_saved_read_and_refused_for_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (target, base) = (file("target.json"), file("base.json"));
    let model = "embedded:demo-t5-small";
    saved(model, &target);
    saved("embedded:demo-t5-base", &base);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&target).unwrap()).unwrap();
    assert_eq!(written["format"], "cascade-costs");
    assert_eq!(written["of"]["dtype"], "f32");
    assert_eq!(written["forwards"].as_array().unwrap().len(), 3);
    let run = |more: &[&str]| {
        let args = words(
            "run -m {} --max-gram --device cpu --max-new-tokens 8 {}",
            &[model, "Tom has 3"],
        );
        cascade(&[&args[..], more].concat())
    };
    let plain = stdout(&run(&["--json", "--no-speculation"]));
    let ids = |text: &str| serde_json::from_str::<Value>(text).unwrap()["token_ids"].clone();
    for more in [
        &["--json", "--costs", &target][..],
        &["--json", "--fixed-costs", "--costs", &target],
    ] {
        let output = run(more);
        assert_eq!(ids(&stdout(&output)), ids(&plain));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("costs: ") && said.contains("demo-t5-small in f32 on cpu"),
            "{said}"
        );
    }
    let other = common::error(&run(&["--costs", &base]));
    assert!(
        other.contains("demo-t5-base") && other.contains("demo-t5-small"),
        "{other}"
    );
    let dtype = common::error(&run(&["--costs", &target, "--dtype", "q8_0"]));
    assert!(dtype.contains("the type f32, and not of q8_0"), "{dtype}");
    let elsewhere = std::fs::read_to_string(&target)
        .unwrap()
        .replace("x86_64", "riscv");
    let moved = file("moved.json");
    std::fs::write(&moved, elsewhere.replace("aarch64", "riscv")).unwrap();
    let machine = common::error(&run(&["--costs", &moved]));
    assert!(machine.contains("another machine"), "{machine}");
    let trace = project("traces/demo-t5-problems.jsonl");
    let missing = error(&["replay", "--trace", &trace, "--costs", &target]);
    assert!(
        missing.contains("no file has costs of demo-t5-target"),
        "{missing}"
    );
}
