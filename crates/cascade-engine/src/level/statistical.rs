//! A statistical drafter of a cascade, its ledger, and the text that it was not told yet.

use std::time::Duration;

use cascade_core::{Budget, Guidance, Observation, ScoredTree, TokenId};

use super::{BoxedDrafter, failed};
use crate::Result;
use crate::contract::check_proposal;
use crate::draft_settings::DraftSettings;
use crate::ledger::Ledger;
use crate::policy::StopRule;

/// A statistical model and its name.
pub(crate) struct Statistical {
    pub(crate) name: String,
    pub(super) drafter: BoxedDrafter,
    pub(super) ledger: Ledger,
    pub(crate) stop_rule: Option<Box<dyn StopRule>>,
    untold: Untold,
    /// What learning of this text took since the last proposal.
    learning: Duration,
}

/// Text that a resting drafter was not told yet.
#[derive(Default)]
struct Untold {
    /// The text that the drafter was told, followed by the untold text.
    text: Vec<TokenId>,
    /// Where the untold text begins in `text`.
    start: usize,
}

impl Statistical {
    pub(crate) fn new(name: String, drafter: BoxedDrafter) -> Self {
        Self {
            name,
            drafter,
            ledger: Ledger::default(),
            stop_rule: None,
            untold: Untold::default(),
            learning: Duration::ZERO,
        }
    }

    /// Puts a step off, until the drafter proposes again in this generation: then it is given the
    /// text of all such steps at once.
    pub(super) fn rest(&mut self, step: &Observation<'_>) {
        let Untold { text, start } = &mut self.untold;
        if text.is_empty() {
            text.extend_from_slice(step.context);
            *start = text.len();
        }
        text.extend_from_slice(step.emitted);
    }

    /// Gives the drafter what was put off.
    fn catch_up(&mut self) {
        let Untold { text, start } = &mut self.untold;
        if !text.is_empty() {
            let (context, emitted) = text.split_at(*start);
            let step = Observation::of_text(context, emitted);
            self.ledger.timed(|| self.drafter.observe(&step));
            text.clear();
        }
    }

    /// How long the drafter took to learn since this was last taken.
    pub(crate) fn take_learning(&mut self) -> Duration {
        std::mem::take(&mut self.learning)
    }

    /// Lets the drafter learn from a step.
    pub(super) fn observe(&mut self, step: &Observation<'_>) {
        self.catch_up();
        let before = self.ledger.usage().time;
        self.ledger.timed(|| self.drafter.observe(step));
        self.learning += self.ledger.usage().time.saturating_sub(before);
    }

    pub(super) fn set_source(&mut self, source: &[TokenId]) {
        // A drafter that rests to the end does not pay for this text either.
        self.untold.text.clear();
        self.learning = Duration::ZERO;
        self.ledger.clear();
        self.ledger.timed(|| self.drafter.set_source(source));
    }

    pub(super) fn forget(&mut self) {
        self.untold.text.clear();
        self.drafter.forget();
    }

    /// Whether it mixes its estimates with a neural drafter's.
    pub(crate) fn takes_advice(&self) -> bool {
        self.drafter.takes_advice()
    }

    pub(crate) fn propose(
        &mut self,
        context: &[TokenId],
        budget: Budget,
        guidance: &mut Guidance<'_>,
        settings: &DraftSettings,
    ) -> Result<ScoredTree> {
        self.catch_up();
        let propose = || self.drafter.propose_with(context, budget, guidance);
        let proposed = self.ledger.timed(propose);
        self.ledger.count_proposal(proposed.tree().len());
        check_proposal(&proposed, budget, settings).map_err(|source| failed(&self.name, source))?;
        Ok(proposed)
    }
}
