//! Heads that feed on what they give: one layer, from row to row.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use cascade_core::{HiddenLayers, TokenId, TokenTree};
use cascade_cpu::Cache;

use super::fed_rows::Rows;
use super::observed::Observed;
use super::{HeadNetwork, Memory};
use crate::Result;
use crate::backend::cpu::{Cpu, CpuForward, Table};
use crate::backend::{BackendNetwork, Loader, ModelInfo, Vocabulary};
use crate::plan::Plan;

/// A layer that feeds on what it gives: what kinds of such heads differ in.
pub(super) trait Recurrent: Debug + Send + Sync {
    /// The target's states that it reads, side by side in the order in which a set gives them.
    fn observes(&self) -> HiddenLayers {
        HiddenLayers::LAST
    }

    /// What rows read of the target's states: by default, all of them.
    fn enter<'a>(&self, observed: &'a [f32]) -> Cow<'a, [f32]> {
        observed.into()
    }

    /// Rows of tokens beside `states`, one for each: to the states that follow them. `shared` is
    /// the target's embedding.
    fn rows(&self, forward: &mut CpuForward<'_>, states: &[f32], shared: &Table);

    /// What the next rows read in place of the target's states: by default, what these rows end
    /// with.
    fn give(&self, states: Vec<f32>) -> Vec<f32> {
        states
    }

    /// Logits over the target's vocabulary of what rows gave: by default, those of the target's
    /// output head, which `shared` has.
    fn logits(&self, given: &[f32], shared: &Vocabulary<'_, Cpu>) -> Vec<f32> {
        shared.logits(given)
    }
}

/// The embedding that a head's files have, if they have one.
pub(super) fn own_embedding(is_there: bool, loader: &mut Loader<'_, Cpu>) -> Result<Option<Table>> {
    let table = is_there.then(|| loader.table("embed_tokens", false));
    table.transpose()
}

/// A layer and what it shares with the target.
#[derive(Debug)]
pub(super) struct RecurrentNetwork {
    pub(super) layer: Box<dyn Recurrent>,
    pub(super) cpu: Cpu,
    pub(super) info: ModelInfo,
    pub(super) target: Arc<BackendNetwork<Cpu>>,
}

/// The largest number of a state. A head that does not belong to its target may give states that
/// grow from row to row, until nothing can be computed with them.
const LARGEST: f32 = 1e6;

/// Puts nothing in place of states that have grown too large to go on with.
fn forget_overflown(states: &mut [f32], size: usize) {
    for state in states.chunks_exact_mut(size) {
        if !state.iter().all(|x| x.abs() <= LARGEST) {
            state.fill(0.0);
        }
    }
}

impl RecurrentNetwork {
    /// Length of its states.
    pub(super) fn size(&self) -> usize {
        self.info.size
    }

    /// What rows read of the target's states.
    pub(super) fn enter<'a>(&self, observed: &'a [f32]) -> Cow<'a, [f32]> {
        self.layer.enter(observed)
    }

    /// What the rows of `plan` give, whose tokens stand beside `states`.
    pub(super) fn forward(&self, plan: &Plan<'_>, states: &[f32], cache: &mut Cache) -> Vec<f32> {
        let table = self.target.vocabulary().table;
        let write = |forward: &mut CpuForward<'_>| self.layer.rows(forward, states, table);
        let ends = self.cpu.run_fed(&self.info, plan, cache, write);
        let mut given = self.layer.give(ends);
        forget_overflown(&mut given, self.size());
        given
    }
}

impl HeadNetwork for RecurrentNetwork {
    fn observes(&self) -> HiddenLayers {
        self.layer.observes()
    }

    fn reach(&self, _: usize) -> Option<usize> {
        Some(usize::MAX)
    }

    fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    fn memory(self: Arc<Self>) -> Box<dyn Memory> {
        let cache = self.cpu.cache(self.info.cache_shape());
        Box::new(RecurrentMemory {
            rows: Rows::new(cache),
            network: self,
        })
    }
}

/// The rows of a session.
#[derive(Debug)]
struct RecurrentMemory {
    network: Arc<RecurrentNetwork>,
    rows: Rows,
}

impl RecurrentMemory {
    fn answer(
        &mut self,
        observed: &Observed,
        context: &[TokenId],
        tree: &TokenTree,
    ) -> (Vec<f32>, usize) {
        let network = &*self.network;
        let known = observed.of(context);
        let verified = self.rows.verify(network, observed, &context[..=known]);
        // The rest of the context, then the tree behind it.
        let rest = &context[known + 1..];
        let mut whole = TokenTree::chain(rest.iter().copied());
        let end = rest.len().checked_sub(1);
        for node in 0..tree.len() {
            let parent = tree.parent(node).map(|parent| rest.len() + parent);
            whole.push(tree.token(node), parent.or(end));
        }
        let (places, fed) = self.rows.feed(network, &whole, rest.len());
        let answered = std::iter::once(end).chain((rest.len()..whole.len()).map(Some));
        let states: Vec<f32> = answered
            .flat_map(|node| self.rows.given(network, node.map(|node| places[node])))
            .copied()
            .collect();
        let logits = network.layer.logits(&states, &network.target.vocabulary());
        (logits, verified + fed)
    }
}

impl Memory for RecurrentMemory {
    fn logits(
        &mut self,
        observed: &Observed,
        context: &[TokenId],
        tree: &TokenTree,
    ) -> (Vec<f32>, usize) {
        let network = Arc::clone(&self.network);
        network.cpu.scope(|| self.answer(observed, context, tree))
    }

    fn clear(&mut self) {
        self.rows.clear();
    }
}
