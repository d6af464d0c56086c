//! All models of a cascade, and what is done with each of them.

use std::sync::Arc;

use cascade_core::{HiddenLayers, LevelId, Observation, PenalizedText, TokenId};

use super::{Level, Neural};
use crate::ledger::Ledger;
use crate::policy::Schedule;
use crate::{Clock, ModelUsage, Result, Role, Usage};

/// The target and its drafters, largest first.
pub(crate) struct Models {
    pub(crate) target: Neural,
    pub(crate) drafters: Vec<Level>,
}

impl Models {
    /// Names of all levels; the index is the [`LevelId`].
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let drafters = self.drafters.iter().map(Level::name);
        std::iter::once(self.target.name.as_str()).chain(drafters)
    }

    pub(crate) fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.target.set_source(source)?;
        let mut drafters = self.drafters.iter_mut();
        drafters.try_for_each(|level| level.set_source(source))
    }

    /// Sets the penalties of the next text, by which all models score.
    pub(crate) fn set_penalized(&mut self, text: Option<PenalizedText>) {
        for level in &mut self.drafters {
            if let Level::Neural(neural) = level {
                neural.penalized.clone_from(&text);
            }
        }
        self.target.penalized = text;
    }

    /// How many of the target's most probable tokens statistical drafters observe, as far as the
    /// target can tell. Those that rest observe none.
    pub(crate) fn observed_top(&self, schedule: &dyn Schedule) -> usize {
        let wanted = self.drafters.iter().zip(1..).map(|level| match level {
            (Level::Statistical(statistical), level) if !schedule.rests(LevelId(level)) => {
                statistical.drafter.observed_top()
            }
            _ => 0,
        });
        let most = self.target.info().max_top.unwrap_or(usize::MAX);
        wanted.max().unwrap_or(0).min(most)
    }

    /// Which hidden states of the target the levels observe.
    pub(crate) fn observed_hidden(&self) -> HiddenLayers {
        let levels = self.drafters.iter().map(Level::observed_hidden);
        levels.fold(HiddenLayers::NONE, HiddenLayers::union)
    }

    /// Lets statistical drafters and stop rules forget what they have learned.
    pub(crate) fn forget(&mut self) {
        for level in &mut self.drafters {
            if let Some(rule) = level.stop_rule_mut() {
                rule.forget();
            }
            if let Level::Statistical(statistical) = level {
                statistical.forget();
            }
        }
    }

    /// Lets statistical drafters forget the texts that they have observed, and stop rules what they
    /// have learned of them: the lengths of drafts would show it.
    pub(crate) fn forget_texts(&mut self) {
        for level in &mut self.drafters {
            if let Some(rule) = level.stop_rule_mut() {
                rule.forget();
            }
            if let Level::Statistical(statistical) = level {
                statistical.drafter.forget();
            }
        }
    }

    /// Lets all ledgers read a clock.
    pub(crate) fn set_clock(&mut self, clock: &Arc<dyn Clock>) {
        self.target.ledger.set_clock(Arc::clone(clock));
        for level in &mut self.drafters {
            level.ledger_mut().set_clock(Arc::clone(clock));
        }
    }

    /// What each level is, the target first.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let drafters = self.drafters.iter().map(Level::role);
        std::iter::once(Role::Target).chain(drafters).collect()
    }

    /// Lets drafters learn from a step of the target, statistical ones unless the schedule lets
    /// them rest.
    pub(crate) fn observe_step(
        &mut self,
        step: &Observation<'_>,
        schedule: &dyn Schedule,
    ) -> Result<()> {
        for (level, id) in self.drafters.iter_mut().zip(1..) {
            match level {
                Level::Neural(neural) => neural.observe(step)?,
                Level::Statistical(statistical) if schedule.rests(LevelId(id)) => {
                    statistical.rest(step);
                }
                Level::Statistical(statistical) => statistical.observe(step),
            }
        }
        Ok(())
    }

    /// What each model has done, by level.
    pub(crate) fn usage(&self) -> Vec<Usage> {
        let drafters = self.drafters.iter().map(Level::ledger);
        let ledgers = std::iter::once(&self.target.ledger).chain(drafters);
        ledgers.map(Ledger::usage).collect()
    }

    /// The usage of each model with its name and role.
    pub(crate) fn named_usage(&self) -> Vec<ModelUsage> {
        let named = self.names().zip(self.roles()).zip(self.usage());
        named
            .map(|((name, role), usage)| ModelUsage {
                name: name.to_owned(),
                role,
                usage,
            })
            .collect()
    }
}
