//! `cascade run --compare --rounds`: every round has sessions and drafters that know nothing.

use serde_json::Value;

use crate::common::{cascade, project, stdout};
use crate::line::{line, words};

/// What is said of each prompt, and of all.
fn compared(command: &str, given: &[&str]) -> (Vec<Value>, Value) {
    let text = stdout(&line(&format!("{command} --compare --json"), given));
    let mut records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut last = records.pop().unwrap();
    (records, last["compared"].take())
}

/// A figure of each round of a prompt.
fn by_round(record: &Value, key: &str) -> Vec<u64> {
    let rounds = record["rounds"].as_array().unwrap().iter();
    rounds.map(|round| round[key].as_u64().unwrap()).collect()
}

/// Where nothing depends on times, a round drafts what the first did: also the tree, which drafts
/// from its earlier answers, to other prompts of the round.
#[test]
fn every_round_is_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tree.yaml");
    let tree = "target: { model: embedded:demo-llama-target }\ndrafters: [{ max_gram_tree: {} }]\n\
                k: { matrix: [[7]] }\nprompt: problem\ngeneration: { max_new_tokens: 32 }\n";
    std::fs::write(&path, tree).unwrap();
    for config in [
        path.display().to_string(),
        project("configs/demo-llama-tree.yaml"),
    ] {
        let asked = "run --config {} --dataset problems --limit 3 --rounds 3";
        let (records, all) = compared(asked, &[&config]);
        assert_eq!(
            (records.len(), &all["prompts"], &all["rounds"]),
            (3, &3.into(), &3.into())
        );
        assert_eq!(all["equal_to_plain"], 3, "{all}");
        for record in &records {
            let steps = record["num_spec_steps"].as_u64().unwrap();
            assert!(steps < record["num_tokens"].as_u64().unwrap(), "{record}");
            assert_eq!(by_round(record, "num_spec_steps"), [steps; 3]);
            let read = by_round(record, "prefill_rows");
            assert!(read[0] > 0 && read == [read[0]; 3], "{read:?}");
        }
        let per_forward = all["mean_acceptance_length"].as_f64().unwrap();
        let sum = |key: &str| -> f64 { records.iter().map(|r| r[key].as_f64().unwrap()).sum() };
        let first = sum("num_tokens") / sum("num_spec_steps");
        assert!((per_forward - first).abs() < 1e-9, "{per_forward} {first}");
    }
}

/// The online schedule drafts by times, so steps may differ; the prompt is read in each round.
#[test]
fn no_round_of_the_online_schedule_has_the_prompt() {
    let asked = "run -m embedded:demo-llama-target --dataset problems --limit 5 --max-new-tokens 12 \
                 --rounds 2";
    let (records, all) = compared(asked, &[]);
    for record in &records {
        let read = by_round(record, "prefill_rows");
        assert!(read[0] > 0 && read[0] == read[1], "{read:?}");
    }
    let interval = all["cpu_speedup_interval"].as_array().unwrap();
    let [low, high] = [0, 1].map(|i| interval[i].as_f64().unwrap());
    let speedup = all["cpu_speedup"].as_f64().unwrap();
    assert!(low <= speedup && speedup <= high, "{all}");
    let below = all["prompts_below_plain"].as_u64().unwrap();
    let worst = all["worst_cpu_speedup"].as_f64().unwrap();
    assert!((below == 0) == (worst >= 1.0), "{all}");
    assert!((1..=5).contains(&all["worst_answer"].as_u64().unwrap()));
}

#[test]
fn one_prompt_has_no_interval_in_any_number_of_rounds() {
    let run = |more: &str| {
        let one = words("run --limit 1 --max-new-tokens 4 --compare", &[]);
        stdout(&cascade(&[&one[..], &words(more, &[])].concat()))
    };
    let text = run("--rounds 6");
    assert!(text.contains("(one prompt, 6 rounds)"), "{text}");
    assert!(run("").contains("(one prompt)"));
    let (records, all) = compared("run --limit 1 --max-new-tokens 4 --rounds 6", &[]);
    assert_eq!(by_round(&records[0], "num_spec_steps").len(), 6);
    assert!(all["speedup_interval"].is_null() && all["prompts"] == 1);
    let (once, _) = compared("run --limit 1 --max-new-tokens 4", &[]);
    assert!(once[0].get("rounds").is_none(), "{}", once[0]);
}
