//! `cascade run --batch`: several prompts at a time.

use serde_json::Value;

use crate::common::{cascade, error, project, stdout};

fn run(command: &str) -> std::process::Output {
    cascade(&command.split(' ').collect::<Vec<_>>())
}

/// What does not depend on how texts were drafted, or when.
fn answers(command: &str) -> Vec<Vec<Value>> {
    let told = ["id", "prompt", "text", "token_ids", "finish_reason"];
    stdout(&run(command))
        .lines()
        .map(|line| {
            let record: Value = serde_json::from_str(line).unwrap();
            told.iter().map(|name| record[*name].clone()).collect()
        })
        .collect()
}

#[test]
fn answers_are_those_of_one_at_a_time_and_in_the_order_of_the_prompts() {
    let settings = [
        ("t5", ""),
        ("llama", " --dtype q8_0 --temperature 1 --seed 5"),
    ];
    for (family, setting) in settings {
        let config = project(&format!("configs/demo-{family}.yaml"));
        let run = format!("run --config {config}{setting} --limit 7 --max-new-tokens 24 --json");
        let alone = answers(&run);
        assert_eq!(alone.len(), 7);
        for texts in [3, 16] {
            assert_eq!(
                answers(&format!("{run} --batch {texts}")),
                alone,
                "{setting}"
            );
        }
    }
}

#[test]
fn every_turn_follows_the_answers_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("turns.jsonl");
    let lines = (0..4).map(|i| format!("{{\"prompt\": [\"{i} + 2 =\", \"and 3?\"]}}\n"));
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    let run = format!(
        "run --config {} --template vicuna --prompts {} --max-new-tokens 8 --json",
        project("configs/demo-llama.yaml"),
        path.display()
    );
    let alone = answers(&run);
    assert_eq!(alone.len(), 8);
    assert_eq!(answers(&format!("{run} --batch 4")), alone);
}

#[test]
fn a_text_shows_all_answers_and_their_total() {
    let output = run("run --limit 3 --max-new-tokens 8 --batch 2");
    assert_eq!(stdout(&output).lines().count(), 3);
    let text = String::from_utf8(output.stderr).unwrap();
    let at = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("no {part}: {text}"))
    };
    assert!(
        at("[1/3]") < at("[2/3]") && at("[2/3]") < at("[3/3]"),
        "{text}"
    );
    assert!(at("[3/3]") < at("total: "), "{text}");
}

#[test]
fn comparing_and_no_text_at_all_are_refused() {
    assert!(error(&run("run --compare --batch 2")).contains("--compare"));
    assert!(error(&run("run --batch 0")).contains("--batch"));
}
