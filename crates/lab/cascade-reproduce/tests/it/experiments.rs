//! Experiments from prompt to report, on the demo family.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use cascade_config::AssembleOptions;
use cascade_core::{Architecture, Budget, Drafter, Fingerprint, Scorer, TokenTree, Want};
use cascade_engine::Options;
use cascade_eval::DataSource;
use cascade_ngram::{MaxGram, PromptLookup};
use cascade_reproduce::{Choice, Definition, Error, ErrorKind, Experiment, Reported, Shard, merge};
use cascade_traces::trace::{Finish, Header, Record, Trace};
use serde_json::Value;

use crate::{reported, run, runs};

const SMALL: &str = "
title: A small comparison
about: Three cascades.
source: a test
kind: cascades
models: { demo: demo-t5, paper: t5-xxl }
datasets: [problems, gsm8k, mmlu]
stands_for: { problems: gsm8k }
samples: 3
max_new_tokens: 24
metrics: [model-size, walltime]
rows:
  - algorithm: Autoregressive
    paper: [{ dataset: gsm8k, metric: model-size, value: 1 }]
  - algorithm: S Decoding
    drafters: [base]
    grid: { k11: [2, 3] }
    paper: [{ dataset: gsm8k, metric: model-size, value: 3.38, setting: { k11: 3 } }]
  - algorithm: CS Drafting
    drafters: [small, mag]
    matrices: [[[1, 10], [0, 10]]]
";

const REPLAY: &str = "
title: A small replay
about: Two drafters.
source: a test
kind: replay
models: { demo: demo-t5, paper: t5-xxl }
max_new_tokens: 1024
rows:
  - algorithm: Prompt lookup
    drafters: [prompt-lookup]
  - algorithm: Max-Gram
    drafters: [mag-alone]
";

fn definition() -> Definition {
    cascade_demo::register();
    Definition::parse("small", SMALL).unwrap()
}

fn prepare(choice: &Choice) -> Result<Experiment, Error> {
    let config = crate::demo();
    Experiment::prepare(&definition(), &config, &AssembleOptions::default(), choice)
}

/// What the small comparison asks.
fn problems() -> Vec<cascade_eval::Sample> {
    let selection = cascade_eval::Selection::first(3);
    let dataset: cascade_eval::Dataset = "problems".parse().unwrap();
    dataset.made(selection).unwrap().unwrap()
}

fn experiment() -> Experiment {
    prepare(&Choice::default()).unwrap()
}

/// Also where some of the answers were there before. There are no times of single answers.
#[test]
fn a_run_of_several_prompts_at_a_time_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let experiment = experiment();
    run(&experiment, &at("whole"), "1/1", false).unwrap();
    let read = |folder: &str, file: &str| fs::read(at(folder).join(file)).unwrap();
    for (name, texts) in [("two", 2), ("many", 16)] {
        let whole = Shard::default();
        let texts = NonZeroUsize::new(texts).unwrap();
        let mut prompts = 0;
        let run = |resume, prompts: &mut usize| {
            experiment.run(&at(name), whole, resume, texts, || *prompts += 1)
        };
        run(false, &mut prompts).unwrap();
        assert_eq!(prompts, experiment.prompts(whole));
        for file in ["results.jsonl", "samples.jsonl"] {
            assert_eq!(read(name, file), read("whole", file), "{name} {file}");
        }
        assert!(read(name, "walltime.jsonl").is_empty());
        let all = read(name, "results.jsonl");
        fs::write(at(name).join("results.jsonl"), &all[..all.len() / 2]).unwrap();
        run(true, &mut prompts).unwrap();
        assert_eq!(read(name, "results.jsonl"), all);
        assert_eq!(reported(&at(name)).unequal, 0);
    }
}

#[test]
fn a_run_is_the_same_after_an_interruption_and_in_shards() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let experiment = experiment();
    run(&experiment, &at("whole"), "1/1", false).unwrap();
    let whole = fs::read(at("whole").join("results.jsonl")).unwrap();

    // Killed in the middle of a line, in the middle of a prompt.
    run(&experiment, &at("cut"), "1/1", false).unwrap();
    let middle = whole
        .iter()
        .enumerate()
        .filter(|&(_, &byte)| byte == b'\n')
        .nth(5)
        .unwrap()
        .0
        + 40;
    fs::write(at("cut").join("results.jsonl"), &whole[..middle]).unwrap();
    let times = fs::read(at("cut").join("walltime.jsonl")).unwrap();
    fs::write(at("cut").join("walltime.jsonl"), &times[..times.len() - 7]).unwrap();
    let refused = run(&experiment, &at("cut"), "1/1", false).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotResumed, "{refused}");
    run(&experiment, &at("cut"), "1/1", true).unwrap();
    assert_eq!(fs::read(at("cut").join("results.jsonl")).unwrap(), whole);
    assert_eq!(reported(&at("cut")).unequal, 0);

    // Samples that are lost are made again.
    let samples = |name: &str| fs::read(at(name).join("samples.jsonl")).unwrap();
    fs::remove_file(at("cut").join("samples.jsonl")).unwrap();
    run(&experiment, &at("cut"), "1/1", true).unwrap();
    assert_eq!(samples("cut"), samples("whole"));
    assert_eq!(fs::read(at("cut").join("results.jsonl")).unwrap(), whole);

    run(&experiment, &at("a"), "1/2", false).unwrap();
    run(&experiment, &at("b"), "2/2", false).unwrap();
    merge(&[at("b"), at("a")], &at("merged")).unwrap();
    assert_eq!(fs::read(at("merged").join("results.jsonl")).unwrap(), whole);
    assert_eq!(samples("merged"), samples("whole"));
    let (merged, one) = (reported(&at("merged")), reported(&at("whole")));
    let without_times = |reported: &Reported| {
        let csv = reported.tables[reported.overviews].to_csv();
        let columns = csv
            .lines()
            .map(|line| line.split(',').take(6).collect::<Vec<_>>().join(","));
        columns.collect::<Vec<_>>()
    };
    assert_eq!(without_times(&merged), without_times(&one));

    // Half of the shards make no whole.
    let half = merge(&[at("a")], &at("half")).unwrap_err().to_string();
    assert!(half.contains("lack"), "{half}");
}

#[test]
fn results_are_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    run(&experiment(), folder.path(), "1/1", false).unwrap();
    let runs = runs(folder.path());
    assert_eq!(runs.len(), 3 * 4);
    for prompt in runs.chunks(4) {
        let plain = &prompt[0];
        assert_eq!(
            (plain.steps, plain.drafted, plain.models[0].calls),
            (plain.tokens, 0, plain.tokens)
        );
        for run in prompt {
            assert_eq!(run.output, plain.output, "{}", run.id);
            assert_eq!(run.differs, None);
            assert_eq!(run.models[0].calls, run.steps);
            // Every step emits what was kept and one token more, but for the last, which an end
            // token may close.
            assert!(
                run.tokens == run.accepted + run.steps
                    || run.tokens + 1 == run.accepted + run.steps
            );
            assert_eq!(
                run.models.iter().map(|model| model.first).sum::<u64>(),
                run.tokens
            );
            assert_eq!(run.accepted_at.iter().sum::<u64>(), run.accepted);
            assert_eq!(run.drafted_at.iter().sum::<u64>(), run.drafted);
        }
        // Without anything below it, a drafter drafts one token per forward.
        assert_eq!(prompt[1].models[1].calls, prompt[1].drafted);
    }
    let reported = reported(folder.path());
    let (overviews, tables) = reported.tables.split_at(reported.overviews);
    let [beside, other] = overviews else {
        panic!("{overviews:?}");
    };
    let (beside, other) = (beside.to_text(100), other.to_text(100));
    for said in [
        "Summary: the best of each row on problems, and the paper's on gsm8k",
        "SWI, FLAN-T5 model sizes",
        "paper  ",
        "1 of 1 pairs of rows are in the paper's order.",
    ] {
        assert!(beside.contains(said), "{said}: {beside}");
    }
    let row = |name: &str| beside.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(row("Autoregressive").ends_with(" ="), "{beside}");
    assert!(
        row("S Decoding").contains("  3.38  ") && row("S Decoding").ends_with('%'),
        "{beside}"
    );
    assert!(row("CS Drafting").contains("  –  "), "{beside}");
    assert!(
        other.contains("× plain,") && !other.contains("paper  "),
        "{other}"
    );
    let markdown = tables[0].to_markdown();
    assert!(
        markdown.contains("SWI (paper)") && markdown.contains("SWI (modelled)"),
        "{markdown}"
    );
    assert!(markdown.contains("3.38"), "{markdown}");
    assert!(
        markdown.contains("Every output equals plain decoding's"),
        "{markdown}"
    );
    for said in [
        "mmlu was left out",
        "The paper's figures are of gsm8k.",
        "1 prompts. The best settings are chosen on 2 other prompts. Fewer than 30: no verdict.",
        "Endings: of 1 answers, ",
    ] {
        assert!(markdown.contains(said), "{said}: {markdown}");
    }
    assert!(
        reported.summary.contains("no verdict from 1 prompts"),
        "{}",
        reported.summary
    );
    let plain = markdown
        .lines()
        .find(|line| line.contains("Autoregressive"))
        .unwrap();
    assert!(plain.contains("1.00"), "{plain}");
    reported.report.write(folder.path()).unwrap();
    for file in ["table.md", "report.html", "manifest.json"] {
        assert!(folder.path().join(file).is_file(), "{file}");
    }
    let names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for (kind, extensions) in [("table-", &["csv", "tex"][..]), ("plot-", &["svg"])] {
        for extension in extensions {
            let is = |name: &&String| name.starts_with(kind) && name.ends_with(extension);
            assert!(names.iter().any(|name| is(&name)), "{extension}: {names:?}");
        }
    }
    let manifest: Value =
        serde_json::from_slice(&fs::read(folder.path().join("manifest.json")).unwrap()).unwrap();
    let hash = manifest["models"][0]["files"]["model-00001-of-00002.safetensors"]
        .as_str()
        .unwrap();
    assert_eq!(hash.len(), 64);
}

#[test]
fn reports_show_who_drafted_every_token() {
    let folder = tempfile::tempdir().unwrap();
    run(&experiment(), folder.path(), "1/1", false).unwrap();
    let html = reported(folder.path()).report.to_html().unwrap();
    assert_eq!(html.matches("<article class=\"sample\">").count(), 3);
    assert_eq!(html.matches("<ul class=\"legend\"").count(), 3);
    // The best cascade is the one with Max-Gram: the last of each prompt's four.
    let runs = runs(folder.path());
    for (run, article) in runs.chunks(4).zip(html.split("<article").skip(1)) {
        let run = &run[3];
        let answer = article.split("class=\"answer\"").nth(1).unwrap();
        assert_eq!(answer.matches("class=\"token ").count() as u64, run.tokens);
        assert_eq!(answer.matches("class=\"step\"").count() as u64, run.steps);
        for (model, class) in run.models.iter().zip(["target", "drafter-1", "drafter-2"]) {
            let tokens = answer.matches(&format!("class=\"token {class}\"")).count();
            assert_eq!(tokens as u64, model.first, "{class}");
        }
        let sample = &problems()[run.prompt.parse::<usize>().unwrap()];
        let first_word = sample.content.turns()[0].split(' ').next();
        assert!(article.contains(first_word.unwrap()), "{article}");
    }
    for reference in ["src=", "href=\"http", "url(http", "@import"] {
        assert!(!html.contains(reference), "{reference}");
    }
    let broken = folder.path().join("samples.jsonl");
    fs::write(&broken, "{}\n").unwrap();
    let config = crate::demo();
    let again = Experiment::prepare(
        &definition(),
        &config,
        &AssembleOptions::default(),
        &Choice::default(),
    );
    let error = run(&again.unwrap(), folder.path(), "1/1", true).unwrap_err();
    assert!(error.to_string().contains("line 1") && error.to_string().contains("delete the file"));
}

#[test]
fn plans_hold_hashes_of_all_files() {
    let plan = experiment().plan().clone();
    let files = |place: &str| {
        let model = plan.models.iter().find(|model| model.place == place);
        let files = &model.unwrap().weights.files;
        files
            .keys()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let rest = "config.json generation_config.json";
    assert_eq!(
        files("small"),
        format!("{rest} model.safetensors tokenizer.json")
    );
    let shards = "model-00001-of-00002.safetensors model-00002-of-00002.safetensors";
    assert_eq!(files("target"), format!("{rest} {shards} tokenizer.json"));
    assert_eq!(files("bigram table"), "embedded:demo");
    assert!(plan.max_gram.unwrap().contains("Earliest"));
}

/// The ledger of speculative decoding, recounted with sessions of our own and no cascade.
#[test]
fn counts_equal_a_recount() {
    let folder = tempfile::tempdir().unwrap();
    run(&experiment(), folder.path(), "1/1", false).unwrap();
    let config = crate::demo();
    let target = config
        .pool(&AssembleOptions::default())
        .target(&config)
        .unwrap();
    cascade_demo::register();
    let source = cascade_config::model_source("embedded:demo-t5-base").unwrap();
    let base = cascade_models::load(&source, &cascade_models::LoadOptions::default()).unwrap();
    let questions = problems();
    for (sample, runs) in questions.iter().zip(runs(folder.path()).chunks(4)) {
        let text = sample
            .prompt(cascade_eval::PromptTemplate::Problem)
            .unwrap();
        let source = cascade_core::TextCodec::encode(&target.tokenizer, &text).unwrap();
        let (mut big, mut little) = (target.session(), base.session());
        big.set_source(&source).unwrap();
        little.set_source(&source).unwrap();
        let eos = target.eos_token_ids[0];
        let next = |model: &mut dyn Scorer, context: &[u32]| {
            model
                .score(context, &TokenTree::default(), Want::ARGMAX)
                .unwrap()
                .argmax[0]
        };
        let (mut said, mut steps, mut drafted) = (Vec::new(), 0, 0);
        while said.len() < 24 && said.last() != Some(&eos) {
            let mut draft = said.clone();
            while draft.len() < said.len() + 3.min(23 - said.len()) && draft.last() != Some(&eos) {
                let token = next(&mut little, &draft);
                draft.push(token);
                drafted += 1;
            }
            steps += 1;
            for i in said.len()..=draft.len() {
                let token = next(&mut big, &said);
                said.push(token);
                if draft.get(i) != Some(&token) || token == eos {
                    break;
                }
            }
        }
        let run = &runs[2];
        assert_eq!(run.variant, "base; k11 3");
        assert_eq!(
            (run.tokens, run.steps, run.drafted),
            (said.len() as u64, steps, drafted)
        );
        assert_eq!(run.models[1].calls, drafted);
    }
}

#[test]
fn another_experiments_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    run(&experiment(), folder.path(), "1/3", false).unwrap();
    let other = prepare(&Choice {
        seed: 1,
        ..Choice::default()
    })
    .unwrap();
    let error = run(&other, folder.path(), "1/3", true)
        .unwrap_err()
        .to_string();
    assert!(error.contains("holds results of the experiment"), "{error}");
}

#[test]
fn bad_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.jsonl");
    fs::write(&empty, "").unwrap();
    let choice = Choice {
        data: [("gsm8k".to_owned(), DataSource::Local(empty))].into(),
        ..Choice::default()
    };
    let error = prepare(&choice).err().unwrap().to_string();
    assert!(error.contains("there are no samples in it"), "{error}");
    let other = folder.path().join("other.jsonl");
    fs::write(&other, "{\"quest\": \"How many?\", \"answer\": \"1\"}\n").unwrap();
    let choice = Choice {
        data: [("gsm8k".to_owned(), DataSource::Local(other))].into(),
        ..Choice::default()
    };
    let error = prepare(&choice).err().unwrap().to_string();
    assert!(
        error.contains("other.jsonl") && error.contains("question") && error.contains("quest"),
        "{error}"
    );
    let of = |names: &[&str]| Choice {
        datasets: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Choice::default()
    };
    let error = prepare(&of(&["mmlu"])).err().unwrap().to_string();
    assert!(error.contains("--data mmlu=PATH"), "{error}");
    let error = prepare(&of(&["mbpp"])).err().unwrap().to_string();
    assert!(error.contains("it has problems, gsm8k, mmlu"), "{error}");
    for text in ["0/2", "3/2", "1", "a/b", ""] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
    let nothing = cascade_reproduce::Plan::of_folder(folder.path())
        .unwrap_err()
        .to_string();
    assert!(nothing.contains("no folder of results"), "{nothing}");
}

/// The recorded answers that the project ships, as those of a model with another tokenizer.
fn excerpt() -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../traces");
    let trace = Trace::open(path.join("demo-llama-problems.jsonl")).unwrap();
    let options = Options::default().with_max_new_tokens(1024);
    let vocabulary = Fingerprint::from_stored("llama");
    let header = Header::measured(
        "another",
        Architecture::DecoderOnly,
        &vocabulary,
        trace.header.vocab_size,
        &options,
    );
    let records = trace.records.into_iter().map(|record| Record {
        finish: Finish::Length,
        ..record
    });
    Trace::new("excerpt", header, records.collect()).unwrap()
}

#[test]
fn some_records_of_a_recording_are_drawn_by_the_seed() {
    let definition = Definition::parse("replay", REPLAY).unwrap();
    let trace = Arc::new(excerpt());
    let ids = |limit, seed| -> Vec<String> {
        let choice = Choice {
            limit,
            seed,
            ..Choice::default()
        };
        let experiment = Experiment::prepare_replay(
            &definition,
            &crate::demo(),
            &AssembleOptions::default(),
            &choice,
            (trace.clone(), None),
        );
        let plan = experiment.unwrap().plan().clone();
        let asked = plan.suites[0].prompts.iter();
        asked.map(|asked| asked.id.clone()).collect()
    };
    let all = ids(None, 0);
    assert_eq!(all.len(), trace.records.len());
    let some = ids(Some(10), 0);
    assert_eq!(some, ids(Some(10), 0));
    assert_ne!(some, ids(Some(10), 1));
    assert_ne!(some, all[..10]);
    let places: Vec<_> = some
        .iter()
        .map(|id| all.iter().position(|known| known == id))
        .map(Option::unwrap)
        .collect();
    assert!(places.len() == 10 && places.is_sorted(), "{places:?}");
    assert_eq!(ids(Some(1000), 3), all);
}

#[test]
fn a_recording_with_another_tokenizer_is_refused() {
    let config = crate::demo();
    let replay = |text: &str, with_tokenizer: bool| {
        let definition = Definition::parse("replay", text).unwrap();
        let target = config
            .pool(&AssembleOptions::default())
            .target(&config)
            .unwrap();
        let recorded = (
            Arc::new(excerpt()),
            with_tokenizer.then(|| target.tokenizer.clone()),
        );
        let (options, choice) = (AssembleOptions::default(), Choice::default());
        let refused =
            Experiment::prepare_replay(&definition, &config, &options, &choice, recorded).err();
        refused.unwrap().to_string()
    };
    // The tokenizer to show it by, a bigram table, a drafter: each of another vocabulary.
    let error = replay(REPLAY, true);
    assert!(
        error.contains("excerpt was recorded with") && error.contains("--tokenizer"),
        "{error}"
    );
    let error = replay(&REPLAY.replace("mag-alone", "mag"), false);
    assert!(error.contains("tokenizer"), "{error}");
    let neural = REPLAY.replace("[mag-alone]", "[small], grid: { k11: [2] }");
    let error = replay(
        &neural.replace("drafters: [small], ", "drafters: [small]\n    "),
        false,
    );
    assert!(
        error.contains("vocabulary") || error.contains("tokenizer"),
        "{error}"
    );
}

#[test]
fn a_replay_counts_as_a_direct_comparison_does() {
    let definition = Definition::parse("replay", REPLAY).unwrap();
    let config = crate::demo();
    let trace = Arc::new(excerpt());
    let experiment = Experiment::prepare_replay(
        &definition,
        &config,
        &AssembleOptions::default(),
        &Choice::default(),
        (trace.clone(), None),
    );
    let folder = tempfile::tempdir().unwrap();
    run(&experiment.unwrap(), folder.path(), "1/1", false).unwrap();
    let runs = runs(folder.path());
    let direct = |drafter: &mut dyn Drafter, record: &Record| {
        let tokens = [record.context.as_slice(), &record.output].concat();
        drafter.set_source(&[]);
        let (mut at, mut forwards) = (record.context.len(), 0);
        while at < tokens.len() {
            let depth = 10.min(tokens.len() - at - 1);
            let draft = drafter
                .propose(&tokens[..at], Budget::chain(depth))
                .into_tree();
            let kept = draft
                .tokens()
                .zip(&tokens[at..])
                .take_while(|(a, b)| a == *b)
                .count();
            at += kept + 1;
            forwards += 1;
        }
        forwards
    };
    for (record, runs) in trace.records.iter().zip(runs.chunks(2)) {
        assert_eq!(
            runs[0].steps,
            direct(&mut PromptLookup::new(3), record),
            "{}",
            runs[0].id
        );
        assert_eq!(
            runs[1].steps,
            direct(&mut MaxGram::new(), record),
            "{}",
            runs[1].id
        );
        assert!(
            runs.iter()
                .all(|run| run.tokens == record.output.len() as u64 && run.differs.is_none())
        );
    }
    let reported = reported(folder.path());
    let markdown = reported.tables[0].to_markdown();
    assert!(
        markdown.contains("(replayed)") && !markdown.contains("(measured)"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| times\\_as\\_many") && markdown.contains("| all"),
        "{markdown}"
    );
    assert!(markdown.contains("Endings: of 50 answers, "), "{markdown}");
    // Without a tokenizer, samples have the tokens' numbers.
    let html = reported.report.to_html().unwrap();
    let token = trace.records[0].output[0];
    assert!(html.contains(&format!("<span class=\"blank\"> </span>{token}</span>")));
}
