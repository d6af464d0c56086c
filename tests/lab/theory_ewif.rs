//! Expected speedups of `cascade-lab theory`, end to end.

use std::process::Output;

use serde_json::Value;

use crate::common::cascade;

fn ewif(args: &str) -> Output {
    let args: Vec<&str> = std::iter::once("theory")
        .chain(args.split_whitespace())
        .collect();
    cascade(&args)
}

fn stdout(args: &str) -> String {
    let output = ewif(args);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {message}");
    String::from_utf8(output.stdout).unwrap()
}

fn records(args: &str) -> Vec<Value> {
    let text = stdout(args);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Standard error of a command that must fail with a message, without a panic.
fn error(args: &str) -> String {
    let output = ewif(args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args}: {message}");
    assert!(
        message.starts_with("error: ") && !message.contains("panicked"),
        "{args}: {message}"
    );
    assert!(output.stdout.is_empty(), "{args}");
    message
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
    let text = stdout("speculative --alpha 0.8 --cost 0.1 --k 2");
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
    let best = stdout("speculative --alpha 0.8 --cost 0.02");
    assert_contains(
        &best,
        &[
            "k = 11 tokens",
            "the best up to 64",
            "EWIF       3.8167 computed",
        ],
    );
    let short = stdout("speculative --alpha 0.8 --cost 0.02 --max-k 6");
    assert_contains(&short, &["k = 6 tokens", "note: the limit of 6 is reached"]);
}

#[test]
fn a_slowdown_is_noted() {
    let text = stdout("speculative --alpha 0.2 --cost 0.5 --k 4");
    assert_contains(&text, &["note: slower than plain decoding"]);
    let text = stdout("speculative --alpha 0.2 --cost 0.5");
    assert_contains(
        &text,
        &["k = 0 tokens", "EWIF       1.0000", "note: no draft pays"],
    );
}

#[test]
fn vertical_with_lengths_and_without() {
    let drafters = "vertical --alpha 0.8 --cost 0.1 --alpha-below 0.5 --cost-below 0";
    // φ(0.8) = 1 − 0.2·(1 − 0.4²)/0.6 = 0.72; (1 − 0.8·0.72³) / (0.2·1.3)
    let text = stdout(&format!("{drafters} --n 3 --k 1"));
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
    let text = stdout(&format!("{drafters} --k 2 --k 1"));
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
        let text = stdout(&format!("{system} {simulate}"));
        assert_contains(
            &text,
            &["computed", " ± ", "simulated, 20000 steps, seed 3"],
        );
        let json = format!("{system} {simulate} --json");
        let record = &records(&json)[0];
        assert_agrees(record);
        assert_eq!(record["simulated"]["seed"], 3);
        assert_eq!(stdout(&json), stdout(&json));
    }
}

#[test]
fn table_1() {
    let text = stdout("table1");
    assert_contains(
        &text,
        &[
            "paper",
            "computed",
            "base, small",
            "5, 8",
            "3.03    3.0283",
            "5, 5: 3.0456",
        ],
    );
    let figures = |args: &str| -> Vec<String> {
        let rows = records(args);
        let figure = |row: &Value| format!("{:.2}", row["computed"]["ewif"].as_f64().unwrap());
        rows.iter().map(figure).collect()
    };
    let paper = ["2.65", "2.96", "3.03", "3.61", "3.75", "3.93"];
    assert_eq!(figures("table1 --json")[2..], paper[2..]);
    assert_eq!(figures("table1 --target-parameters 11.23e9 --json"), paper);
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
