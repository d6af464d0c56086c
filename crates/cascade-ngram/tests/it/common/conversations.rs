//! Recorded conversations: of Vicuna, if the variable `CASCADE_VICUNA` names the folder that
//! `fixtures/README.md` describes, else the answers of the project's own demo model.

use std::fs;
use std::path::Path;

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
    match std::env::var_os("CASCADE_VICUNA") {
        Some(folder) => {
            let file = Path::new(&folder).join("vicuna_spec_bench.jsonl");
            let text = fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            text.lines().map(parse).collect()
        }
        None => of_the_demo(),
    }
}

/// Prompts and answers of a trace, each a conversation of one turn.
fn of_the_demo() -> Vec<Conversation> {
    println!("CASCADE_VICUNA names no folder: this runs on answers of the demo model instead");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("traces/demo-llama-problems.jsonl")).unwrap();
    let of_record = |line| {
        let value: Value = serde_json::from_str(line).unwrap();
        let tokens = |name: &str| -> Vec<u32> {
            let tokens = value[name].as_array().unwrap().iter();
            tokens.map(|t| t.as_u64().unwrap() as u32).collect()
        };
        let (context, output) = (tokens("context"), tokens("output"));
        let tokens = [context.as_slice(), &output].concat();
        Conversation {
            outputs: vec![(context.len(), tokens.len())],
            tokens,
        }
    };
    // The first line says what was recorded.
    text.lines().skip(1).map(of_record).collect()
}
