//! `cascade check-lossless`: lossless configurations pass, others do not.

use std::process::Output;

use serde_json::{Value, json};

use crate::common::{cascade, project};

fn check_lossless(args: &[&str]) -> Output {
    cascade(&[&["check-lossless"], args].concat())
}

fn config(name: &str) -> String {
    project(&format!("configs/{name}"))
}

/// The report of a run with --json, which must end with `status`.
fn report(args: &[&str], status: i32) -> Value {
    let output = check_lossless(&[args, &["--json"]].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn error(args: &[&str]) -> String {
    let output = check_lossless(args);
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn greedy_demos_are_lossless_under_random_settings() {
    for name in ["demo-t5.yaml", "demo-llama.yaml"] {
        let config = config(name);
        let settings = [
            "--config",
            &config,
            "--random-settings",
            "3",
            "--generations",
            "2",
        ];
        let report = report(&settings, 0);
        assert_eq!(report["lossless"], true);
        assert_eq!(report["generations"], 2);
        assert!(report["tokens"].as_u64().unwrap() >= 2 * 64);
        assert_eq!(report["tokens"], report["agreements"]);
        assert!(report["smallest_lead"].as_f64().unwrap() > 0.0);
    }
}

/// On a CPU a row has the same bits beside any others, whatever the type: no gap is a near-tie.
#[test]
fn near_ties_are_where_rows_may_round_differently() {
    let base = ["--config", "embedded:demo-llama", "--generations", "1"];
    for (more, are_exact) in [
        (["--dtype", "bf16"], true),
        (["--dtype", "f32"], true),
        (["--device", "candle:cpu"], false),
    ] {
        let short = ["--max-new-tokens", "12"];
        let report = report(&[&base[..], &short, &more].concat(), 0);
        assert_eq!(report["tolerance"] == 0.0, are_exact, "{more:?}: {report}");
        assert_eq!(report["agreements"], report["tokens"]);
    }
}

#[test]
fn sampled_demos_are_lossless() {
    let config = config("demo-t5.yaml");
    let report = report(
        &[
            "--config",
            &config,
            "--limit",
            "1",
            "--temperature",
            "3",
            "--samples",
            "100",
            "--random-settings",
            "4",
        ],
        0,
    );
    let prompt = &report["prompts"][0];
    assert_eq!(prompt["samples"], 100);
    assert!(prompt["cells"].as_u64().unwrap() > 1);
    assert!(prompt["p_value"].as_f64().unwrap() > 0.001);
    let limit = |key: &str| prompt[key].as_f64().unwrap();
    assert!(limit("total_variation_at_least") <= limit("total_variation"));
    assert!(limit("total_variation") <= limit("total_variation_at_most"));
}

#[test]
fn the_same_settings_come_from_the_same_seed() {
    let run = |seed: &str| {
        let args = [
            "--random-settings",
            seed,
            "--limit",
            "1",
            "--temperature",
            "1",
            "--samples",
            "5",
        ];
        // Five samples test nothing.
        report(&args, 1)["prompts"][0]["settings"].clone()
    };
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

#[test]
fn invalid_settings_are_refused() {
    assert!(error(&["--samples", "0"]).contains("1 or more"));
    assert!(error(&["--length", "0"]).contains("1 or more"));
    assert!(error(&["--generations", "0"]).contains("1 or more"));
    assert!(error(&["--tolerance=-1"]).contains("0 or more"));
    assert!(error(&["--level", "1.5"]).contains("between 0 and 1"));
    assert!(error(&["--temperature=-1"]).contains("temperature is -1"));
    assert!(error(&["--config", "/nowhere.yaml"]).contains("/nowhere.yaml"));
}

/// A test that could not have failed is no assurance.
#[test]
fn a_test_without_power_says_so_and_fails() {
    let dataset = ["--dataset", "problems", "--limit", "2", "--seed", "4711"];
    let samples = ["--temperature", "0.2", "--samples", "100"];
    let report = report(&[&dataset[..], &samples].concat(), 1);
    assert_eq!(report["lossless"], false);
    assert_eq!(report["tested"], 0);
    assert!(report["prompts"][0]["p_value"].is_null());
}

fn certified(args: &[&str], status: i32) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("certificate.json");
    let name = file.display().to_string();
    let settings = ["--max-new-tokens", "16", "--certificate", &name];
    let output = check_lossless(&[args, &settings].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{message}");
    let said = String::from_utf8(output.stdout).unwrap();
    let report: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let is_whole = report["certificate"]["not_covered"] == json!([]);
    let verdict = match (status, is_whole) {
        (0, true) => "certified",
        (0, false) => "certified, but for what is not covered",
        _ => "NOT CERTIFIED",
    };
    assert_eq!(said.lines().last(), Some(verdict), "{said}");
    assert_eq!(report["model"]["sha256"].as_str().unwrap().len(), 64);
    report["certificate"].clone()
}

#[test]
fn demos_are_certified_in_every_part() {
    // Prompts of more than a page, which another session can take from the first.
    let folder = tempfile::tempdir().unwrap();
    let prompts = folder.path().join("prompts.jsonl");
    let story = "Ann has 3 shells and finds 4 more. ".repeat(8);
    let lines =
        ["How many?", "Who?"].map(|end| json!({"prompt": format!("{story}{end}")}).to_string());
    std::fs::write(&prompts, lines.join("\n")).unwrap();
    let prompts = prompts.display().to_string();
    for family in ["llama", "t5"] {
        let model = format!("embedded:demo-{family}-small");
        let settings = ["--prompts", &prompts, "--threads", "3", "--tokens", "2500"];
        let found = certified(&[&["-m", &model], &settings[..]].concat(), 0);
        assert_eq!(found["holds"], true);
        // Of an encoder-decoder model, the answers are too short for a page.
        let pages = "prefix: no page of 64 tokens of another session was read";
        let left_out: &[_] = if family == "t5" { &[pages] } else { &[] };
        assert_eq!(found["not_covered"], json!(left_out), "{family}");
        assert_eq!(found["threads"], json!([1, 2]));
        assert!(found["texts_per_forward"].as_f64().unwrap() > 4.0);
        let parts = found["parts"].as_array().unwrap();
        assert_eq!(parts.len(), 4 * 2);
        let tokens: u64 = parts
            .iter()
            .map(|part| part["tokens"].as_u64().unwrap())
            .sum();
        assert!(tokens >= 2500 && found["tokens"] == tokens);
        for part in parts {
            assert_eq!(part["differences"], 0);
            assert_eq!(part["bits"], 64 * part["tokens"].as_u64().unwrap());
        }
    }
}

#[test]
fn a_certificate_has_the_penalties_of_its_texts_and_no_stop_texts() {
    let model = ["-m", "embedded:demo-llama-small", "--certificate"];
    let stopped = check_lossless(&[&model[..], &["--stop", "x"]].concat());
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("--stop has no effect"));
    let more = [
        "--tokens",
        "40",
        "--max-new-tokens",
        "8",
        "--json",
        "--repetition-penalty",
        "1.5",
    ];
    let output = check_lossless(&[&model[..], &more].concat());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["penalties"]["repetition"], 1.5);
    assert_eq!(report["certificate"]["holds"], true);
}

#[test]
fn a_certificate_says_what_it_does_not_cover() {
    let model = ["-m", "embedded:demo-llama-target", "--threads", "1"];
    let found = certified(&[&model[..], &["--seconds", "0"]].concat(), 1);
    assert_eq!(
        (&found["holds"], &found["tokens"]),
        (&false.into(), &0.into())
    );
    let left_out = found["not_covered"].to_string();
    for part in [
        "drafts, greedy: not begun",
        "threads: one computes",
        "20000 of 20000 tokens",
    ] {
        assert!(left_out.contains(part), "{left_out}");
    }
    assert!(error(&["--certificate", "--tokens", "0"]).contains("1 or more"));
    assert!(error(&["--certificate", "--samples", "9"]).contains("cannot be used with"));
}

/// Samples are those of plain decoding with the same seed, whatever drafts.
#[test]
fn sampled_demos_equal_plain_decoding() {
    for (name, settings) in [("demo-t5.yaml", "31"), ("demo-llama.yaml", "32")] {
        let config = config(name);
        let args = [
            "--config",
            &config,
            "--temperature",
            "1",
            "--random-settings",
            settings,
        ];
        let report = report(&[&args[..], &["--generations", "4"]].concat(), 0);
        assert_eq!(report["mode"], "coupled");
        assert_eq!(report["equal_to_plain"], 4);
        assert_eq!(report["tokens"], report["agreements"]);
    }
}
