//! `cascade-lab tune` on the shipped traces.

use serde_json::Value;

use crate::command::{refused, run};
use crate::common::project;

/// The configuration of a demo family with a K matrix, so that what is drafted does not depend on
/// times.
pub(crate) fn demo_with_k(family: &str) -> String {
    let demo = std::fs::read_to_string(project(&format!("configs/demo-{family}.yaml")));
    format!(
        "{}k: {{ matrix: [[6, 1, 1], [0, 1, 1], [0, 0, 1]] }}\n",
        demo.unwrap()
    )
}

/// Tunes the demo's configuration with a K matrix.
fn tune_demo(more: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("k.yaml");
    std::fs::write(&config, demo_with_k("t5")).unwrap();
    let given = format!("--costs 11300,220,60 --json --config {}", config.display());
    serde_json::from_str(&run(&tune("t5", &format!("{more} {given}")))).unwrap()
}

fn tune(family: &str, more: &str) -> String {
    let trace = project(&format!("traces/demo-{family}-problems.jsonl"));
    format!("tune --trace {trace} {more}")
}

#[test]
fn a_line_that_lacks_its_trace_gets_an_example() {
    let said = refused("tune");
    assert!(said.contains("--trace <FILE>"), "{said}");
    assert!(
        said.contains("Examples:\n  cascade-lab tune --trace "),
        "{said}"
    );
}

#[test]
fn finds_a_better_setting_than_the_demos_and_predicts_it_well() {
    let report = tune_demo("--limit 4 --starts 2 --check 1");
    let best = &report["frontier"][0];
    // On the half that was searched on.
    let predicted = best["predicted"]["swi"].as_f64().unwrap();
    let replayed = best["replayed_swi"].as_f64().unwrap();
    assert!(
        (predicted / replayed - 1.0).abs() < 0.05,
        "{predicted} {replayed}"
    );
    assert!(replayed > report["own_predicted_swi"].as_f64().unwrap() + 1.0);
    // Each further setting drafts more cheaply.
    let drafting: Vec<u64> = report["frontier"]
        .as_array()
        .unwrap()
        .iter()
        .map(|candidate| {
            let calls = candidate["predicted"]["calls"].as_array().unwrap();
            220 * calls[1].as_u64().unwrap() + 60 * calls[2].as_u64().unwrap()
        })
        .collect();
    assert!(
        drafting.windows(2).all(|pair| pair[1] < pair[0]),
        "{drafting:?}"
    );
}

/// Rows cost so much that whoever counts forwards is deceived.
#[test]
fn rows_are_priced_and_the_result_is_that_of_other_texts() {
    let with = |row_cost: u8| {
        tune_demo(&format!(
            "--limit 40 --starts 1 --check 1 --row-cost {row_cost}"
        ))
    };
    let (cheap, dear) = (with(0), with(5));
    for report in [&cheap, &dear] {
        assert_eq!(
            (&report["training_records"], &report["held_out_records"]),
            (&20.into(), &20.into())
        );
        let always = report["always"].as_array().unwrap();
        let names: Vec<&str> = always
            .iter()
            .map(|way| way["drafts"].as_str().unwrap())
            .collect();
        assert_eq!(names[0], "plain decoding");
        assert!(names[1].starts_with("max-gram alone, "), "{names:?}");
        assert_eq!(names[2..], ["the configuration", "schedule: online"]);
        let interval = always[3]["interval"].as_array().unwrap();
        let speedup = always[3]["speedup"].as_f64().unwrap();
        assert!(interval[0].as_f64() <= Some(speedup) && Some(speedup) <= interval[1].as_f64());
    }
    let speedup = |report: &Value| {
        report["frontier"][0]["predicted"]["speedup"]
            .as_f64()
            .unwrap()
    };
    let swi = |report: &Value| report["frontier"][0]["predicted"]["swi"].as_f64().unwrap();
    assert!(
        (speedup(&cheap) / swi(&cheap) - 1.0).abs() < 1e-3,
        "rows cost nothing"
    );
    // A row costs five forwards: nothing is drafted, although it would save forwards.
    assert_eq!(speedup(&dear), 1.0);
    assert!(dear["always"][2]["swi"].as_f64().unwrap() > 1.5);
    assert!(dear["always"][2]["speedup"].as_f64().unwrap() < 0.6);
    // The online schedule has to find out first, in twenty short answers.
    let online = dear["always"][3]["speedup"].as_f64().unwrap();
    assert!(online > 0.7, "{online}");
}

/// The tree has as many nodes as pay, and is compared with what was found.
#[test]
fn the_size_of_a_tree_is_searched_for() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tree.yaml");
    let tree =
        "{ target: { model: embedded:demo-llama-target }, drafters: [{ max_gram_tree: {} }] }";
    std::fs::write(&config, tree).unwrap();
    let with = |row_cost: f64, more: &str| {
        let given = format!(
            "--limit 12 --starts 1 --costs 1 --config {}",
            config.display()
        );
        run(&tune(
            "llama",
            &format!("{given} --row-cost {row_cost} {more}"),
        ))
    };
    let report = |row_cost| -> Value { serde_json::from_str(&with(row_cost, "--json")).unwrap() };
    let (cheap, dear) = (report(0.0005), report(0.3));
    let nodes = |report: &Value| report["frontier"][0]["nodes"].as_u64().unwrap();
    assert!(
        nodes(&cheap) > nodes(&dear),
        "{} {}",
        nodes(&cheap),
        nodes(&dear)
    );
    for report in [&cheap, &dear] {
        let best = &report["frontier"][0];
        let speedup = best["predicted"]["speedup"].as_f64().unwrap();
        assert!(speedup >= 1.0, "{best}");
        let alone = report["always"][1]["drafts"].as_str().unwrap();
        assert!(
            alone.contains(" nodes, ") && alone.ends_with(" deep"),
            "{alone}"
        );
        // A tree is replayed, and what was searched is what is checked.
        let replayed = best["held_out"]["searched_speedup"].as_f64().unwrap();
        assert!(
            (replayed / speedup - 1.0).abs() < 0.05,
            "{replayed} {speedup}"
        );
    }
    let text = with(0.0005, "");
    assert!(text.contains(&format!("nodes {}", nodes(&cheap))), "{text}");
}

#[test]
fn invalid_costs_are_refused() {
    let costs = |text| refused(&tune("t5", &format!("--limit 1 --costs {text}")));
    assert!(costs("1,2").contains("2 numbers for 3 neural models"));
    assert!(costs("1,-2,3").contains("above 0"));
    assert!(costs("cheap").contains("measured"));
}

#[test]
fn a_trace_of_another_architecture_is_refused() {
    let message = refused(&tune("llama", "--limit 1"));
    assert!(
        message.contains("demo-t5-base is encoder-decoder, and the target of"),
        "{message}"
    );
}
