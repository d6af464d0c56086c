//! Recorded Vicuna conversations; see `fixtures/README.md`.

use serde_json::Value;

pub(crate) struct Conversation {
    pub(crate) tokens: Vec<u32>,
    /// Where the model's turns begin and end.
    pub(crate) outputs: Vec<(usize, usize)>,
}

pub(crate) fn conversations() -> Vec<Conversation> {
    let parse = |line| {
        let value: Value = serde_json::from_str(line).unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        let list = |value: &Value| value.as_array().unwrap().clone();
        Conversation {
            tokens: list(&value["tokens"])
                .iter()
                .map(|token| number(token) as u32)
                .collect(),
            outputs: list(&value["outputs"])
                .iter()
                .map(|range| (number(&range[0]) as usize, number(&range[1]) as usize))
                .collect(),
        }
    };
    include_str!("../../fixtures/vicuna_spec_bench.jsonl")
        .lines()
        .map(parse)
        .collect()
}
