//! Tokens per forward of a recorded target.

use std::ops::AddAssign;

use cascade_core::{Budget, Drafter, NodeId, Observation, ScoredTree, TokenId};
use serde::Serialize;

use crate::trace::Record;

/// What drafts are worth on recorded outputs: each step emits the accepted path and one token more,
/// by one forward of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Forwards {
    /// Tokens emitted.
    pub tokens: usize,
    /// Forwards of the target.
    pub forwards: usize,
    /// Nodes drafted.
    pub drafted: usize,
    /// Of these, those that were accepted.
    pub accepted: usize,
}

impl Forwards {
    /// Drafts the output of one record. The drafter observes every step; it may have learned from
    /// others before.
    pub fn of(drafter: &mut dyn Drafter, record: &Record, budget: Budget) -> Self {
        Self::watched(drafter, record, budget, |_, _| {})
    }

    /// The same, and hands every draft with the nodes that were accepted to `watch`. In the last
    /// step of an output, what is drafted beyond its end is not accepted.
    pub fn watched(
        drafter: &mut dyn Drafter,
        record: &Record,
        budget: Budget,
        mut watch: impl FnMut(&ScoredTree, &[NodeId]),
    ) -> Self {
        let text = [&record.context[..], &record.output].concat();
        let end = text.len();
        // Records end where the recording ended; their last token is drafted like any other.
        let mut at = record.context.len();
        let mut sum = Self::default();
        drafter.set_source(&record.source);
        while at < end {
            let (context, said) = text.split_at(at);
            let draft = drafter.propose(context, budget);
            let accepted = accepted(&draft, said);
            watch(&draft, &accepted);
            let emitted = &said[..said.len().min(accepted.len() + 1)];
            let argmax = argmax(&draft, &accepted, said);
            drafter.observe(&Observation::new(
                context,
                draft.tree(),
                &accepted,
                emitted,
                &argmax,
            ));
            sum += Self {
                tokens: emitted.len(),
                forwards: 1,
                drafted: draft.tree().len(),
                accepted: accepted.len(),
            };
            at += emitted.len();
        }
        sum
    }

    /// Mean acceptance length, the bonus token included; NaN without forwards.
    pub fn tokens_per_forward(&self) -> f64 {
        self.tokens as f64 / self.forwards as f64
    }
}

impl AddAssign for Forwards {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.forwards += other.forwards;
        self.drafted += other.drafted;
        self.accepted += other.accepted;
    }
}

/// The longest path from the root that begins what was said. Siblings differ, so there is one path
/// to follow.
fn accepted(draft: &ScoredTree, said: &[TokenId]) -> Vec<NodeId> {
    let mut path: Vec<NodeId> = Vec::new();
    for &token in said {
        match draft.tree().child(path.last().copied(), token) {
            Some(node) => path.push(node),
            None => break,
        }
    }
    path
}

/// What the target said after the context and each accepted node; after others it is unknown.
fn argmax(draft: &ScoredTree, accepted: &[NodeId], said: &[TokenId]) -> Vec<TokenId> {
    let mut argmax = vec![Observation::UNKNOWN; draft.tree().len() + 1];
    let nodes = std::iter::once(None).chain(accepted.iter().copied().map(Some));
    for (node, &token) in nodes.zip(said) {
        argmax[cascade_core::TokenTree::row(node)] = token;
    }
    argmax
}
