//! `cascade-lab reproduce`, end to end.

use crate::common::{cascade, error, project, stdout};

#[test]
fn reproduce_lists_and_evaluates() {
    let list = stdout(&cascade(&["reproduce", "list"]));
    for name in [
        "table1",
        "table2",
        "table3",
        "table4",
        "table5",
        "horizontal",
        "figure2",
        "spec-bench",
        "specdec",
        "disco",
        "transfer",
    ] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("table1").display().to_string();
    let table = stdout(&cascade(&["reproduce", "table1", "--out", &out]));
    assert!(
        table.contains("2.65, 2.96, 3.03, 3.61, 3.75, 3.93"),
        "{table}"
    );
    assert!(folder.path().join("table1/report.html").is_file());
}

#[test]
fn reproduce_runs_resumes_and_merges() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let horizontal = |out: &str, more: &[&str]| {
        cascade(
            &[
                &["reproduce", "horizontal", "--limit", "2", "--out", out],
                more,
            ]
            .concat(),
        )
    };
    let table = stdout(&horizontal(&at("one"), &[]));
    assert!(
        table.contains("CS Drafting without horizontal cascade"),
        "{table}"
    );
    assert_eq!(table.matches("  paper ").count(), 1, "{table}");
    assert!(table.lines().count() <= 40, "{table}");
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
    assert!(
        !table.contains("\\_") && !table.contains("**") && !table.contains('|'),
        "{table}"
    );
    let again = error(&horizontal(&at("one"), &[]));
    assert!(again.contains("--resume"), "{again}");
    stdout(&horizontal(&at("one"), &["--resume"]));
    let other = error(&horizontal(&at("one"), &["--resume", "--seed", "5"]));
    assert!(other.contains("holds results of the experiment"), "{other}");
    stdout(&horizontal(&at("a"), &["--shard", "1/2"]));
    stdout(&horizontal(&at("b"), &["--shard", "2/2"]));
    stdout(&cascade(&[
        "reproduce",
        "merge",
        &at("a"),
        &at("b"),
        "--into",
        &at("both"),
    ]));
    let results =
        |name: &str| std::fs::read(folder.path().join(name).join("results.jsonl")).unwrap();
    assert_eq!(results("one"), results("both"));
    // The report is written again from the folder, and keeps the manifest of the run.
    let read = |file: &str| std::fs::read(folder.path().join("one").join(file)).unwrap();
    let (manifest, report) = (read("manifest.json"), read("report.html"));
    stdout(&cascade(&["reproduce", "report", &at("one")]));
    assert_eq!(
        (read("manifest.json"), read("report.html")),
        (manifest.clone(), report)
    );
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let time = |key: &str| {
        manifest[key]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    assert!(time("finished") > time("started"), "{manifest}");
    assert!(
        manifest["command"].to_string().contains("horizontal"),
        "{manifest}"
    );
    std::fs::remove_file(folder.path().join("one/manifest.json")).unwrap();
    stdout(&cascade(&["reproduce", "report", &at("one")]));
    let unknown: serde_json::Value = serde_json::from_slice(&read("manifest.json")).unwrap();
    assert_eq!(unknown["finished"], serde_json::Value::Null);
}

#[test]
fn reproduce_refuses_invalid_experiments() {
    let unknown = error(&cascade(&["reproduce", "table9"]));
    assert!(unknown.contains("table1, table2"), "{unknown}");
    let needless = error(&cascade(&["reproduce", "table4", "--trace", "x.jsonl"]));
    assert!(needless.contains("leave --trace out"), "{needless}");
    let shard = error(&cascade(&["reproduce", "table4", "--shard", "3/2"]));
    assert!(shard.contains("i from 1 to n"), "{shard}");
}

#[test]
fn reproduce_compares_lengths_on_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let trace = project("traces/demo-llama-problems.jsonl");
    let disco = |out: &str, more: &[&str]| {
        let args = [
            "reproduce",
            "disco",
            "--trace",
            &trace,
            "--limit",
            "4",
            "--out",
            out,
        ];
        cascade(&[&args, more].concat())
    };
    let screen = stdout(&disco(&at("out"), &[]));
    assert!(screen.lines().count() <= 40, "{screen}");
    assert!(screen.contains("report.html"), "{screen}");
    let text = std::fs::read_to_string(folder.path().join("out/table.md")).unwrap();
    for said in [
        "lengths of the oracle",
        "(replayed)",
        "assumed, in forwards of the target",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("(measured)"), "{text}");
    stdout(&disco(&at("out"), &["--resume"]));
    let rules = error(&disco(&at("other"), &["--rules", &at("rules")]));
    assert!(rules.contains("leave --rules out"), "{rules}");
    let args = [
        "reproduce",
        "disco",
        "--rules",
        &at("rules"),
        "--out",
        &at("other"),
    ];
    let none = error(&cascade(&args));
    assert!(
        none.contains("head-w6-d3") && none.contains("cascade-lab train classifier"),
        "{none}"
    );
}
