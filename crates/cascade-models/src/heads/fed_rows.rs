//! The rows of a head: those of verified text, and those that it feeds with what it gave itself.

use cascade_core::{NodeId, TokenId, TokenTree};
use cascade_cpu::Cache;

use super::observed::Observed;
use super::recurrent::RecurrentNetwork;
use crate::plan::Plan;

/// Rows of verified text that are computed at a time, which bounds the memory that it takes.
const CHUNK: usize = 512;

/// Drafted rows that are kept at most: those of a step are tens.
const MOST_FED: usize = 4096;

/// Keys and values of a head, and the states that it gave. Row i reads token i + 1 and the state
/// after token i. Where the target's is known, the row is of verified text; all others are fed with
/// what the row before them gave, and are of use as long as the same text is verified.
#[derive(Debug)]
pub(super) struct Rows {
    /// Keys and values of the verified rows, then of the fed ones.
    cache: Cache,
    /// Which states the verified rows read.
    observed: u64,
    /// The first token that has a state, then that of each verified row.
    verified: Vec<TokenId>,
    /// What the last verified row gave.
    last: Vec<f32>,
    /// Tokens of the fed rows behind it.
    fed: TokenTree,
    /// What these gave.
    given: Vec<f32>,
}

impl Rows {
    /// None yet. Allocates nothing.
    pub(super) fn new(cache: Cache) -> Self {
        Self {
            cache,
            observed: 0,
            verified: Vec::new(),
            last: Vec::new(),
            fed: TokenTree::new(),
            given: Vec::new(),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.keep_verified(0);
    }

    /// Forgets all rows but the first `rows` of verified text.
    fn keep_verified(&mut self, rows: usize) {
        self.verified.truncate(if rows == 0 { 0 } else { rows + 1 });
        self.last.clear();
        self.forget_fed();
        self.cache.truncate(rows);
    }

    fn forget_fed(&mut self) {
        self.fed = TokenTree::new();
        self.given.clear();
        self.cache.truncate(self.verified.len().saturating_sub(1));
    }

    /// Computes the rows of verified text up to that which reads the last of `context`, and keeps
    /// those that there are. Gives how many were computed.
    ///
    /// The text of the head begins where its states do: what is before them it does not attend to,
    /// and as attention goes by distances, it is as if nothing were there.
    pub(super) fn verify(
        &mut self,
        network: &RecurrentNetwork,
        observed: &Observed,
        context: &[TokenId],
    ) -> usize {
        if self.observed != observed.number() {
            self.clear();
            self.observed = observed.number();
        }
        let first = observed.first();
        let text = &context[first..];
        if self.verified == text && !self.last.is_empty() {
            return 0;
        }
        let rows = text.len() - 1;
        let common = cascade_core::common_prefix(&self.verified, text);
        // What the last row gave is not kept of any other.
        let kept = common.saturating_sub(1).min(rows - 1);
        self.keep_verified(kept);
        let mut done = kept;
        while done < rows {
            let end = rows.min(done + CHUNK);
            let no_nodes = TokenTree::new();
            let plan = Plan::new(done, &text[done + 1..=end], &no_nodes);
            let states = network.enter(observed.rows(first + done..first + end));
            let given = network.forward(&plan, &states, &mut self.cache);
            self.last = given[given.len() - network.size()..].to_vec();
            done = end;
        }
        self.verified = text.to_vec();
        rows - kept
    }

    /// Computes the rows of `tree` behind the verified ones, as far as they are not there: level by
    /// level, since a row is fed with what its parent gave. Gives the place of each node, and how
    /// many of the first `counted` were computed.
    pub(super) fn feed(
        &mut self,
        network: &RecurrentNetwork,
        tree: &TokenTree,
        counted: usize,
    ) -> (Vec<NodeId>, usize) {
        if self.fed.len() + tree.len() > MOST_FED {
            self.forget_fed();
        }
        let (mut places, mut computed) = (vec![0; tree.len()], 0);
        for depth in 0..tree.height() {
            let before = self.fed.len();
            for node in (0..tree.len()).filter(|&node| tree.depth(node) == depth) {
                let parent = tree.parent(node).map(|parent| places[parent]);
                let token = tree.token(node);
                let known = self.fed.child(parent, token);
                computed += usize::from(known.is_none() && node < counted);
                places[node] = known.unwrap_or_else(|| self.fed.push(token, parent));
            }
            self.grow(network, before);
        }
        (places, computed)
    }

    /// Computes the fed rows from number `before` on, whose parents are computed.
    fn grow(&mut self, network: &RecurrentNetwork, before: usize) {
        if before == self.fed.len() {
            return;
        }
        let mut states = Vec::with_capacity((self.fed.len() - before) * network.size());
        for node in before..self.fed.len() {
            states.extend_from_slice(self.given(network, self.fed.parent(node)));
        }
        let verified = self.verified.len() - 1;
        let plan = Plan::growing(verified, &self.fed, before);
        let given = network.forward(&plan, &states, &mut self.cache);
        self.given.extend(given);
    }

    /// What a fed row gave, or the last verified one.
    pub(super) fn given(&self, network: &RecurrentNetwork, row: Option<NodeId>) -> &[f32] {
        match row {
            None => &self.last,
            Some(row) => &self.given[row * network.size()..][..network.size()],
        }
    }
}
