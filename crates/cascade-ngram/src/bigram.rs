//! Drafting from a bigram table alone.

use std::path::Path;
use std::sync::Arc;

use cascade_core::{Budget, Drafter, ScoredTree, TokenId, TokenTree};
use serde::{Deserialize, Serialize};

use crate::NgramTable;
use crate::branches::Branches;
use crate::config::{
    DrafterConfig, DrafterFactory, DrafterKey, Draw, OpenError, Resources, TableLocator, is_one,
    positive,
};

/// Proposes the most frequent successor of the context's last token, the most frequent successor of
/// that one, and so on: the statistical part of Max-Gram that needs no match. The source plays no
/// part, and an empty context gives nothing.
///
/// With a width above 1 and a budget of more nodes than depth, the chain gets siblings; see
/// [`with_width`](Self::with_width).
#[derive(Clone, Debug)]
pub struct Bigram {
    table: Arc<NgramTable>,
    width: usize,
}

impl Bigram {
    /// A drafter that reads from `table`. Its vocabulary must be the one of the contexts.
    pub fn new(table: Arc<NgramTable>) -> Self {
        Self { table, width: 1 }
    }

    /// The drafter with the `width` most frequent successors after the context's last token and
    /// after each token of the chain; only the most frequent one is continued. The chain takes
    /// precedence for the budget's nodes, then the siblings nearest to the context, by falling
    /// count, of equal counts the lower token. 0 and 1 are the same.
    ///
    /// A table holds only so many successors of a token as it was built to hold (`top_k` of its
    /// provenance); there are no more siblings than that.
    pub fn with_width(self, width: usize) -> Self {
        Self { width, ..self }
    }
}

impl Drafter for Bigram {
    fn set_source(&mut self, _source: &[TokenId]) {}

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let last = context.last().copied();
        let chain = self.table.chain(last);
        if budget.nodes <= budget.depth {
            return TokenTree::chain(chain.take(budget.nodes)).into();
        }
        let lead: Vec<TokenId> = chain.take(budget.depth).collect();
        let mut tree = Branches::new(&lead);
        tree.graft_followers(&self.table, last, 0, self.width);
        tree.within(budget.nodes).into()
    }
}

/// Settings of [`Bigram`]: `bigram: { table: TABLE, width: 1 }`, of which the width is the default.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a map, as `{ table: TABLE, width: 1 }`"
)]
#[non_exhaustive]
pub struct BigramConfig {
    /// The table.
    pub table: TableLocator,
    /// Successors proposed at each depth, as [`Bigram::with_width`].
    #[serde(
        default = "one",
        deserialize_with = "positive",
        skip_serializing_if = "is_one"
    )]
    pub width: usize,
}

impl BigramConfig {
    /// The most frequent successors alone.
    pub fn new(table: TableLocator) -> Self {
        Self { table, width: 1 }
    }
}

const fn one() -> usize {
    1
}

impl DrafterKey for BigramConfig {
    const KEY: &'static str = "bigram";
}

impl DrafterConfig for BigramConfig {
    fn open(&self, resources: &dyn Resources) -> Result<Arc<dyn DrafterFactory>, OpenError> {
        let table = resources
            .table(&self.table)
            .map_err(OpenError::at("bigram.table"))?;
        Ok(Arc::new(Bigram::new(table).with_width(self.width)))
    }

    fn files(&self) -> Vec<&Path> {
        self.table.file().into_iter().collect()
    }

    fn tables(&mut self) -> Vec<(&'static str, &mut TableLocator)> {
        vec![("bigram.table", &mut self.table)]
    }

    fn settings(&self) -> String {
        format!("width {}", self.width)
    }

    fn with_drawn_settings(&self, draw: &mut Draw<'_>) -> Option<Arc<dyn DrafterConfig>> {
        Some(Arc::new(Self {
            width: draw(1..4),
            ..self.clone()
        }))
    }
}

impl DrafterFactory for Bigram {
    fn drafter(&self) -> Box<dyn Drafter + Send> {
        Box::new(self.clone())
    }

    fn source(&self) -> String {
        self.table.file().to_owned()
    }
}
