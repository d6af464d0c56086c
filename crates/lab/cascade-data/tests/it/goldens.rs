//! The prompts of the recorded greedy outputs, which a script in another language built, come out
//! of our templates.

use std::path::PathBuf;

use cascade_data::{Dataset, PromptTemplate, Selection};

#[test]
fn templates_give_the_recorded_prompts() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for (golden, template) in [
        ("demo-t5-greedy.jsonl", PromptTemplate::T5Gsm8k),
        ("demo-llama-greedy.jsonl", PromptTemplate::VicunaGsm8k),
    ] {
        let golden = root.join("tests/goldens").join(golden);
        let recorded = Dataset::PROMPTS.read(&golden, Selection::ALL).unwrap();
        let questions = Dataset::Gsm8k
            .read(
                &root.join("crates/lab/cascade-demo/data/gsm8k/test.jsonl"),
                Selection::first(recorded.len()),
            )
            .unwrap();
        for (question, recorded) in questions.iter().zip(&recorded) {
            let prompt = recorded.prompt(PromptTemplate::Raw).unwrap();
            assert_eq!(question.prompt(template).unwrap(), prompt);
        }
    }
}
