//! Max-Gram as a tree: the most probable continuations by all matching contexts together.

mod config;
mod continuations;
pub mod fit;
mod hints;
mod history;
mod mixture;
mod ranking;
mod search;
mod session;
mod weights;

use std::sync::Arc;

use cascade_core::{
    Advice, AdvisedRow, Budget, Drafter, Guidance, NodeId, Observation, ScoredTree, TokenId,
    TokenTree,
};

pub use self::config::MaxGramTreeConfig;
use self::hints::{Choice, HINT_ORDERS, Hints, MOST_HINTS};
use self::history::{History, Keys, TextId};
use self::mixture::{Gradient, Mixture, Sources};
use self::search::{Buffers, Search};
use self::session::{Session, SessionAnswer, Store};
pub use self::weights::Weights;
use crate::NgramTable;

/// How probable a token is taken to be of which only is known that it is the most probable one.
const ARGMAX: f32 = 0.5;

/// Drafts the tree of the most probable continuations of the text, from counts alone.
///
/// Where Max-Gram copies what followed the longest match, this drafter asks all matches: contexts
/// of 1 to 24 tokens, contexts without their last token, how often tokens occur at all, a static
/// [`NgramTable`] and the answers to earlier requests, each a distribution of what followed. Their
/// mixture, with fitted [`Weights`] by kind, length, count and unanimity, is the probability of a
/// next token. A draft is grown best first: the node of the most probable path is appended, until
/// the budget is spent.
///
/// The text is the source followed by the context. A draft depends on them, the budget and what was
/// [observed](Drafter::observe) only. An observation feeds the session store and the hints (what
/// the target said after drafted tokens, which it often rejected) and moves the weights one step.
///
/// # Cost
/// A new token costs 16 hash table updates, and taking one back the same; a node costs as many
/// look-ups. Memory grows with the text: see `docs/max-gram.md`.
#[derive(Clone, Debug)]
pub struct MaxGramTree {
    options: MaxGramTreeConfig,
    /// The weights before it learned.
    fitted: Weights,
    weights: Weights,
    table: Option<Arc<NgramTable>>,
    source: Vec<TokenId>,
    history: History,
    store: Store,
    hints: Hints,
    /// The answer that is being generated, as far as the session does not have it.
    answer: SessionAnswer,
    /// The text after the last observation.
    observed: TextId,
    /// What a neural drafter said last, and of which text.
    advice: Advice,
    advised: TextId,
    buffers: Buffers,
}

impl Default for MaxGramTree {
    fn default() -> Self {
        Self::new(MaxGramTreeConfig::default(), None)
    }
}

impl MaxGramTree {
    /// A drafter that has seen nothing yet. The vocabulary of the table must be that of the
    /// contexts.
    pub fn new(options: MaxGramTreeConfig, table: Option<Arc<NgramTable>>) -> Self {
        let fitted = Weights::shipped(table.is_some(), options.session_tokens > 0);
        Self {
            fitted: fitted.clone(),
            weights: fitted,
            table,
            source: Vec::new(),
            history: History::default(),
            store: Store::new(options.session_tokens),
            options,
            hints: Hints::default(),
            answer: SessionAnswer::default(),
            observed: TextId::default(),
            advice: Advice::default(),
            advised: TextId::default(),
            buffers: Buffers::default(),
        }
    }

    /// A drafter for another text of the same owner that is generated at the same time: with the
    /// same settings, table and fitted weights, and with one store of answers for both.
    ///
    /// If answers are kept at all, such drafters share more. What one of them has observed, the
    /// others draft from at once, and not only when its text has ended. Their weights learn from
    /// all texts, because each text alone is too short to learn much from.
    #[must_use]
    pub fn for_another_text(&self) -> Self {
        Self {
            store: self.store.for_another_text(),
            ..Self::new(self.options.clone(), self.table.clone()).with_weights(self.fitted.clone())
        }
    }

    /// The drafter with other weights.
    pub fn with_weights(self, weights: Weights) -> Self {
        Self {
            fitted: weights.clone(),
            weights,
            ..self
        }
    }

    /// The weights, as learning has moved them.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    fn sources<'a>(&'a self, session: &'a Session) -> Sources<'a> {
        Sources {
            history: &self.history,
            table: self.table.as_deref(),
            session: (self.options.session_tokens > 0).then_some(&session.contexts),
            hints: (self.options.hints > 0).then_some(&self.hints),
        }
    }

    /// Reads the context of a step. If it does not continue the answer that was observed so far,
    /// that one is finished.
    fn begin(&mut self, context: &[TokenId]) {
        self.history.sync(&self.source, context);
        if self.history.id() != self.observed {
            let finished = std::mem::replace(&mut self.answer, SessionAnswer::after(context));
            self.store.lock().add(finished);
        }
    }

    /// Reads what followed, and lets `learn` move the weights by what they gave each token.
    fn read(&mut self, emitted: &[TokenId], mut learn: impl FnMut(&Gradient, &mut Weights)) {
        let known = self.history.id() == self.advised;
        let mut row = self.advice.root().filter(|_| known);
        for &token in emitted {
            let gradient = self.mixture(&self.store.lock(), row).gradient(token);
            learn(&gradient, &mut self.weights);
            self.history.push(token);
            row = row.and_then(|row| self.advice.next(row, token));
        }
        self.answer.extend(emitted);
    }

    /// Reads what followed.
    fn skip(&mut self, emitted: &[TokenId]) {
        emitted.iter().for_each(|&token| self.history.push(token));
        self.answer.extend(emitted);
    }

    /// The tree of the most probable continuations.
    fn search(&mut self, context: &[TokenId], budget: Budget, advice: &Advice) -> ScoredTree {
        if context.is_empty() || budget.depth == 0 || budget.nodes == 0 {
            return ScoredTree::default();
        }
        self.store.pull(&mut self.weights);
        self.history.sync(&self.source, context);
        let mut buffers = std::mem::take(&mut self.buffers);
        let session = self.store.lock();
        let search = Search {
            sources: self.sources(&session),
            weights: &self.weights,
            advice,
            budget,
            min_probability: self.options.min_probability,
            buffers: &mut buffers,
        };
        let draft = search.run();
        drop(session);
        self.buffers = buffers;
        draft
    }

    /// What is known of the next token, which `row` is about.
    fn mixture<'a>(&'a self, session: &'a Session, row: Option<AdvisedRow>) -> Mixture<'a> {
        let advised = row.map_or(&[][..], |row| self.advice.top(row));
        Mixture::new(
            self.sources(session),
            &self.weights,
            self.history.newest_first(),
            advised,
        )
    }

    /// Remembers what the target said after the drafted tokens, and after the context.
    fn remember(&mut self, observation: &Observation<'_>) {
        let draft = observation.draft;
        for row in 0..=draft.len() {
            let node = row.checked_sub(1);
            let mut choices: [Choice; MOST_HINTS] = [(0, 0.0); MOST_HINTS];
            let count = self.target_choices(observation, node, &mut choices);
            if count > 0 {
                let keys = keys_after(observation, node);
                for &key in keys.orders().iter().take(HINT_ORDERS) {
                    self.hints.set(key, &choices[..count]);
                }
            }
        }
    }

    /// Writes the target's most probable tokens after a node into `choices`, as far as they are
    /// worth remembering, and returns their number. If only the most probable token is known, it is
    /// not worth it after accepted nodes: there it is in the text.
    fn target_choices(
        &self,
        observation: &Observation<'_>,
        node: Option<NodeId>,
        choices: &mut [Choice; MOST_HINTS],
    ) -> usize {
        let row = TokenTree::row(node);
        let known = |&&(token, _): &&Choice| token != Observation::UNKNOWN;
        if let Some(top) = observation.top {
            let most = self.options.hints.min(MOST_HINTS);
            let known = top.row(row).iter().take(most).filter(known);
            let mut count = 0;
            for (place, &choice) in choices.iter_mut().zip(known) {
                *place = choice;
                count += 1;
            }
            return count;
        }
        let accepted = node.is_none_or(|node| observation.accepted.contains(&node));
        match observation.argmax.get(row) {
            Some(&token) if !accepted && token != Observation::UNKNOWN => {
                choices[0] = (token, ARGMAX);
                1
            }
            _ => 0,
        }
    }
}

/// The contexts that end with a node of the draft, or with what it continued.
fn keys_after(observation: &Observation<'_>, node: Option<NodeId>) -> Keys {
    let draft = observation.draft;
    let path =
        std::iter::successors(node, |&node| draft.parent(node)).map(|node| draft.token(node));
    let context = observation.context.iter().rev().copied();
    Keys::short(path.chain(context), HINT_ORDERS)
}

impl Drafter for MaxGramTree {
    fn set_source(&mut self, source: &[TokenId]) {
        source.clone_into(&mut self.source);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        self.search(context, budget, &Advice::default())
    }

    fn takes_advice(&self) -> bool {
        true
    }

    fn propose_with(
        &mut self,
        context: &[TokenId],
        budget: Budget,
        guidance: &mut Guidance<'_>,
    ) -> ScoredTree {
        let Some(advice) = guidance.advice else {
            return self.propose(context, budget);
        };
        let proposed = self.search(context, budget, advice);
        if self.options.learning_rate > 0.0 {
            self.advice.clone_from(advice);
            self.advised = self.history.id();
        }
        proposed
    }

    fn forget(&mut self) {
        self.weights = self.fitted.clone();
        *self.store.lock() = Session::new(self.options.session_tokens);
        self.hints = Hints::default();
        self.answer = SessionAnswer::default();
        self.observed = TextId::default();
        self.advice = Advice::default();
    }

    fn observed_top(&self) -> usize {
        // The most probable token alone is known anyway.
        match self.options.hints {
            0 | 1 => 0,
            hints => hints.min(MOST_HINTS),
        }
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        self.store.pull(&mut self.weights);
        self.begin(observation.context);
        if self.options.hints > 0 && !observation.is_text_alone() {
            self.remember(observation);
        }
        match self.options.learning_rate {
            // Learning takes as long as drafting: a drafter that rests is not to spend that.
            _ if observation.is_text_alone() => self.skip(observation.emitted),
            0.0 => self.skip(observation.emitted),
            rate => self.read(observation.emitted, |gradient, weights| {
                gradient.climb(rate, weights);
            }),
        }
        self.observed = self.history.id();
        self.store.push(&mut self.answer, &self.weights);
    }
}
