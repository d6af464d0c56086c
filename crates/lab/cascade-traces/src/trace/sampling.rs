//! How a sampled recording was drawn.

use cascade_core::{Decoding, InvalidSampling, Sampling, TokenId};
use cascade_engine::Rule;
use serde::{Deserialize, Serialize};

use super::Record;
use crate::{Result, error};

/// Probabilities of a row sum to 1 up to rounding.
const ROUNDING: f64 = 1e-6;

/// The settings of a sampled recording. By the rule `coupled` its text is a function of them, of
/// the seed and of the prompt; other rules cannot be replayed, since their text depends on what is
/// drafted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedSampling {
    /// Always `coupled`.
    rule: String,
    /// Above 0.
    temperature: f32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top_k: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top_p: Option<f32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_p: Option<f32>,
    /// The seed of the recording; each record has its own, which was made of it.
    pub seed: u64,
    /// How many of the target's most probable tokens are recorded at each position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_probabilities: Option<usize>,
}

impl RecordedSampling {
    pub(super) fn new(sampling: &Sampling, seed: u64) -> Self {
        Self {
            rule: Rule::Coupled.to_string(),
            temperature: sampling.temperature(),
            top_k: sampling.top_k(),
            top_p: sampling.top_p(),
            min_p: sampling.min_p(),
            seed,
            top_probabilities: None,
        }
    }

    /// The transforms of the target's distribution.
    ///
    /// # Errors
    /// Settings out of range, which no trace that was read has.
    pub fn sampling(&self) -> Result<Sampling> {
        let invalid = |reason: InvalidSampling| error::not_a_trace("its header", reason);
        let decoding = Decoding::new(self.temperature, self.top_k, self.top_p, self.min_p);
        match decoding.map_err(invalid)? {
            Decoding::Sampled(sampling) => Ok(sampling),
            Decoding::Greedy => Err(invalid(InvalidSampling::Temperature(0.0))),
        }
    }

    pub(super) fn problem(&self) -> Option<String> {
        if self.rule != Rule::Coupled.to_string() {
            return Some(format!(
                "\"rule\" is {:?}, but only samples by \"{}\" can be replayed",
                self.rule,
                Rule::Coupled
            ));
        }
        let invalid = self.sampling().err();
        invalid.map(|error| format!("\"sampling\": {error}"))
    }

    /// Settings in words.
    pub(super) fn describe(decoding: Decoding) -> String {
        let Decoding::Sampled(sampling) = decoding else {
            return "greedy decoding".to_owned();
        };
        let mut words = format!("temperature {}", sampling.temperature());
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words += &format!(", {name} {value}");
            }
        };
        add("top_k", sampling.top_k().map(|k| k.to_string()));
        add("top_p", sampling.top_p().map(|p| p.to_string()));
        add("min_p", sampling.min_p().map(|p| p.to_string()));
        words
    }
}

impl std::fmt::Display for RecordedSampling {
    /// In one line: `temperature 0.8, top_p 0.95, seed 3`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Ok(sampling) = self.sampling() {
            f.write_str(&Self::describe(Decoding::Sampled(sampling)))?;
        }
        write!(f, ", seed {}", self.seed)
    }
}

/// What is wrong with the recorded probabilities of a record, of which there should be `asked` at
/// each position.
pub(super) fn problem_of_top(
    asked: Option<usize>,
    record: &Record,
    vocab_size: usize,
) -> Option<String> {
    let (most, rows) = match (asked, &record.top) {
        (None, None) => return None,
        (Some(most), Some(rows)) => (most, rows),
        (Some(_), None) => {
            return Some("\"top\" is missing: the header has \"top_probabilities\"".into());
        }
        (None, Some(_)) => {
            return Some("\"top\", but no \"top_probabilities\" in the header".into());
        }
    };
    if rows.len() != record.output.len() {
        let (rows, tokens) = (rows.len(), record.output.len());
        return Some(format!("{rows} rows of \"top\" for {tokens} output tokens"));
    }
    let improper = |row: &Vec<(TokenId, f32)>| {
        let sum: f64 = row.iter().map(|&(_, p)| f64::from(p)).sum();
        let outside = row
            .iter()
            .any(|&(id, p)| id as usize >= vocab_size || !(p > 0.0 && p <= 1.0));
        let ascends = row.windows(2).any(|pair| pair[0].1 < pair[1].1);
        row.is_empty() || row.len() > most || outside || ascends || sum > 1.0 + ROUNDING
    };
    let at = rows.iter().position(improper)?;
    Some(format!(
        "row {at} of \"top\" is no list of at most {most} tokens with their probabilities, greatest first"
    ))
}
