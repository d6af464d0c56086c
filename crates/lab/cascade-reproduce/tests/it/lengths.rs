//! Lengths of drafts, from prompt to report: live on the demo family, and on its recorded answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cascade_config::AssembleOptions;
use cascade_config::trained::{ClassifierFile, ClassifierSettings, HeadFolder, HeadSettings};
use cascade_engine::{CLASSIFIER_FEATURES, ClassifierWeights, HeadWeights};
use cascade_reproduce::report::Table;
use cascade_reproduce::{
    Choice, Decomposition, Definition, Error, ErrorKind, Experiment, ExperimentKind, Metric,
    Reported, Run, merge,
};
use cascade_traces::trace::Trace;

use crate::{reported, run, runs};

const SMALL: &str = "
title: Small lengths
about: Every rule.
source: a test
kind: lengths
models: { demo: demo-t5, paper: t5-xxl }
datasets: [problems, alpaca]
samples: 4
max_new_tokens: 24
metrics: [latency, speedup]
gain_of: Classifier
sampled: { temperature: 3, top_k: 50 }
assumed: { drafter: 0.15, row: 0.05 }
rows:
  - algorithm: Plain
    paper: [{ dataset: alpaca, metric: latency, value: 47.67 }]
  - algorithm: Fixed
    drafters: [small]
    grid: { k11: [2, 5] }
    paper:
      - { dataset: alpaca, metric: gain, value: 4.9 }
      - { dataset: alpaca, metric: draft-time, value: 23.2 }
  - algorithm: Grows
    drafters: [small]
    grid: { k11: [8], rules: [heuristic=5, confidence=0.4, adaptive_confidence=0.4, mdp=0.15] }
  - algorithm: Fixed, by latency
    drafters: [small]
    chosen_by: latency
    grid: { k11: [2, 5] }
  - algorithm: Classifier
    drafters: [small]
    grid: { k11: [8], rules: [classifier], classifiers: [\"\"], thresholds: [0.5] }
  - algorithm: Heads
    drafters: [small]
    grid: { k11: [8], heads: [w6-d0, w1-d0], thresholds: [0.5, 0.9] }
  - algorithm: Online
    drafters: [small]
    grid: { rules: [online] }
  - algorithm: Oracle
    drafters: [small]
    grid: { rules: [oracle] }
    paper: [{ dataset: alpaca, metric: oracle-length, value: 2.4 }]
heads:
  - { name: w6-d0, reject_weight: 6, depth: 0, train_kl: 0.657, eval_kl: 0.637, best: { alpaca: [18.67, 0.7] } }
  - { name: w1-d0, reject_weight: 1, depth: 0, train_kl: 0.422, eval_kl: 0.412, best: { alpaca: [18.48, 0.3] } }
splits:
  - { dataset: alpaca, training: 500, validation: 80, test: 80 }
recorded:
  assumed: { drafter: 0, row: 0.05 }
  gain_of: Online
  rows:
    - algorithm: Plain
    - algorithm: Fixed
      drafters: [mag-alone]
      grid: { k11: [1, 4, 12] }
    - algorithm: Match length
      drafters: [mag-alone]
      grid: { k11: [12], rules: [confidence=0.5, adaptive_confidence=0.4, heuristic=5] }
    - algorithm: Online
      drafters: [mag-alone]
      grid: { rules: [online] }
    - algorithm: Oracle
      drafters: [mag-alone]
      grid: { rules: [oracle] }
";

fn definition() -> Definition {
    cascade_demo::register();
    Definition::parse("lengths", SMALL).unwrap()
}

/// A classifier and a head that decide by what they read, without training.
fn write_rules(folder: &Path) {
    cascade_demo::register();
    let source = cascade_config::model_source("embedded:demo-t5-small").unwrap();
    let options = cascade_models::LoadOptions::default();
    let small = cascade_models::load(&source, &options).unwrap();
    let mut hidden = vec![0.0; CLASSIFIER_FEATURES];
    hidden[0] = 1.0;
    let classifier = ClassifierFile {
        weights: ClassifierWeights {
            mean: vec![0.0; CLASSIFIER_FEATURES],
            deviation: vec![1.0; CLASSIFIER_FEATURES],
            hidden,
            hidden_bias: vec![0.0],
            output: vec![8.0],
            output_bias: -4.0,
        },
        settings: ClassifierSettings::new("demo-t5-small", 0.3, 6),
    };
    fs::create_dir_all(folder.join("classifier")).unwrap();
    let file = folder.join("classifier/classifier.safetensors");
    fs::write(file, classifier.to_bytes().unwrap()).unwrap();
    let found = r#"{ "drafter": "another", "outputs": { "training": 70, "choice": 15, "held_out": 14 },
        "held_out": { "loss": 0.4, "f1": 0.815, "tokens": 9 }, "threshold": 0.3 }"#;
    fs::write(folder.join("classifier/classifier.json"), found).unwrap();
    let head = HeadFolder {
        weights: HeadWeights {
            layers: Vec::new(),
            output: vec![0.3; small.model.hidden_size()],
            output_bias: 0.5,
        },
        settings: Some(HeadSettings::new("demo-t5-small", 0.7)),
    };
    fs::create_dir_all(folder.join("head-w6-d0")).unwrap();
    for (name, bytes) in head.to_files().unwrap() {
        fs::write(folder.join("head-w6-d0").join(name), bytes).unwrap();
    }
}

fn prepare(rules: Option<&Path>) -> Result<Experiment, Error> {
    prepare_some(rules, None)
}

fn prepare_some(rules: Option<&Path>, limit: Option<usize>) -> Result<Experiment, Error> {
    let choice = Choice {
        limit,
        rules: rules.map(Path::to_owned),
        ..Choice::default()
    };
    let config = crate::demo();
    Experiment::prepare(&definition(), &config, &AssembleOptions::default(), &choice)
}

fn table<'a>(reported: &'a Reported, title: &str) -> &'a Table {
    let mut tables = reported.tables.iter();
    let found = tables.find(|table| table.title().ends_with(title));
    found.unwrap_or_else(|| panic!("no table {title}"))
}

/// The rows of a table, each by column.
fn rows(table: &Table) -> Vec<BTreeMap<String, String>> {
    let text = table.to_csv();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    let cell = row
        .get(column)
        .unwrap_or_else(|| panic!("{column} is none of {:?}", row.keys()));
    cell.parse()
        .unwrap_or_else(|_| panic!("{column}: {cell:?}"))
}

#[test]
fn every_rule_runs_and_the_tables_are_of_its_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, out) = (folder.path().join("rules"), folder.path().join("out"));
    write_rules(&rules);
    run(&prepare(Some(&rules)).unwrap(), &out, "1/1", false).unwrap();
    let runs = runs(&out);
    let variants = runs.len() / 4;
    // Plain, two lengths, four rules, two classifiers, one of the two heads, two schedules.
    assert_eq!((runs.len() % 4, variants), (0, 13));
    for prompt in runs.chunks(variants) {
        let oracle = prompt.last().unwrap();
        assert_eq!(oracle.variant, "small; oracle");
        // It drafts what is kept, so that nothing else needs fewer forwards of either model.
        assert_eq!((oracle.drafted, oracle.discarded()), (oracle.accepted, 0));
        for run in prompt {
            assert_eq!(
                (&run.output, run.differs),
                (&prompt[0].output, None),
                "{}",
                run.id
            );
            assert!(run.steps >= oracle.steps, "{}", run.id);
            assert!(run.draft_forwards() >= run.accepted);
            let drafts = run.drafted_at.first().copied().unwrap_or(0);
            assert!(run.whole.unwrap() <= drafts);
            let lengths: u64 = run.lengths.iter().map(|&length| u64::from(length)).sum();
            let steps = run.lengths.len() as u64;
            assert_eq!((lengths, steps), (run.drafted, run.steps), "{}", run.id);
        }
    }
    let reported = reported(&out);
    assert_eq!(reported.unequal, 0);
    let rates = rows(table(&reported, "rates and times"));
    assert_eq!(rates.len(), variants - 1);
    for rate in &rates {
        let of: Vec<&Run> = runs
            .iter()
            .filter(|run| run.variant == rate["variant"])
            .collect();
        let sum = |count: fn(&Run) -> u64| of.iter().map(|run| count(run)).sum::<u64>() as f64;
        let tokens = sum(|run| run.tokens);
        let discarded = sum(Run::discarded) / tokens;
        let verified = sum(|run| run.steps) / tokens;
        assert!((number(rate, "discard_rate_measured") - discarded).abs() < 1e-12);
        assert!((number(rate, "verification_rate_measured") - verified).abs() < 1e-12);
        let part = |name: &str| number(rate, &format!("{name}_ms_modelled"));
        let (base, total) = (part("t_draft"), part("per_token"));
        assert!((base * discarded - part("discarded")).abs() < 1e-9);
        assert!((base + part("discarded") + part("verified") - total).abs() < 1e-9);
        let target = part("verified") / verified + base;
        let lemma = Decomposition::of(discarded, verified, base, target);
        assert!((lemma.total() - total).abs() < 1e-9);
    }
    let markdown: Vec<String> = reported.tables.iter().map(Table::to_markdown).collect();
    for (title, said) in [
        (
            "speed",
            "Absent, as no --rules FOLDER has them: head-w1-d0.",
        ),
        ("speed", "cascade-lab train head"),
        ("speed", "best of 2, 2 absent"),
        ("speed", "best of 2 by latency"),
        ("speed", "47.67"),
        ("speed", "Trained for another drafter than demo-t5-small"),
        ("speed", "classifier for another."),
        ("speed", "decides by assumed ones"),
        ("gain of Classifier", "4.9"),
        ("times of forwards by regression", "Least squares"),
        ("heads", "0.637"),
        ("lengths of the oracle", "2.4"),
        ("decisions to go on", "81.5"),
        ("samples", "70"),
    ] {
        let text = table(&reported, title).to_markdown();
        assert!(text.contains(said), "{title}, {said}: {text}");
    }
    assert!(
        markdown.iter().all(|text| !text.contains("NaN")),
        "{markdown:?}"
    );
    assert!(
        reported.summary.contains("No verdict"),
        "{}",
        reported.summary
    );
    // The mean of the oracle's lengths, from its records.
    let oracle = &rows(table(&reported, "lengths of the oracle"))[0];
    let of = runs.iter().filter(|run| run.variant == "small; oracle");
    let (drafted, steps) = of.fold((0, 0), |sum, run| (sum.0 + run.drafted, sum.1 + run.steps));
    let mean = drafted as f64 / steps as f64;
    assert!(
        (number(oracle, "mean_length_measured") - mean).abs() < 1e-12,
        "{oracle:?}"
    );
    // Where a rule decided: F1 of the fixed length by hand, on the prompts that are reported on.
    let fixed = rows(table(&reported, "decisions to go on"))
        .into_iter()
        .find(|row| row["algorithm"] == "Fixed")
        .unwrap();
    let id = format!("small; {}", fixed["setting"]);
    let reported_on = runs.chunks(variants).skip(1).step_by(2);
    let of: Vec<&Run> = reported_on
        .flatten()
        .filter(|run| run.variant == id)
        .collect();
    let sum = |count: &dyn Fn(&Run) -> u64| of.iter().map(|run| count(run)).sum::<u64>();
    let went_on = sum(&|run| run.drafted - run.drafted_at[0]);
    let right = sum(&|run| run.accepted - run.whole.unwrap());
    let f1 = 200.0 * right as f64 / (went_on + sum(&|run| run.accepted)) as f64;
    assert!(
        (number(&fixed, "f1_percent_measured") - f1).abs() < 1e-9,
        "{fixed:?}"
    );
}

#[test]
fn sampled_as_the_paper_does_every_answer_is_plain_decodings() {
    let folder = tempfile::tempdir().unwrap();
    let out = |name: &str| folder.path().join(name);
    let prepare = |sampled| {
        let choice = Choice {
            sampled,
            limit: Some(3),
            ..Choice::default()
        };
        let (config, options) = (crate::demo(), AssembleOptions::default());
        Experiment::prepare(&definition(), &config, &options, &choice).unwrap()
    };
    run(&prepare(true), &out("sampled"), "1/1", false).unwrap();
    run(&prepare(false), &out("greedy"), "1/1", false).unwrap();
    let (sampled, greedy) = (runs(&out("sampled")), runs(&out("greedy")));
    let variants = sampled.len() / 3;
    for prompt in sampled.chunks(variants) {
        let oracle = prompt.last().unwrap();
        assert_eq!((oracle.drafted, oracle.discarded()), (oracle.accepted, 0));
        for run in prompt {
            let plain = (&prompt[0].output, None);
            assert_eq!((&run.output, run.differs), plain, "{}", run.id);
        }
    }
    let pairs = sampled.iter().zip(&greedy);
    assert!(pairs.clone().any(|(a, b)| a.output != b.output));
    let reported = reported(&out("sampled"));
    let text = table(&reported, "speed").to_markdown();
    assert!(text.contains("Sampled: temperature 3, top-k 50"), "{text}");
    // One is not the continuation of the other.
    let error = run(&prepare(false), &out("sampled"), "1/1", true).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("holds results of the experiment"),
        "{error}"
    );
    let choice = Choice {
        sampled: true,
        ..Choice::default()
    };
    let greedy = Definition::named("disco").unwrap();
    let (config, options) = (crate::demo(), AssembleOptions::default());
    let refused = Experiment::prepare(&greedy, &config, &options, &choice).err();
    assert_eq!(refused.map(|e| e.kind()), Some(ErrorKind::Request));
}

#[test]
fn results_are_a_function_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    write_rules(&at("rules"));
    let experiment = prepare_some(Some(&at("rules")), Some(2)).unwrap();
    run(&experiment, &at("whole"), "1/1", false).unwrap();
    let results = |name: &str| fs::read(at(name).join("results.jsonl")).unwrap();
    let whole = results("whole");
    // Killed between two variants of a prompt: the oracle still gets plain decoding's answer.
    let lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
    run(&experiment, &at("cut"), "1/2", false).unwrap();
    fs::write(at("cut/results.jsonl"), lines[..12].concat()).unwrap();
    run(&experiment, &at("cut"), "1/1", true).unwrap();
    assert_eq!(results("cut"), whole);
    run(&experiment, &at("a"), "1/2", false).unwrap();
    run(&experiment, &at("b"), "2/2", false).unwrap();
    merge(&[at("a"), at("b")], &at("both")).unwrap();
    assert_eq!(results("both"), whole);
    // Other weights of a rule, and none, are other experiments.
    let head = at("rules/head-w6-d0/model.safetensors");
    let mut bytes = fs::read(&head).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&head, bytes).unwrap();
    for rules in [Some(at("rules")), None] {
        let other = prepare_some(rules.as_deref(), Some(2)).unwrap();
        let error = run(&other, &at("whole"), "1/1", true)
            .unwrap_err()
            .to_string();
        assert!(error.contains("holds results of the experiment"), "{error}");
    }
}

#[test]
fn rules_that_are_not_there_are_refused_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = prepare(Some(folder.path())).err().unwrap().to_string();
    for said in ["head-w6-d0", "classifier", "cascade-lab train head"] {
        assert!(error.contains(said), "{said}: {error}");
    }
    fs::create_dir(folder.path().join("classifier")).unwrap();
    let error = prepare(Some(folder.path())).err().unwrap().to_string();
    assert!(
        error.contains("classifier.safetensors") && error.contains("--resume"),
        "{error}"
    );
    let replayed = replay(Some(folder.path())).err().unwrap().to_string();
    assert!(replayed.contains("leave --rules out"), "{replayed}");
    // Without the option, the table says what it lacks.
    let out = folder.path().join("out");
    let experiment = prepare(None).unwrap();
    run(&experiment, &out, "1/4", false).unwrap();
    let reported = reported(&out);
    let text = table(&reported, "speed").to_markdown();
    assert!(
        text.contains("classifier, head-w6-d0, head-w1-d0"),
        "{text}"
    );
    assert!(text.contains("| absent"), "{text}");
}

fn replay(rules: Option<&Path>) -> Result<Experiment, Error> {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces");
    let trace = Trace::open(traces.join("demo-llama-problems.jsonl")).unwrap();
    let choice = Choice {
        limit: Some(12),
        rules: rules.map(Path::to_owned),
        ..Choice::default()
    };
    let config = crate::demo();
    let recorded = (Arc::new(trace), None);
    let options = AssembleOptions::default();
    Experiment::prepare_replay(&definition(), &config, &options, &choice, recorded)
}

#[test]
fn recordings_are_replayed_with_max_gram() {
    let folder = tempfile::tempdir().unwrap();
    run(&replay(None).unwrap(), folder.path(), "1/1", false).unwrap();
    let runs = runs(folder.path());
    assert_eq!(runs.len(), 12 * 9);
    for prompt in runs.chunks(9) {
        let oracle = &prompt[8];
        assert_eq!(
            (&*oracle.variant, oracle.discarded()),
            ("mag without bigrams; oracle", 0)
        );
        for run in prompt {
            assert_eq!(
                (&run.output, run.differs),
                (&prompt[0].output, None),
                "{}",
                run.id
            );
            assert!(run.steps >= oracle.steps, "{}", run.id);
        }
    }
    // A rule on match length ends drafts early.
    let drafted = |id: &str| -> u64 {
        let of = runs.iter().filter(|run| run.variant.ends_with(id));
        of.map(|run| run.drafted).sum()
    };
    assert!(drafted("k11 12, confidence=0.5") < drafted("k11 12"));
    let reported = reported(folder.path());
    let speed = table(&reported, "speed");
    let text = speed.to_markdown();
    assert!(
        !text.contains("(measured)") && text.contains("assumed, in forwards"),
        "{text}"
    );
    assert!(text.contains("equals the recorded one"), "{text}");
    // Times are T = N_target + 0.05 · N_draft, as assumed.
    let best = &rows(speed)[1];
    let id = format!("mag without bigrams; {}", best["setting"]);
    let of: Vec<&Run> = runs
        .chunks(9)
        .skip(1)
        .step_by(2)
        .flatten()
        .filter(|run| run.variant == id)
        .collect();
    let tokens: u64 = of.iter().map(|run| run.tokens).sum();
    let time: f64 = of
        .iter()
        .map(|run| run.steps as f64 + 0.05 * run.drafted as f64)
        .sum();
    let found = number(best, "speed_plain_modelled");
    assert!((found - tokens as f64 / time).abs() < 1e-9, "{best:?}");
    let lengths = table(&reported, "lengths of the oracle").to_markdown();
    assert!(lengths.contains("problems, times\\_as\\_many"), "{lengths}");
    assert!(
        reported
            .tables
            .iter()
            .all(|table| !table.title().contains("regression"))
    );
}

#[test]
fn the_papers_tables_are_complete() {
    let figures = |name: &str, metric: Metric| -> Vec<(String, f64)> {
        let definition = Definition::named(name).unwrap();
        assert_eq!(definition.kind, ExperimentKind::Lengths);
        let rows = definition.rows.iter().flat_map(|row| &row.paper);
        let of = rows.filter(|figure| figure.metric == metric);
        of.map(|figure| (figure.dataset.clone(), figure.value))
            .collect()
    };
    for (name, metric, count) in [
        // Tables 1, 4 and 2 of SpecDec++.
        ("specdec", Metric::Walltime, 6),
        ("specdec", Metric::Speedup, 6),
        ("specdec", Metric::Gain, 3),
        ("specdec", Metric::DraftTime, 12),
        ("specdec", Metric::TargetTime, 12),
        ("specdec", Metric::R2, 9),
        // Tables 1, 2, 4 and 5 of DISCO.
        ("disco", Metric::Latency, 24),
        ("disco", Metric::Speedup, 24),
        ("disco", Metric::OracleLength, 4),
        ("disco", Metric::OracleDeviation, 4),
        ("disco", Metric::F1, 6),
        ("disco", Metric::Gain, 10),
    ] {
        assert_eq!(figures(name, metric).len(), count, "{name}, {metric:?}");
    }
    // Table 3 of SpecDec++.
    let specdec = Definition::named("specdec").unwrap();
    assert_eq!(specdec.heads.len(), 20);
    assert!(specdec.heads.iter().all(|head| head.best.len() == 3));
    let folders: Vec<String> = specdec.trained().iter().map(|name| name.folder()).collect();
    for head in &specdec.heads {
        assert_eq!(
            head.name,
            format!("w{}-d{}", head.reject_weight, head.depth)
        );
        assert!(
            folders.contains(&format!("head-{}", head.name)),
            "{}",
            head.name
        );
    }
    // The best of Table 3 are those of Table 1.
    for (dataset, best) in &figures("specdec", Metric::Walltime)[3..] {
        let speeds = specdec.heads.iter().map(|head| head.best[dataset].0);
        assert_eq!(speeds.fold(0.0, f64::max), *best, "{dataset}");
    }
    // Table 3 of DISCO.
    let disco = Definition::named("disco").unwrap();
    assert_eq!(disco.splits.len(), 4);
    // Table 5 follows from Table 1.
    let of = |algorithm: &str, dataset: &str, metric| {
        let mut rows = disco.rows.iter();
        let row = rows.find(|row| row.algorithm == algorithm).unwrap();
        row.figure(dataset, metric).unwrap().value
    };
    for dataset in ["mbpp", "humaneval", "cnn-dailymail", "alpaca"] {
        let plain = of("Target", dataset, Metric::Latency);
        for algorithm in [
            "dynHeur SL",
            "Static SL-5",
            "Static SL-opt",
            "DISCO",
            "Oracle",
        ] {
            let speedup = plain / of(algorithm, dataset, Metric::Latency);
            let printed = of(algorithm, dataset, Metric::Speedup);
            assert!(
                (speedup - printed).abs() < 0.011,
                "{algorithm}, {dataset}: {speedup}"
            );
        }
        for algorithm in ["dynHeur SL", "Static SL-opt"] {
            let other = of(algorithm, dataset, Metric::Latency);
            let gain = 100.0 * (1.0 - of("DISCO", dataset, Metric::Latency) / other);
            let printed = of(algorithm, dataset, Metric::Gain);
            assert!(
                (gain - printed).abs() < 0.15,
                "{algorithm}, {dataset}: {gain}"
            );
        }
    }
}

#[test]
fn definitions_that_compare_no_lengths_are_refused() {
    let with = |from: &str, to: &str| {
        assert!(SMALL.contains(from), "{from}");
        let text = SMALL.replace(from, to);
        Definition::parse("lengths", &text).unwrap_err().to_string()
    };
    for (from, to, said) in [
        (
            "kind: lengths",
            "kind: cascades",
            "does not compare these rows",
        ),
        (
            "metrics: [latency, speedup]",
            "metrics: [f1]",
            "give those of walltime, latency, speedup",
        ),
        (
            "assumed: { drafter: 0.15, row: 0.05 }",
            "notes: []",
            "`assumed` is missing",
        ),
        ("drafter: 0.15", "drafter: -1", "which are no costs"),
        (
            "sampled: { temperature: 3, top_k: 50 }",
            "sampled: { temperature: 0 }",
            "does not sample",
        ),
        (
            "sampled: { temperature: 3, top_k: 50 }",
            "sampled: { temperature: 1, top_k: 0 }",
            "top_k is 0",
        ),
        (
            "drafters: [mag-alone]\n      grid: { k11: [1, 4, 12] }",
            "drafters: [mag-alone]\n      chosen_by: latency\n      grid: { k11: [1, 4, 12] }",
            "chosen by latency, which is not measured",
        ),
        ("drafter: 0.15", "drafter: .nan", "which are no costs"),
        ("gain_of: Classifier", "gain_of: Luck", "names Luck"),
        (
            "rules: [heuristic=5, ",
            "rules: [luck, ",
            "there is no stop rule `luck`",
        ),
        (
            "{ rules: [oracle] }",
            "{ k11: [3], rules: [oracle] }",
            "leave k11 out",
        ),
        (
            "k11: [8], rules: [classifier]",
            "rules: [classifier]",
            "k11 is missing",
        ),
        (
            "rules: [confidence=0.5",
            "rules: [head=0.5",
            "only neural drafters compute",
        ),
        ("heads: [w6-d0,", "heads: [../w6,", "a name of letters"),
        (
            "thresholds: [0.5, 0.9]",
            "thresholds: [0.5, 9]",
            "is no probability",
        ),
    ] {
        let error = with(from, to);
        assert!(error.contains(said), "{to}: {error}");
    }
    let two = with(
        "drafters: [small]\n    grid: { k11: [2, 5] }",
        "drafters: [base, small]\n    matrices: [[[1, 1], [0, 1]]]",
    );
    assert!(two.contains("give it one drafter"), "{two}");
}
