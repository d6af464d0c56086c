//! Arguments with bounds, and what new users try.

use std::process::Output;

use serde_json::Value;

use crate::common::{cascade, command, error, project, stdout};

/// Runs a command, whose words are separated by spaces.
fn run(command: &str) -> Output {
    cascade(&command.split(' ').collect::<Vec<_>>())
}

#[test]
fn numbers_that_would_take_all_time_or_memory_are_refused() {
    let trace = project("traces/demo-t5-problems.jsonl");
    for (command, part) in [
        (
            format!("tune --trace {trace} --max-k 100000"),
            "256 at most",
        ),
        (
            format!("tune --trace {trace} --starts 99999999"),
            "1000 at most",
        ),
        (
            "bench model embedded:demo-t5-small --rows 999999999".into(),
            "4096 at most",
        ),
        (
            "bench model embedded:demo-t5-small --rows 0".into(),
            "1 or more",
        ),
        (
            "bench model embedded:demo-t5-small --contexts 999999999".into(),
            "131072 at most",
        ),
        (
            "bench model embedded:demo-t5-small --source 999999999".into(),
            "16384 at most",
        ),
        (
            "bench model embedded:demo-t5-small --repeats 0".into(),
            "1 or more",
        ),
        (
            "bench model embedded:demo-t5-small --rows 4096 --contexts 131072".into(),
            "separate commands",
        ),
        ("doctor --threads 100000".into(), "1024 at most"),
        ("doctor --threads 0".into(), "1 or more"),
        ("run --compare --rounds 0".into(), "1 or more"),
        ("check-lossless --tolerance inf".into(), "finite"),
        ("check-lossless --tolerance nan".into(), "finite"),
        ("check-lossless --tolerance -1".into(), "finite"),
        ("run --temperature -1".into(), "temperature is -1"),
        ("run --temperature 1 --top-p -1".into(), "top_p is -1"),
    ] {
        let message = error(&run(&command));
        assert!(message.contains(part), "{command}: {message}");
    }
}

#[test]
fn too_many_threads_of_the_environment_are_refused() {
    let doctor = |threads: &str| {
        let mut command = command(&["doctor"]);
        command.env("RAYON_NUM_THREADS", threads).output().unwrap()
    };
    let message = error(&doctor("100000"));
    assert!(message.contains("RAYON_NUM_THREADS=100000"), "{message}");
    assert!(stdout(&doctor("3")).contains("3 (RAYON_NUM_THREADS)"));
}

#[test]
fn threads_are_an_option_of_every_command() {
    let text = stdout(&run("--threads 3 doctor"));
    assert!(text.contains("3 (RAYON_NUM_THREADS)"), "{text}");
    let same = |threads: &str| {
        let command = format!("run --limit 1 --max-new-tokens 6 --json --threads {threads}");
        let record: Value = serde_json::from_str(&stdout(&run(&command))).unwrap();
        record["token_ids"].clone()
    };
    assert_eq!(same("1"), same("3"));
}

#[test]
fn a_seed_without_temperature_is_warned_about() {
    let command = "run --limit 1 --max-new-tokens 2 --seed 5";
    let warning = |command: &str| {
        let output = run(command);
        stdout(&output);
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(warning(command).contains("--seed has no effect at temperature 0"));
    assert!(!warning(&format!("{command} --temperature 1")).contains("--seed"));
}

#[test]
fn tables_are_shown_by_id_and_by_frequency() {
    let by_id = stdout(&run("bigram show embedded:t5 --id 3303"));
    assert_eq!(by_id, stdout(&run("bigram show embedded:t5 --token #3303")));
    assert!(by_id.starts_with("#3303"), "{by_id}");
    let two = stdout(&run("bigram show embedded:t5 --id 3303 --top 2"));
    assert!(by_id.starts_with(&two) && two.lines().count() == 3, "{two}");
    let frequent = stdout(&run("bigram show embedded:demo --top 4"));
    let times: Vec<u64> = frequent
        .lines()
        .skip(1)
        .map(|line| {
            let times = line.split_whitespace().next().unwrap();
            times.replace(',', "").parse().unwrap()
        })
        .collect();
    assert!(
        times.len() == 4 && times.is_sorted_by(|a, b| a >= b),
        "{frequent}"
    );
}

#[test]
fn embedded_tables_are_compared() {
    let text = stdout(&run("bigram compare embedded:demo embedded:demo"));
    assert!(text.lines().last().unwrap().contains("100.0%"), "{text}");
    let message = error(&run("bigram show embedded:none"));
    assert!(message.contains("known: "), "{message}");
}

#[test]
fn manual_pages_and_the_doctors_report_are_for_programs() {
    let page = stdout(&run("man"));
    assert!(
        page.contains(".TH") && page.contains("check\\-lossless"),
        "{page}"
    );
    let page = stdout(&run("man bigram build"));
    assert!(
        page.contains("tokenizer") && page.contains("force"),
        "{page}"
    );
    assert!(error(&run("man nothing")).contains("no command `nothing`"));
    let report: Value = serde_json::from_str(&stdout(&run("doctor --json"))).unwrap();
    assert!(
        report["threads"].is_string() && report["cpu"].is_string(),
        "{report}"
    );
    assert!(
        report["embedded_models"].as_array().unwrap().len() > 3,
        "{report}"
    );
    // The second engine says what ours says; GPUs are not in this build.
    let device = |name: &str| report[name].as_str().unwrap().to_owned();
    assert!(device("candle_cpu").starts_with("ok; "), "{report}");
    for name in ["cuda", "metal"] {
        let cure = format!("--features {name}");
        assert!(device(&format!("{name}_0")).contains(&cure), "{report}");
    }
}

#[test]
fn records_without_output_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trace = std::fs::read_to_string(project("traces/demo-llama-problems.jsonl")).unwrap();
    let mut lines: Vec<String> = trace.lines().map(str::to_owned).collect();
    let mut record: Value = serde_json::from_str(&lines[2]).unwrap();
    record["output"] = serde_json::json!([]);
    record["gaps"] = serde_json::json!([]);
    record["finish"] = "length".into();
    lines[2] = record.to_string();
    let path = folder.path().join("empty.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let message = error(&run(&format!("trace show {}", path.display())));
    assert!(
        message.contains("empty.jsonl:3: there is no output"),
        "{message}"
    );
}

/// Nothing is done for no prompt, and no verdict is given: a limit is 1 or more everywhere.
#[test]
fn a_limit_of_nothing_is_refused() {
    let trace = project("traces/demo-t5-problems.jsonl");
    for command in [
        "run --dataset problems".to_owned(),
        "check-lossless --dataset problems".into(),
        "trace record --dataset problems --output none.jsonl".into(),
        format!("trace score {trace} -m embedded:demo-t5-small"),
        format!("replay --trace {trace}"),
        format!("tune --trace {trace}"),
        "reproduce table2".into(),
        "demo evaluate".into(),
    ] {
        let message = error(&run(&format!("{command} --limit 0")));
        assert!(message.contains("--limit"), "{command}: {message}");
        assert!(message.contains("1 or more"), "{command}: {message}");
    }
}
