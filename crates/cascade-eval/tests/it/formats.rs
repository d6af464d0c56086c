//! Entries in the formats of the datasets, and as the hub's Parquet exports have them.

use std::path::{Path, PathBuf};

use cascade_eval::{Content, Dataset, PromptTemplate, Sample, Selection};
use serde_json::{Value, json};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn read(dataset: Dataset, name: &str) -> Vec<Sample> {
    dataset.read(&data(name), Selection::ALL).unwrap()
}

fn error(dataset: Dataset, path: &Path) -> String {
    let error = dataset.read(path, Selection::ALL).unwrap_err().to_string();
    let folder = path.parent().unwrap().display().to_string();
    error.replace(&format!("{folder}/"), "")
}

#[test]
fn parquet_and_the_own_format_give_the_same_samples() {
    for (dataset, own, count) in [
        (Dataset::Gsm8k, "gsm8k.jsonl", 4),
        (Dataset::Mmlu, "mmlu", 5),
        (Dataset::HumanEval, "humaneval.jsonl.gz", 2),
        (Dataset::Alpaca, "alpaca.json", 2),
        (Dataset::CnnDailyMail, "cnn_dailymail.jsonl", 2),
    ] {
        let own = read(dataset.clone(), own);
        assert_eq!(own.len(), count);
        let name = format!("parquet/{}.parquet", dataset.name().replace('-', "_"));
        assert_eq!(read(dataset, &name), own, "{name}");
    }
}

/// MBPP's columns are in another order on the hub, and MT-bench's have other names.
#[test]
fn parquet_of_other_columns_gives_the_same_content() {
    for (dataset, name, count) in [
        (Dataset::Mbpp, "mbpp", 3),
        (Dataset::MtBench, "mt_bench", 2),
    ] {
        let own = read(dataset.clone(), &format!("{name}.jsonl"));
        let hub = read(dataset, &format!("parquet/{name}.parquet"));
        assert_eq!((own.len(), hub.len()), (count, count));
        for (own, hub) in own.into_iter().zip(hub) {
            assert_eq!(
                Sample {
                    fields: Default::default(),
                    ..own
                },
                Sample {
                    fields: Default::default(),
                    ..hub
                }
            );
        }
    }
}

#[test]
fn samples_hold_what_the_files_say() {
    let mmlu = read(Dataset::Mmlu, "mmlu");
    let subjects: Vec<_> = mmlu.iter().filter_map(|s| s.category.as_deref()).collect();
    assert_eq!(subjects[..3], ["abstract_algebra"; 3]);
    assert_eq!(subjects[3..], ["anatomy"; 2]);
    let letters: Vec<_> = mmlu.iter().filter_map(Sample::reference).collect();
    assert_eq!(letters, ["B", "C", "D", "A", "B"]);

    let code = read(Dataset::HumanEval, "humaneval.jsonl.gz");
    assert_eq!(code[1].id, "HumanEval/1");
    assert_eq!(code[1].fields["entry_point"], "separate_words");
    assert!(
        code[0]
            .reference()
            .unwrap()
            .starts_with("    for idx, elem")
    );

    let task = &read(Dataset::Mbpp, "parquet/mbpp.parquet")[1];
    assert_eq!(task.id, "2");
    assert!(matches!(&task.content, Content::Task { tests, .. } if tests.len() == 3));
    assert_eq!(task.fields["challenge_test_list"], json!([]));

    let conversations = read(Dataset::MtBench, "mt_bench.jsonl");
    let [writing, reasoning] = &conversations[..] else {
        panic!("{conversations:?}");
    };
    assert_eq!(
        (writing.id.as_str(), writing.category.as_deref()),
        ("81", Some("writing"))
    );
    assert_eq!(writing.content.turns().len(), 2);
    assert_eq!(writing.references, Vec::<Vec<String>>::new());
    assert_eq!(
        reasoning.references,
        [
            ["You are in third place."],
            ["It depends on the length of the queue."]
        ]
    );

    let spec = read(Dataset::SpecBench, "spec_bench.jsonl");
    let told: Vec<_> = spec
        .iter()
        .map(|s| {
            (
                s.id.as_str(),
                s.category.as_deref().unwrap(),
                s.content.turns().len(),
            )
        })
        .collect();
    let expected = [
        ("101", "reasoning", 2),
        ("321", "qa", 1),
        ("401", "math_reasoning", 1),
    ];
    assert_eq!(told, expected);
    assert_eq!(spec[0].fields["question_id"], Value::from(101));
}

#[test]
fn a_conversation_of_spec_bench_is_vicunas() {
    let sample = &read(Dataset::SpecBench, "spec_bench.jsonl")[0];
    let answers = ["You are third.".to_owned()];
    assert_eq!(
        sample
            .prompt_after(PromptTemplate::Vicuna, &answers)
            .unwrap(),
        "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, \
         and polite answers to the user's questions. USER: In a queue, you step in front of the person in third place. \
         Which place do you have, and where is that person now? ASSISTANT: You are third.</s>USER: And if it was the \
         last person that you stepped in front of? ASSISTANT:"
    );
}

#[test]
fn a_window_of_rows_crosses_row_groups() {
    let all = read(Dataset::Gsm8k, "gsm8k.jsonl");
    let window = Selection {
        offset: 2,
        ..Selection::first(2)
    };
    let rows = Dataset::Gsm8k.read(&data("parquet/gsm8k.parquet"), window);
    assert_eq!(rows.unwrap(), all[2..]);
}

#[test]
fn any_string_column_holds_prompts() {
    let dataset: Dataset = "prompts:answer".parse().unwrap();
    let samples = read(dataset, "parquet/gsm8k.parquet");
    assert!(samples[0].content.turns()[0].contains("#### 18"));
    let dataset: Dataset = "prompts:questions".parse().unwrap();
    assert_eq!(
        error(dataset, &data("parquet/gsm8k.parquet")),
        "gsm8k.parquet, row 1: there is no field \"questions\"; the entry has question, answer; \
         name the dataset that the file is of, or one of its fields as prompts:FIELD"
    );
}

#[test]
fn rows_of_the_wrong_shape_are_named() {
    let error = |dataset, name| error(dataset, &data("parquet").join(name));
    assert_eq!(
        error(Dataset::HumanEval, "mbpp.parquet"),
        "mbpp.parquet, row 1: there is no field \"prompt\"; the entry has task_id, text, code, test_list, \
         test_setup_code, challenge_test_list; \
         name the dataset that the file is of, or one of its fields as prompts:FIELD"
    );
    assert_eq!(
        error(Dataset::Gsm8k, "nulls.parquet"),
        "nulls.parquet, row 2: the field \"answer\" must be a string, found null"
    );
    assert_eq!(
        error(Dataset::Gsm8k, "numbers.parquet"),
        "numbers.parquet, row 1: the field \"answer\" must be a string, found a number"
    );
    assert_eq!(
        error(Dataset::Gsm8k, "empty.parquet"),
        "empty.parquet: there are no samples in it"
    );
}

#[test]
fn damaged_parquet_files_are_errors() {
    let whole = std::fs::read(data("parquet/gsm8k.parquet")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.parquet");
    let message = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Dataset::Gsm8k
            .read(&path, Selection::ALL)
            .map_err(|_| error(Dataset::Gsm8k, &path))
    };
    for bytes in [&whole[..whole.len() / 2], &whole[..4], b"", b"not Parquet"] {
        let text = message(bytes).unwrap_err();
        assert!(
            text.starts_with("test.parquet, after row 0: not a whole Parquet file: "),
            "{text}"
        );
        assert!(text.ends_with("; download it again"), "{text}");
    }
    // Somewhere in the data: the rows that can be read may be wrong, but nothing panics.
    let mut errors = 0;
    for at in (4..whole.len()).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        errors += usize::from(message(&damaged).is_err());
    }
    assert!(errors > 5, "{errors}");
}
