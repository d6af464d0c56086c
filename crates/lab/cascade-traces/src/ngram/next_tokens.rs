//! How well a table alone foresees the next token.

use std::sync::Arc;

use cascade_ngram::NgramTable;
use serde::Serialize;

use super::TableDrafter;
use crate::trace::Record;

/// How well a table alone foresees the tokens of recorded outputs, each after the recorded text
/// before it. Estimates are those of [`TableDrafter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NextTokens {
    /// Tokens that were foreseen or not.
    pub tokens: usize,
    /// Of these, those after a token that the table knows.
    pub after_known_token: usize,
    /// Those after two tokens that the table knows.
    pub after_known_pair: usize,
    /// Those that were the most probable one.
    pub top_1: usize,
    /// Those among the 8 most probable ones.
    pub top_8: usize,
    /// Those among the 16 most probable ones.
    pub top_16: usize,
    /// The sum of -ln p(token).
    pub nats: f64,
}

impl NextTokens {
    /// Of all tokens of these records.
    pub fn of<'a>(table: &Arc<NgramTable>, records: impl IntoIterator<Item = &'a Record>) -> Self {
        let drafter = TableDrafter::new(Arc::clone(table));
        let mut sum = Self::default();
        for record in records {
            let mut text = record.source.clone();
            text.extend(&record.context);
            for &token in &record.output {
                let newest = &text[text.len().saturating_sub(table.order())..];
                sum.add(table, &drafter, newest, token);
                text.push(token);
            }
        }
        sum
    }

    fn add(&mut self, table: &NgramTable, drafter: &TableDrafter, newest: &[u32], token: u32) {
        let known = |length: usize| {
            let context = newest
                .len()
                .checked_sub(length)
                .map(|start| &newest[start..]);
            let known = length <= table.order() && context.and_then(|of| table.after(of)).is_some();
            usize::from(known)
        };
        self.tokens += 1;
        self.after_known_token += known(1);
        self.after_known_pair += known(2);
        let best = drafter.best(newest, 16);
        if let Some(rank) = best.iter().position(|next| next.0 == token) {
            self.top_1 += usize::from(rank == 0);
            self.top_8 += usize::from(rank < 8);
            self.top_16 += 1;
        }
        self.nats -= drafter.probability(newest, token).ln();
    }

    /// The mean of -ln p(token), the cross-entropy of the outputs under the table; NaN without
    /// tokens.
    pub fn nats_per_token(&self) -> f64 {
        self.nats / self.tokens as f64
    }

    /// A number of tokens as a share of all; NaN without tokens.
    pub fn share(&self, number: usize) -> f64 {
        number as f64 / self.tokens as f64
    }
}
