//! Drafters that were recorded with the answers of a trace, to compare a replay with.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Record;

/// The name of the longer of all at each place.
const LONGEST: &str = "longest";

/// What the recorded drafters of some records yield: tokens and forwards of each by its name, and
/// of the longest of them at each place.
///
/// Counted as those who recorded them do: the forward that reads the prompt yields one token, and
/// after n tokens the next one yields what is recorded for the place n − 1. A drafter whose list
/// has another length than the answer was recorded with another answer, and counts with its own;
/// the longest one goes as far as all lists do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct RecordedDrafters(BTreeMap<String, Yield>);

/// What a recorded drafter yields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Yield {
    /// Records.
    pub records: usize,
    /// Tokens.
    pub tokens: usize,
    /// Forwards of the target.
    pub forwards: usize,
    /// Records whose answer has another length.
    pub other_lengths: usize,
}

impl Yield {
    /// Tokens per forward.
    pub fn mean_acceptance_length(&self) -> f64 {
        self.tokens as f64 / self.forwards.max(1) as f64
    }

    fn add(&mut self, yields: &[usize], output: usize, limit: usize) {
        self.records += 1;
        self.other_lengths += usize::from(yields.len() != output);
        let all = yields.len().min(limit);
        let mut tokens = all.min(1);
        self.forwards += tokens;
        while tokens < all {
            tokens += yields[tokens - 1];
            self.forwards += 1;
        }
        self.tokens += all;
    }
}

impl RecordedDrafters {
    /// What the drafters of records yield, of which each is replayed up to a limit of tokens.
    pub fn of<'r>(records: impl IntoIterator<Item = &'r Record>, limit: usize) -> Self {
        let mut all = Self::default();
        for record in records {
            let output = record.output.len();
            for (name, yields) in &record.yields {
                all.named(name).add(yields, output, limit);
            }
            let lists = || record.yields.values();
            let places = lists().map(Vec::len).min().filter(|_| lists().len() > 1);
            if let Some(places) = places {
                let longest = |place: usize| lists().map(|list| list[place]).max().unwrap_or(1);
                let longest: Vec<usize> = (0..places).map(longest).collect();
                all.named(LONGEST).add(&longest, output, limit);
            }
        }
        all
    }

    fn named(&mut self, name: &str) -> &mut Yield {
        self.0.entry(name.to_owned()).or_default()
    }

    /// Each with its name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Yield)> {
        self.0.iter().map(|(name, of)| (name.as_str(), of))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::spec_decode_bench::records;

    #[test]
    fn forwards_are_counted_by_walking() {
        let lines = [
            r#"{"id": "a", "prompt_token_ids": [1], "generated_token_ids": [5, 6, 7, 8], "acc_x": [2, 9, 1, 1], "acc_y": [1, 1, 3, 1]}"#,
            r#"{"id": "b", "prompt_token_ids": [1], "generated_token_ids": [5, 6], "acc_x": [1, 1, 1]}"#,
        ];
        let (records, _) = records("a.jsonl", &lines.join("\n")).unwrap();
        let of = |limit| {
            let found = RecordedDrafters::of(&records, limit);
            let found = found
                .iter()
                .map(|(name, of)| (name.to_owned(), of.tokens, of.forwards, of.other_lengths));
            found.collect::<Vec<_>>()
        };
        // x: one token, two, and from the third place one; in b one by one. y: 1, 1, 1, and the
        // rest. The longest: 1, 2, 3.
        let expected = [("longest", 4, 3, 0), ("x", 4 + 3, 3 + 3, 1), ("y", 4, 4, 0)];
        let expected = expected.map(|(name, a, b, c)| (name.to_owned(), a, b, c));
        assert_eq!(of(usize::MAX), expected);
        let cut = [("longest", 2, 2, 0), ("x", 2 + 2, 2 + 2, 1), ("y", 2, 2, 0)];
        assert_eq!(of(2), cut.map(|(name, a, b, c)| (name.to_owned(), a, b, c)));
        assert!(RecordedDrafters::of([], 9).is_empty());
    }
}
