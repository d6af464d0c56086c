//! What tables are worth on recorded outputs, alone and under the Max-Gram tree.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_core::{Budget, Drafter};
use cascade_ngram::max_gram_tree::Weights;
use cascade_ngram::{MaxGramTree, MaxGramTreeOptions, NgramTable};
use serde::{Serialize, Serializer};

use super::{Forwards, NextTokens, TableDrafter};
use crate::trace::Traces;

/// Tokens of the chains that are tried.
pub const CHAIN: usize = 10;
/// Nodes of the trees that are tried.
pub const TREES: [usize; 4] = [8, 16, 32, 64];

/// A tree of so many nodes.
pub fn tree_of(nodes: usize) -> Budget {
    Budget {
        // A budget of as many nodes as depth would be one of chains.
        depth: nodes.saturating_sub(1).clamp(1, 24),
        nodes,
    }
}

/// Drafts that are tried, by name: a [chain](CHAIN) and [`TREES`].
pub fn budgets() -> Vec<(String, Budget)> {
    let chain = (format!("chain {CHAIN}"), Budget::chain(CHAIN));
    let trees = TREES.map(|nodes| (format!("tree {nodes}"), tree_of(nodes)));
    std::iter::once(chain).chain(trees).collect()
}

/// A comparison of tables on recorded outputs. The target's answers to rejected tokens, which help
/// the Max-Gram tree in a run, are not recorded.
pub struct TableValue<'a> {
    /// The outputs.
    pub traces: &'a Traces,
    /// The tables, of the traces' tokenizer.
    pub tables: &'a [Arc<NgramTable>],
    /// Weights of the Max-Gram tree; `None` for the shipped ones.
    pub weights: Option<&'a Weights>,
    /// Tokens of earlier outputs that it keeps to draft from.
    pub session_tokens: usize,
}

/// What tables are worth: replayed, not measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableReport {
    /// Names of the traces.
    pub replayed: Vec<String>,
    /// Records of all.
    pub records: usize,
    /// How well each table alone foresees the next token.
    pub tables: Vec<TableAlone>,
    /// Each table alone, then the Max-Gram tree without a table and with each.
    pub tokens_per_forward: Vec<Drafted>,
}

/// How well a table foresees the next token.
#[derive(Clone, Debug, PartialEq)]
pub struct TableAlone {
    /// Its file.
    pub table: String,
    /// Tokens of context.
    pub order: usize,
    /// Its size.
    pub bytes: usize,
    /// What it foresees.
    pub next: NextTokens,
}

impl Serialize for TableAlone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let next = &self.next;
        serde_json::json!({
            "table": self.table,
            "order": self.order,
            "bytes": self.bytes,
            "after_known_token": next.share(next.after_known_token),
            "after_known_pair": next.share(next.after_known_pair),
            "top_1": next.share(next.top_1),
            "top_8": next.share(next.top_8),
            "top_16": next.share(next.top_16),
            "nats_per_token": next.nats_per_token(),
        })
        .serialize(serializer)
    }
}

/// Tokens per forward of one drafter.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafted {
    /// The drafter.
    pub drafter: String,
    /// In the order of [`budgets`]: of all records and by category.
    pub budgets: Vec<(Forwards, BTreeMap<String, Forwards>)>,
}

impl Serialize for Drafted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named =
            budgets()
                .into_iter()
                .zip(&self.budgets)
                .map(|((name, _), (all, categories))| {
                    let of_categories = categories.iter();
                    let mut object = forwards(all);
                    object["categories"] = of_categories
                        .map(|(name, of)| (name.clone(), forwards(of)))
                        .collect();
                    (name, object)
                });
        let budgets: serde_json::Value = named.collect();
        serde_json::json!({ "drafter": self.drafter, "budgets": budgets }).serialize(serializer)
    }
}

fn forwards(of: &Forwards) -> serde_json::Value {
    serde_json::json!({
        "tokens": of.tokens,
        "forwards": of.forwards,
        "drafted": of.drafted,
        "accepted": of.accepted,
        "tokens_per_forward": of.tokens_per_forward(),
    })
}

impl TableValue<'_> {
    /// Outputs that are replayed: records, by drafters and budgets.
    pub fn count(&self) -> usize {
        self.drafters().len() * budgets().len() * self.traces.records().count()
    }

    /// Replays all of them. `on_record` is called before each and may end it; then there is no
    /// result.
    pub fn run(&self, mut on_record: impl FnMut() -> ControlFlow<()>) -> Option<TableReport> {
        let mut tokens_per_forward = Vec::new();
        for (drafter, begin) in self.drafters() {
            let mut drafted = Drafted {
                drafter,
                budgets: Vec::new(),
            };
            for (_, budget) in budgets() {
                let sums = self.replay(begin().as_mut(), budget, &mut on_record)?;
                drafted.budgets.push(sums);
            }
            tokens_per_forward.push(drafted);
        }
        let alone = self.tables.iter().map(|table| TableAlone {
            table: table.file().to_owned(),
            order: table.order(),
            bytes: table.as_bytes().len(),
            next: NextTokens::of(table, self.traces.records()),
        });
        let labels = self.traces.labels();
        Some(TableReport {
            replayed: labels.into_iter().map(str::to_owned).collect(),
            records: self.traces.records().count(),
            tables: alone.collect(),
            tokens_per_forward,
        })
    }

    /// For each name, how its drafters begin.
    #[allow(clippy::type_complexity)]
    fn drafters(&self) -> Vec<(String, Box<dyn Fn() -> Box<dyn Drafter> + '_>)> {
        type Begin<'b> = Box<dyn Fn() -> Box<dyn Drafter> + 'b>;
        let alone = self.tables.iter().map(|table| -> (String, Begin<'_>) {
            let begin = || -> Box<dyn Drafter> { Box::new(TableDrafter::new(Arc::clone(table))) };
            (format!("{} alone", table.file()), Box::new(begin))
        });
        let tree: (String, Begin<'_>) = ("Max-Gram tree".to_owned(), Box::new(|| self.tree(None)));
        let trees = self.tables.iter().map(|table| -> (String, Begin<'_>) {
            let name = format!("Max-Gram tree with {}", table.file());
            (name, Box::new(|| self.tree(Some(table))))
        });
        alone.chain([tree]).chain(trees).collect()
    }

    fn tree(&self, table: Option<&Arc<NgramTable>>) -> Box<dyn Drafter> {
        let options = MaxGramTreeOptions {
            session_tokens: self.session_tokens,
            hints: 0,
            learning_rate: 0.0,
            ..MaxGramTreeOptions::default()
        };
        let drafter = MaxGramTree::new(options, table.cloned());
        Box::new(match self.weights {
            Some(weights) => drafter.with_weights(weights.clone()),
            None => drafter,
        })
    }

    /// The sum over all records, and by category.
    fn replay(
        &self,
        drafter: &mut dyn Drafter,
        budget: Budget,
        on_record: &mut impl FnMut() -> ControlFlow<()>,
    ) -> Option<(Forwards, BTreeMap<String, Forwards>)> {
        let mut all = Forwards::default();
        let mut categories: BTreeMap<String, Forwards> = BTreeMap::new();
        for record in self.traces.records() {
            if on_record().is_break() {
                return None;
            }
            let forwards = Forwards::of(drafter, record, budget);
            all += forwards;
            if let Some(category) = &record.category {
                *categories.entry(category.clone()).or_default() += forwards;
            }
        }
        Some((all, categories))
    }
}
