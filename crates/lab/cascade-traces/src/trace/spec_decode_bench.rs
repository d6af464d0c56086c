//! Traces from the recordings of *Speculative Decoding: Performance or Illusion?* (arXiv
//! 2601.11580), which the simulator of SpecDecode-Bench publishes: token ids of prompts and
//! answers, and how many tokens a forward yields at each place with drafters of vLLM's.
//!
//! A file has one JSON object per line: `id`, `prompt_token_ids`, `generated_token_ids`, and for
//! each drafter `acc_NAME`, a list or an object with the list `acc_len`. The target is
//! decoder-only.

use std::collections::{BTreeMap, HashMap};

use cascade_core::TokenId;
use serde::Deserialize;

use super::{Finish, Header, Record, Trace};
use crate::{Result, error};

#[derive(Deserialize)]
struct Line {
    id: String,
    prompt_token_ids: Vec<TokenId>,
    generated_token_ids: Vec<TokenId>,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Lengths {
    Object { acc_len: Vec<usize> },
    List(Vec<usize>),
}

/// The records of a file, which messages refer to as `label`, and the tokens that end its answers:
/// those that stand at an end and nowhere else.
///
/// # Errors
/// A line that is not a recording; no records.
pub fn records(label: &str, file: &str) -> Result<(Vec<Record>, Vec<TokenId>)> {
    let lines = (1..).zip(file.lines());
    let lines = lines.filter(|(_, text)| !text.trim().is_empty());
    let record = |(line, text)| record(text).map_err(|problem| error::line(label, line, problem));
    let mut records = lines.map(record).collect::<Result<Vec<Record>>>()?;
    if records.is_empty() {
        return Err(error::no_records(label));
    }
    let ends = ends(&records);
    for record in &mut records {
        let ended = record.output.last().is_some_and(|last| ends.contains(last));
        record.finish = if ended { Finish::Eos } else { Finish::Length };
    }
    Ok((records, ends))
}

/// The trace of all records. One that does not fit its header is named by its line.
///
/// # Errors
/// As [`Trace::new`].
pub fn trace(label: &str, header: Header, records: Vec<Record>) -> Result<Trace> {
    Trace::named(label.to_owned(), header, records, |index, problem| {
        error::line(label, index + 1, problem)
    })
}

fn record(text: &str) -> std::result::Result<Record, String> {
    let line: Line = serde_json::from_str(text)
        .map_err(|error| format!("not a recording of SpecDecode-Bench: {error}"))?;
    let mut yields = BTreeMap::new();
    for (key, value) in line.others {
        let Some(name) = key.strip_prefix("acc") else {
            continue;
        };
        let lengths = serde_json::from_value(value)
            .map_err(|error| format!("\"{key}\" is no list of accepted lengths: {error}"))?;
        let (Lengths::Object { acc_len } | Lengths::List(acc_len)) = lengths;
        if let Some(place) = acc_len.iter().position(|&tokens| tokens == 0) {
            return Err(format!(
                "\"{key}\" has 0 tokens at place {place}, and a forward yields 1 or more"
            ));
        }
        let name = name.strip_prefix('_').unwrap_or("drafter");
        yields.insert(name.to_owned(), acc_len);
    }
    Ok(Record {
        id: line.id,
        category: None,
        turn: 1,
        source: Vec::new(),
        context: line.prompt_token_ids,
        output: line.generated_token_ids,
        margins: None,
        seed: None,
        top: None,
        yields,
        finish: Finish::Length,
    })
}

fn ends(records: &[Record]) -> Vec<TokenId> {
    let mut within: HashMap<TokenId, bool> = HashMap::new();
    for record in records {
        for (place, &token) in (1..).zip(&record.output) {
            *within.entry(token).or_default() |= place < record.output.len();
        }
    }
    let only_ends = within.into_iter().filter(|(_, within)| !within);
    let mut ends: Vec<TokenId> = only_ends.map(|(token, _)| token).collect();
    ends.sort_unstable();
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_records_with_what_drafters_yield() {
        let lines = [
            r#"{"id": "a", "prompt_token_ids": [1, 2], "generated_token_ids": [5, 6, 9], "acc_eagle": {"acc_len": [2, 1]}, "acc_ngram": {"acc_len": [1, 1, 1]}, "acc_eagle_three": [3, 2, 1]}"#,
            "",
            r#"{"id": "b", "prompt_token_ids": [1], "generated_token_ids": [6, 5], "acc": {"acc_len": [1, 1]}, "more": 1}"#,
        ];
        let (records, ends) = records("a.jsonl", &lines.join("\n")).unwrap();
        let [first, second] = &records[..] else {
            panic!("{records:?}")
        };
        assert_eq!(
            (&first.context[..], first.finish),
            (&[1, 2][..], Finish::Eos)
        );
        let names: Vec<_> = first.yields.keys().collect();
        assert_eq!(names, ["eagle", "eagle_three", "ngram"]);
        assert_eq!(first.yields["eagle"], [2, 1]);
        assert_eq!(second.yields["drafter"], [1, 1]);
        assert_eq!((second.finish, ends), (Finish::Length, vec![9]));
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        let fine = r#"{"id": "a", "prompt_token_ids": [1], "generated_token_ids": [5]}"#;
        for (line, problem) in [
            ("{}", "missing field"),
            (
                &fine.replace('}', r#", "acc_x": {"acc_len": [1, 0]}}"#),
                "\"acc_x\" has 0 tokens at place 1",
            ),
            (
                &fine.replace('}', r#", "acc_x": "long"}"#),
                "\"acc_x\" is no list",
            ),
        ] {
            let file = format!("{fine}\n{line}");
            let error = records("a.jsonl", &file).unwrap_err().to_string();
            assert!(
                error.starts_with("a.jsonl:2: ") && error.contains(problem),
                "{error}"
            );
        }
        let error = records("a.jsonl", "\n").unwrap_err().to_string();
        assert!(error.contains("no records"), "{error}");
    }
}
