//! Drafting from a bigram table alone.

use std::sync::Arc;

use cascade_core::{Drafter, TokenId, TokenTree};

use super::BigramTable;

/// Proposes the most frequent successor of the context's last token, the most frequent successor of that one, and so on:
/// the statistical part of Max-Gram that needs no match. The source plays no part, and an empty context gives nothing.
#[derive(Clone, Debug)]
pub struct Bigram {
    table: Arc<BigramTable>,
}

impl Bigram {
    /// A drafter that reads from `table`. Its vocabulary must be the one of the contexts.
    pub fn new(table: Arc<BigramTable>) -> Self {
        Self { table }
    }
}

impl Drafter for Bigram {
    fn begin(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: usize) -> TokenTree {
        TokenTree::chain(self.table.chain(context.last().copied()).take(budget))
    }
}
