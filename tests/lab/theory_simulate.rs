//! Simulations of `cascade-lab theory`, end to end.

use serde_json::Value;

use crate::common::{cascade, error, stdout};

fn simulate(args: &str) -> Vec<String> {
    let args = args.split_whitespace();
    ["theory"]
        .into_iter()
        .chain(args)
        .map(str::to_owned)
        .collect()
}

fn run(args: &str) -> String {
    let args = simulate(args);
    stdout(&cascade(
        &args.iter().map(String::as_str).collect::<Vec<_>>(),
    ))
}

fn records(args: &str) -> Vec<Value> {
    let text = run(&format!("{args} --json"));
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn refused(args: &str) -> String {
    let args = simulate(args);
    error(&cascade(
        &args.iter().map(String::as_str).collect::<Vec<_>>(),
    ))
}

const SMALL: &str = "--states 4 --positions 10 --runs 2000 --seed 3";

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn formulas_and_runs_agree_in_every_command() {
    for command in [
        "rejections --chains 3",
        "batch --drafts 1,4",
        "front --budget 0.1",
        "mdp",
    ] {
        let records = records(&format!("{command} {SMALL}"));
        assert!(records.len() >= 3, "{command}");
        let deviations: Vec<f64> = records
            .iter()
            .filter(|record| !record["deviation"].is_null())
            .map(|record| number(&record["deviation"]))
            .collect();
        assert!(deviations.len() >= 2, "{command}");
        assert!(
            deviations.iter().all(|off| off.abs() < 3.5),
            "{command}: {deviations:?}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let table = run(&format!("rejections {SMALL}"));
    assert_eq!(table, run(&format!("rejections {SMALL}")));
    assert_ne!(
        table,
        run("rejections --states 4 --positions 10 --runs 2000 --seed 4")
    );
    for part in [
        "(computed)",
        "(simulated)",
        "Theorem 1",
        "standard errors at most",
    ] {
        assert!(table.contains(part), "`{part}` is missing in\n{table}");
    }
}

#[test]
fn the_best_policy_is_not_beaten_by_a_fixed_length() {
    let records = records(&format!("mdp {SMALL} --likeness 0.7 --cost 0.05"));
    let time = |record: &Value| number(&record["computed"]["time"]);
    let of = |policy: &str| {
        records
            .iter()
            .find(|record| record["policy"] == policy)
            .unwrap()
    };
    let best = time(of("the best"));
    assert_eq!(time(of("plain decoding")), 10.0);
    for record in &records {
        if !record["computed"].is_null() {
            assert!(best <= time(record) + 1e-8, "{record}");
        }
    }
    let oracle = &of("oracle")["simulated"];
    assert_eq!(number(&oracle["discard_rate"]), 0.0);
    assert!(number(&oracle["time"]["mean"]) < best);
}

#[test]
fn own_chains_are_read_and_reports_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chain.json");
    std::fs::write(&file, run("chain --states 3 --positions 5 --seed 9")).unwrap();
    let chain = file.display();
    let random = records("rejections --states 3 --positions 5 --seed 9 --runs 100");
    let own = records(&format!("rejections --chain {chain} --seed 9 --runs 100"));
    let rejections = |records: &[Value]| number(&records[0]["computed"]["rejections"]);
    assert!((rejections(&random) - rejections(&own)).abs() < 1e-12);
    let out = folder.path().join("out");
    let args = format!("batch --chain {chain} --runs 100 --out {}", out.display());
    let text = run(&args);
    assert!(text.contains("written to"), "{text}");
    let names: Vec<String> = std::fs::read_dir(&out)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for end in ["report.html", ".csv", ".tex", ".svg", "manifest.json"] {
        assert!(
            names.iter().any(|name| name.ends_with(end)),
            "{end}: {names:?}"
        );
    }
    // Its own report is replaced; what is somebody else's is not.
    run(&args);
    std::fs::remove_file(out.join("manifest.json")).unwrap();
    let message = refused(&args);
    assert!(message.contains("plot-1-"), "{message}");
}

#[test]
fn what_cannot_be_simulated_is_refused_by_name() {
    for (args, parts) in [
        ("rejections --likeness 2", "--likeness 2"),
        ("rejections --states 0", "0 states"),
        ("rejections --states 100000", "take fewer"),
        ("rejections --runs 1", "--runs"),
        ("rejections --chain nothing.json", "nothing.json"),
        ("rejections --chain nothing.json --states 3", "--states"),
        ("front --epsilon -1", "not -1"),
        ("front --budget -1", "not -1"),
        ("batch --drafts 0", "--drafts"),
        ("mdp --cost -1", "not -1"),
        ("mdp --longest 0", "1 or more"),
        ("mdp --thresholds 1.5", "not 1.5"),
    ] {
        let message = refused(args);
        assert!(message.contains(parts), "{args}: {message}");
    }
}
