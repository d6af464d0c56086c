//! Drafters of all kinds side by side, heads among them.

use std::fs;
use std::path::{Path, PathBuf};

use cascade_config::{AssembleOptions, Config};
use cascade_reproduce::{Choice, Definition, Experiment, ExperimentKind};

use crate::{reported, run, runs};

const SIDE_BY_SIDE: &str = "
title: Drafters beside each other
about: A test.
source: a test
kind: drafters
models: { demo: demo-llama, paper: vicuna-7b }
datasets: [problems]
samples: 2
max_new_tokens: 24
assumed: { row: 0.05 }
rows:
  - algorithm: Autoregressive
  - algorithm: Tree
    drafters: [tree]
    grid: { rules: [online] }
  - algorithm: Small model
    drafters: [small]
    grid: { rules: [online] }
  - algorithm: Medusa, small model, tree
    drafters: [medusa, small, tree]
    grid: { rules: [online] }
  - algorithm: Medusa alone
    drafters: [medusa]
    grid: { k11: [1] }
  - algorithm: EAGLE
    drafters: [eagle, tree]
    grid: { rules: [online] }
";

/// One head of Medusa for the demo target that says token 0 whatever the state.
fn medusa(folder: &Path) -> PathBuf {
    let (size, vocab_size) = (320, 1280);
    let parts = [
        ("0.0.linear.bias", vec![size]),
        ("0.0.linear.weight", vec![size, size]),
        ("0.1.weight", vec![vocab_size, size]),
    ];
    let (mut tensors, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in parts {
        let begin = end;
        end += 4 * shape.iter().product::<usize>();
        let tensor = serde_json::json!({
            "dtype": "F32", "shape": shape, "data_offsets": [begin, end],
        });
        tensors.insert(name.to_owned(), tensor);
    }
    let header = serde_json::to_vec(&tensors).unwrap();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.resize(file.len() + end, 0);
    let head = folder.join("medusa");
    fs::create_dir(&head).unwrap();
    fs::write(head.join("config.json"), "{}").unwrap();
    fs::write(head.join("medusa_lm_head.safetensors"), file).unwrap();
    head
}

fn experiment(config: &Config) -> Experiment {
    let definition = Definition::parse("side-by-side", SIDE_BY_SIDE).unwrap();
    let options = AssembleOptions::default();
    Experiment::prepare(&definition, config, &options, &Choice::default()).unwrap()
}

fn results(experiment: &Experiment, folder: &Path) -> Vec<u8> {
    run(experiment, folder, "1/1", false).unwrap();
    fs::read(folder.join("results.jsonl")).unwrap()
}

#[test]
fn rows_are_what_the_models_have_and_heads_take_part() {
    cascade_demo::register();
    let folder = tempfile::tempdir().unwrap();
    let head = medusa(folder.path());
    let text = format!(
        "target: {{ model: embedded:demo-llama-target }}\ndrafters:\n  - head: {}\n  - model: embedded:demo-llama-small\n\
         prompt: problem\n",
        head.display()
    );
    let config = Config::parse(&text, "test.yaml", "").unwrap();
    let one = experiment(&config);
    let places: Vec<&str> = one.plan().models.iter().map(|m| m.place.as_str()).collect();
    assert_eq!(places, ["target", "small", "Medusa"]);
    let written = results(&one, &folder.path().join("one"));
    let runs = runs(&folder.path().join("one"));
    assert_eq!(runs.len(), 2 * 5);
    let alone = runs
        .iter()
        .find(|run| run.variant.starts_with("Medusa; k11 1"))
        .unwrap();
    assert!(alone.drafted > 0 && alone.accepted == 0, "{alone:?}");
    let small = runs
        .iter()
        .find(|run| run.variant.starts_with("small; online"));
    assert!(small.unwrap().accepted > 0);
    // What is drafted by prices is a function of the plan.
    let two = experiment(&config);
    assert_eq!(written, results(&two, &folder.path().join("two")));

    let reported = reported(&folder.path().join("one"));
    assert_eq!(reported.unequal, 0);
    let tables: Vec<String> = reported
        .tables
        .iter()
        .map(|table| table.to_markdown())
        .collect();
    assert_eq!(tables.len(), 2);
    for (table, what) in tables
        .iter()
        .zip(["tokens per forward", "walltime × plain"])
    {
        assert!(table.contains(what), "{table}");
        assert!(table.contains("(measured)"), "{table}");
        assert!(table.contains("EAGLE (EAGLE)"), "{table}");
        assert!(
            table.contains("Every output equals plain decoding's"),
            "{table}"
        );
    }
}

#[test]
fn spec_bench_has_all_kinds_of_drafters_and_recordings_their_own_rows() {
    let definition = Definition::named("spec-bench").unwrap();
    assert_eq!(definition.kind, ExperimentKind::Drafters);
    assert_eq!(definition.rows.len(), 12);
    let recorded = definition.on_recording();
    assert_eq!(recorded.rows.len(), 4);
    assert_eq!(recorded.models.unwrap().demo, "vicuna-7b");
    let other = SIDE_BY_SIDE.replacen("rules: [online]", "k11: [4], rules: [confidence=0.4]", 1);
    let refused = Definition::parse("other", &other).unwrap_err().to_string();
    assert!(refused.contains("other than `online`"), "{refused}");
}
