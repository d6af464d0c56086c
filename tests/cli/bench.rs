//! `cascade bench`, end to end.

use serde_json::Value;

use crate::common::{self, cascade, project, stdout};
use crate::line::words;

fn error(args: &[&str]) -> String {
    common::error(&cascade(args))
}

fn object(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(&cascade(args))).unwrap()
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

#[test]
fn forwards_are_timed_beside_busy_processes() {
    let command = "bench model embedded:demo-t5-small --rows 1,2 --contexts 16 --json";
    let command: Vec<&str> = command.split(' ').collect();
    let measured = object(&[&command[..], &["--beside", "2"]].concat());
    assert_eq!(measured["beside"], 2);
    for forward in measured["forwards"].as_array().unwrap() {
        let seconds = |name: &str| forward[name].as_f64().unwrap();
        let speed = seconds("mean_seconds") / seconds("beside_mean_seconds");
        assert!((seconds("beside_speed") / speed - 1.0).abs() < 1e-9);
    }
    let alone = object(&command);
    assert!(alone["beside"].is_null() && alone["forwards"][0]["beside_speed"].is_null());
    let message = error(&[&command[..], &["--beside", "0"]].concat());
    assert!(message.contains("give 1 or more"), "{message}");
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
