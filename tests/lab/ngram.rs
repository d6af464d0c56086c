//! Tables of order 2 and `cascade-lab ngram`, end to end.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::bigram::{build, error, names, run, shipped};
use crate::common::{self, project, stdout};

/// `cascade-lab ngram` with the words of a line.
fn ngram(folder: &Path, line: &str) -> Output {
    let words: Vec<&str> = std::iter::once("ngram")
        .chain(line.split_whitespace())
        .collect();
    let mut command = common::command(&words);
    command.current_dir(folder).output().unwrap()
}

fn trace(name: &str) -> String {
    project(&format!("traces/{name}-problems.jsonl"))
}

#[test]
fn builds_shows_and_compares_tables_of_order_2() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = "the cat sat\n\nthe cat ran\n\nthe dog sat\n\nthe cat sat\n";
    fs::write(folder.join("a.txt"), lines).unwrap();
    let order_2 = "--order 2 --unique-sentences";
    let said = stdout(&run(folder, &build("a.txt", "table", order_2)));
    for part in [
        "trigrams",
        "table: ",
        "1 sentences left out",
        "1,280 tokens and",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = stdout(&run(folder, "show table"));
    for part in [
        "order            2",
        "documents        4",
        "cascade-lab bigram build a.txt --tokenizer embedded:demo-t5 --unique-sentences --top-k 16 \
         --min-count 1 --order 2 --min-context 2",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = stdout(&run(folder, "show table --token ▁cat --top 1"));
    assert!(said.contains("\"▁cat\" continues 2 times"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    let pair = "show table --id 5 --id 1279";
    assert!(stdout(&run(folder, pair)).contains("nothing known"));
    let said = stdout(&run(folder, "show table --top 3"));
    assert!(said.contains("▁cat"), "{said}");

    stdout(&run(folder, &build("a.txt", "bigrams", "")));
    let said = stdout(&run(folder, "compare table bigrams"));
    assert!(said.contains("tokens") && said.contains("pairs"), "{said}");
    let another = format!("compare table {}", shipped("t5"));
    for (line, part) in [
        ("show table --id 1 --id 2 --id 3", "2 at most"),
        ("show table --id 2048", "outside"),
        ("show bigrams --id 1 --id 2", "1 at most"),
        (&*another, "another tokenizer"),
    ] {
        let message = error(&run(folder, line));
        assert!(message.contains(part), "{message}");
    }
    for (more, part) in [
        ("--order 3", "3 is not in 1..=2"),
        ("--order 2 --top-k 256", "at most 255"),
        ("--order 2 --top-k 0", "at least 1"),
    ] {
        let message = error(&run(folder, &build("a.txt", "none", more)));
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(names(folder), ["a.txt", "bigrams", "table"]);
}

/// Pieces of bytes, as LLaMA 3's: from what the model itself is read, into a table that it drafts
/// from.
#[test]
fn tables_of_byte_level_tokenizers_are_counted_and_drafted_from() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let model = root
        .join("tests/goldens/gguf/llama3-q8_0.gguf")
        .display()
        .to_string();
    fs::write(
        folder.join("text"),
        "the cat sat\n\nthe cat ran\n\nünï 猫\n",
    )
    .unwrap();
    let line = format!("build text --tokenizer {model} --order 2 --out table");
    let said = stdout(&run(folder, &line));
    assert!(said.contains("trigrams"), "{said}");
    let config = format!(
        "target: {{ model: {model} }}\ndrafters:\n  - max_gram_tree: {{ table: table }}\n\
         k: {{ matrix: [[7]] }}\ngeneration: {{ max_new_tokens: 8 }}\n"
    );
    fs::write(folder.join("tree.yaml"), config).unwrap();
    let mut cascade = common::command(&["run", "--config", "tree.yaml", "--compare", "the cat"]);
    let said = stdout(&cascade.current_dir(folder).output().unwrap());
    assert!(said.contains("equal to plain decoding"), "{said}");
}

#[test]
fn fit_makes_held_out_outputs_more_probable() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trace = trace("demo-llama");
    let fit = |more: &str| {
        let line = format!(
            "fit --trace {trace} --limit 20 --table embedded:demo --out weights.json {more}"
        );
        ngram(folder, &line)
    };
    let said = stdout(&fit("--holdout 0.25 --json"));
    let json: Value = serde_json::from_str(&said).unwrap();
    let passes = json["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 4);
    let nats = |judged: &Value, part: &str| judged[part]["nats_per_token"].as_f64().unwrap();
    for part in ["train", "held_out"] {
        let best = json["pass"].as_u64().unwrap() as usize;
        assert!(
            nats(&passes[best - 1], part) < nats(&json["before"], part),
            "{said}"
        );
    }
    // A file that is there is kept; the same weights come out again.
    let first = fs::read(folder.join("weights.json")).unwrap();
    assert!(error(&fit("")).contains("--force"));
    stdout(&fit("--holdout 0.25 --force"));
    assert_eq!(fs::read(folder.join("weights.json")).unwrap(), first);
    // Fitted weights can be fitted on, but not over the file that they come from.
    assert!(error(&fit("--weights weights.json --force")).contains("weights.json"));

    fs::write(folder.join("bad.json"), "{}").unwrap();
    assert!(error(&fit("--weights bad.json --force")).contains("cascade-lab ngram fit"));
    for (more, part) in [
        ("--holdout 1", "below 1"),
        ("--holdout 0.01", "to judge by"),
        ("--rate 0", "above 0"),
    ] {
        let message = error(&fit(&format!("{more} --force")));
        assert!(message.contains(part), "{message}");
    }
}
