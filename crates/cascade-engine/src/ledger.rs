//! The ledger: calls, rows and time of each model.

use std::sync::Arc;
use std::time::Duration;

use cascade_core::{
    Budget, Choice, Drafter, Guidance, HiddenLayers, Observation, Result, ScoredTree, Scorer,
    ScorerInfo, Scores, SharedForward, TokenId, TokenTree, Want,
};

use crate::contract::check_scores;
use crate::{Clock, SystemClock};

/// What one model did during one generation, as counts to which costs can be applied later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Forwards of a neural model; proposals of a statistical one.
    pub calls: u64,
    /// Rows that were requested: N + 1 for a tree of N nodes. For a statistical model, tokens
    /// proposed.
    pub rows: u64,
    /// Additional rows, computed because the model had not yet seen tokens that others produced.
    pub catch_up_rows: u64,
    /// Rows of the prompt, in the first forward of a generation.
    pub prefill_rows: u64,
    /// Time spent in the model, including encoding of the source.
    pub time: Duration,
}

impl Usage {
    /// The difference to an `earlier` state.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            calls: self.calls - earlier.calls,
            rows: self.rows - earlier.rows,
            catch_up_rows: self.catch_up_rows - earlier.catch_up_rows,
            prefill_rows: self.prefill_rows - earlier.prefill_rows,
            time: self.time.saturating_sub(earlier.time),
        }
    }

    /// All rows computed.
    pub(crate) fn all_rows(&self) -> u64 {
        self.rows + self.catch_up_rows + self.prefill_rows
    }
}

/// Decorates a scorer or a drafter: records its usage, and rejects scores that violate the contract
/// of [`Scorer::score`].
#[derive(Clone, Debug)]
pub struct Metered<M> {
    model: M,
    usage: Usage,
    clock: Arc<dyn Clock>,
}

impl<M> Metered<M> {
    /// Wraps `model` with an empty ledger.
    pub fn new(model: M) -> Self {
        Self {
            model,
            usage: Usage::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// The model without its ledger.
    pub(crate) fn into_inner(self) -> M {
        self.model
    }

    /// Reads the time from another clock than the machine's.
    pub fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = clock;
    }

    /// What the model did since the last `set_source`.
    pub fn usage(&self) -> Usage {
        self.usage
    }
}

impl<S: Scorer> Scorer for Metered<S> {
    fn info(&self) -> ScorerInfo {
        self.model.info()
    }

    /// Resets the ledger.
    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.usage = Usage::default();
        let started = self.clock.now();
        let begun = self.model.set_source(source);
        self.usage.time += self.clock.now().saturating_sub(started);
        begun
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let started = self.clock.now();
        let scores = self.model.score(context, tree, want)?;
        self.usage.time += self.clock.now().saturating_sub(started);
        check_scores(
            &scores,
            context.len(),
            tree,
            want,
            self.model.info().vocab_size,
        )?;
        let wanted = tree.len() as u64 + 1;
        let others = (scores.rows_computed as u64).saturating_sub(wanted);
        if self.usage.calls == 0 {
            self.usage.prefill_rows += others;
        } else {
            self.usage.catch_up_rows += others;
        }
        self.usage.calls += 1;
        self.usage.rows += wanted;
        Ok(scores)
    }

    fn reach(&self, context: &[TokenId]) -> Option<usize> {
        self.model.reach(context)
    }

    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        let started = self.clock.now();
        let observed = self.model.observe(observation);
        self.usage.time += self.clock.now().saturating_sub(started);
        observed
    }

    fn shared_forward(&self) -> Option<SharedForward> {
        self.model.shared_forward()
    }
}

impl<D: Drafter> Drafter for Metered<D> {
    /// Resets the ledger.
    fn set_source(&mut self, source: &[TokenId]) {
        self.usage = Usage::default();
        let started = self.clock.now();
        self.model.set_source(source);
        self.usage.time += self.clock.now().saturating_sub(started);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        self.propose_with(context, budget, &mut Guidance::new(Choice::Greedy))
    }

    fn takes_advice(&self) -> bool {
        self.model.takes_advice()
    }

    fn propose_with(
        &mut self,
        context: &[TokenId],
        budget: Budget,
        guidance: &mut Guidance<'_>,
    ) -> ScoredTree {
        let started = self.clock.now();
        let proposed = self.model.propose_with(context, budget, guidance);
        self.usage.time += self.clock.now().saturating_sub(started);
        self.usage.calls += 1;
        self.usage.rows += proposed.tree().len() as u64;
        proposed
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        let started = self.clock.now();
        self.model.observe(observation);
        self.usage.time += self.clock.now().saturating_sub(started);
    }

    fn forget(&mut self) {
        self.model.forget();
    }

    fn observed_top(&self) -> usize {
        self.model.observed_top()
    }

    fn observed_hidden(&self) -> HiddenLayers {
        self.model.observed_hidden()
    }
}
