//! A real chat model, which `scripts/real-model.sh` fetches.

use std::path::PathBuf;

use serde_json::Value;

use crate::common::{cascade, project, stdout};

/// A file of the real model. Where it is missing, the tests that want it say so and end.
fn real_model(name: &str) -> Option<String> {
    let folder = std::env::var_os("CASCADE_REAL_MODEL").map(PathBuf::from);
    let file = folder
        .unwrap_or_else(|| project("target/real-model").into())
        .join(name);
    if !file.exists() {
        eprintln!("skipped: there is no {file:?}, which scripts/real-model.sh fetches");
        return None;
    }
    Some(file.display().to_string())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The first place where two answers differ.
fn first_difference(one: &Value, other: &Value) -> Option<usize> {
    let (one, other) = (one.as_array().unwrap(), other.as_array().unwrap());
    let differ = |(place, (a, b))| (a != b).then_some(place);
    let equal_length = one.len().min(other.len());
    let mut pairs = one.iter().zip(other).enumerate();
    pairs
        .find_map(differ)
        .or_else(|| (one.len() != other.len()).then_some(equal_length))
}

/// Both sum in f32, in another order: they may differ where the two best logits nearly tie, and
/// nowhere else.
#[test]
fn greedy_answers_of_the_real_model_are_those_of_transformers() {
    let Some(model) = real_model("smollm2-q4_1.gguf") else {
        return;
    };
    let golden = lines(&std::fs::read_to_string(project("tests/real/greedy.jsonl")).unwrap());
    let questions = project("tests/real/questions.jsonl");
    let run = [
        "run",
        "-m",
        &model,
        "--dtype",
        "f32",
        "--chat",
        "--prompts",
        &questions,
    ];
    let more = ["--max-new-tokens", "48", "--batch", "16", "--json"];
    let answers = lines(&stdout(&cascade(&[&run[..], &more].concat())));
    assert_eq!(answers.len(), golden.len());
    for (answer, golden) in answers.iter().zip(&golden) {
        assert_eq!(answer["prompt"], golden["prompt"]);
        let place = first_difference(&answer["token_ids"], &golden["token_ids"]);
        let margin = golden["least_margin"].as_f64().unwrap();
        assert!(
            place.is_none() || margin < 1e-3,
            "{}: token {place:?}, margin {margin}",
            golden["id"]
        );
    }
}
