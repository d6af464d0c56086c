//! `cascade-lab theory`, end to end: expected speedups, and simulations.

use std::process::Output;

use serde_json::Value;

use crate::common;

fn run(args: &str) -> Output {
    let words: Vec<&str> = std::iter::once("theory")
        .chain(args.split_whitespace())
        .collect();
    common::cascade(&words)
}

fn theory(args: &str) -> String {
    common::stdout(&run(args))
}

fn records(args: &str) -> Vec<Value> {
    let text = theory(args);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Standard error of a command that must fail with a message and print nothing.
fn error(args: &str) -> String {
    let output = run(args);
    assert!(output.stdout.is_empty(), "{args}");
    common::error(&output)
}

fn assert_contains(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

/// A simulation is within 4 standard errors of the formula, and its error is not 0.
fn assert_agrees(record: &Value) {
    let figure = |of: &str, key: &str| record[of][key].as_f64().unwrap();
    let error = figure("simulated", "standard_error");
    let off = figure("simulated", "ewif") - figure("computed", "ewif");
    assert!(error > 0.0 && off.abs() < 4.0 * error, "{record}");
}

#[test]
fn speculative_with_a_length_and_without() {
    // (1 − 0.8³) / (0.2 · 1.2)
    let text = theory("speculative --alpha 0.8 --cost 0.1 --k 2");
    assert_contains(
        &text,
        &[
            "Corollary 4.2",
            "k = 2 tokens",
            "EWIF       2.0333 computed",
        ],
    );
    assert!(
        !text.contains("simulated") && !text.contains("note"),
        "{text}"
    );
    let best = theory("speculative --alpha 0.8 --cost 0.02");
    assert_contains(
        &best,
        &[
            "k = 11 tokens",
            "the best up to 64",
            "EWIF       3.8167 computed",
        ],
    );
    let short = theory("speculative --alpha 0.8 --cost 0.02 --max-k 6");
    assert_contains(&short, &["k = 6 tokens", "note: the limit of 6 is reached"]);
}

#[test]
fn a_slowdown_is_noted() {
    let text = theory("speculative --alpha 0.2 --cost 0.5 --k 4");
    assert_contains(&text, &["note: slower than plain decoding"]);
    let text = theory("speculative --alpha 0.2 --cost 0.5");
    assert_contains(
        &text,
        &["k = 0 tokens", "EWIF       1.0000", "note: no draft pays"],
    );
}

#[test]
fn vertical_with_lengths_and_without() {
    let drafters = "vertical --alpha 0.8 --cost 0.1 --alpha-below 0.5 --cost-below 0";
    // φ(0.8) = 1 − 0.2·(1 − 0.4²)/0.6 = 0.72; (1 − 0.8·0.72³) / (0.2·1.3)
    let text = theory(&format!("{drafters} --n 3 --k 1"));
    assert_contains(
        &text,
        &[
            "Theorem 4.3",
            "n = 3 reviews",
            "k = 1 tokens",
            "EWIF       2.6977 computed",
        ],
    );
    let found = &records(&format!("{drafters} --max-k 8 --json"))[0];
    let ewif = found["computed"]["ewif"].as_f64().unwrap();
    assert!(ewif > 2.6977 && found["search"]["max_k"] == 8, "{found}");
    assert_eq!(found["formula"], "Theorem 4.3");
    assert_eq!(found["drafters"][1]["role"], "below");
}

#[test]
fn horizontal_with_lengths_and_without() {
    let drafters = "horizontal --alpha 0.8 --cost 0.04 --alpha 0.6 --cost 0.01";
    // (1 + 0.8 + 0.64 + 0.384) / 1.09
    let text = theory(&format!("{drafters} --k 2 --k 1"));
    assert_contains(
        &text,
        &["Theorem 4.5", "k = 2 tokens", "EWIF       2.5908 computed"],
    );
    let found = &records(&format!("{drafters} --json"))[0];
    let ewif = found["computed"]["ewif"].as_f64().unwrap();
    let alone = &records("speculative --alpha 0.8 --cost 0.04 --json")[0];
    assert!(
        ewif > alone["computed"]["ewif"].as_f64().unwrap(),
        "{found}"
    );
    assert_eq!(found["drafters"].as_array().unwrap().len(), 2);
    assert_eq!(found["search"]["at_limit"], false);
}

#[test]
fn simulations_stand_beside_formulas() {
    let simulate = "--simulate 20000 --seed 3";
    for system in [
        "speculative --alpha 0.8 --cost 0.02",
        "vertical --alpha 0.8 --cost 0.1 --alpha-below 0.5 --cost-below 0.01 --n 3 --k 2",
        "horizontal --alpha 0.8 --cost 0.04 --alpha 0.6 --cost 0.01",
    ] {
        let text = theory(&format!("{system} {simulate}"));
        assert_contains(
            &text,
            &["computed", " ± ", "simulated, 20000 steps, seed 3"],
        );
        let json = format!("{system} {simulate} --json");
        let record = &records(&json)[0];
        assert_agrees(record);
        assert_eq!(record["simulated"]["seed"], 3);
        assert_eq!(theory(&json), theory(&json));
    }
}

#[test]
fn table_1() {
    let text = theory("table1");
    assert_contains(
        &text,
        &[
            "paper",
            "computed",
            "base, small",
            "5, 8",
            "3.03    3.0",
            "5, 5: 3.0",
        ],
    );
    let figures = |args: &str| -> Vec<String> {
        let rows = records(args);
        let figure = |row: &Value| format!("{:.2}", row["computed"]["ewif"].as_f64().unwrap());
        rows.iter().map(figure).collect()
    };
    let paper = ["2.65", "2.96", "3.03", "3.61", "3.75", "3.93"];
    assert_eq!(figures("table1 --json"), paper);
    let of_cards = figures("table1 --target-parameters 11.3e9 --json");
    assert_eq!(of_cards[..3], ["2.66", "2.97", "3.03"]);
    for row in records("table1 --simulate 20000 --json") {
        assert_agrees(&row);
    }
}

#[test]
fn bad_numbers_are_refused() {
    for alpha in ["1.5", "-0.1", "nan", "inf"] {
        let message = error(&format!("speculative --alpha {alpha} --cost 0.1"));
        assert_contains(&message.to_lowercase(), &["--alpha", "from 0 to 1", alpha]);
    }
    for cost in ["-0.1", "nan", "inf"] {
        let message = error(&format!("speculative --alpha 0.5 --cost {cost}"));
        assert_contains(&message.to_lowercase(), &["--cost", "not negative", cost]);
    }
    let vertical = "vertical --alpha 0.5 --cost 0.1 --alpha-below";
    assert_contains(
        &error(&format!("{vertical} 2 --cost-below 0")),
        &["--alpha-below"],
    );
    assert_contains(
        &error(&format!("{vertical} 0.5 --cost-below -1")),
        &["--cost-below"],
    );
    assert_contains(
        &error(&format!("{vertical} 0.5 --cost-below 0 --k 3")),
        &["--n"],
    );
    let speculative = "speculative --alpha 0.5 --cost 0.1";
    assert_contains(&error(&format!("{speculative} --k 1001")), &["--k", "1000"]);
    assert_contains(
        &error(&format!("{speculative} --k 3 --max-k 9")),
        &["--max-k"],
    );
    assert_contains(
        &error(&format!("{speculative} --simulate 1")),
        &["--simulate"],
    );
    assert_contains(&error(&format!("{speculative} --seed 1")), &["--simulate"]);
    for parameters in ["0", "-5", "nan", "inf", "many"] {
        error(&format!("table1 --target-parameters {parameters}"));
    }
}

#[test]
fn drafters_of_a_horizontal_cascade_must_be_complete() {
    let two_rates = "horizontal --alpha 0.8 --alpha 0.6 --cost 0.1";
    assert_contains(
        &error(two_rates),
        &["--alpha was given 2 times, --cost 1 times"],
    );
    let one_length = format!("{two_rates} --cost 0.01 --k 3");
    assert_contains(&error(&one_length), &["--k 1 times"]);
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
        let records = records(&format!("{command} {SMALL} --json"));
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
    let table = theory(&format!("rejections {SMALL}"));
    assert_eq!(table, theory(&format!("rejections {SMALL}")));
    assert_ne!(
        table,
        theory("rejections --states 4 --positions 10 --runs 2000 --seed 4")
    );
    for part in [
        "computed",
        "simulated",
        "Theorem 1",
        "standard errors at most",
    ] {
        assert!(table.contains(part), "`{part}` is missing in\n{table}");
    }
}

#[test]
fn the_best_policy_is_not_beaten_by_a_fixed_length() {
    let records = records(&format!("mdp {SMALL} --likeness 0.7 --cost 0.05 --json"));
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
    std::fs::write(&file, theory("chain --states 3 --positions 5 --seed 9")).unwrap();
    let chain = file.display();
    let random = records("rejections --states 3 --positions 5 --seed 9 --runs 100 --json");
    let own = records(&format!(
        "rejections --chain {chain} --seed 9 --runs 100 --json"
    ));
    let rejections = |records: &[Value]| number(&records[0]["computed"]["rejections"]);
    assert!((rejections(&random) - rejections(&own)).abs() < 1e-12);
    let out = folder.path().join("out");
    let args = format!("batch --chain {chain} --runs 100 --out {}", out.display());
    let text = theory(&args);
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
    theory(&args);
    std::fs::remove_file(out.join("manifest.json")).unwrap();
    let message = error(&args);
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
        let message = error(args);
        assert!(message.contains(parts), "{args}: {message}");
    }
}
