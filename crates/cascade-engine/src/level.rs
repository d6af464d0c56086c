//! The models of a cascade, with their names, ledgers and drafting settings.

mod acceptance_watch;
mod models;
mod neural;
mod statistical;

use std::sync::Arc;

use cascade_core::{Drafter, HiddenLayers, LevelId, TokenId};

use crate::ledger::Ledger;
use crate::level_checks::LevelSpec;
use crate::policy::{Outcome, StopRule};
use crate::{Error, Result, Role};

pub(crate) use models::Models;
pub(crate) use neural::Neural;
pub use neural::NeuralOptions;
pub(crate) use statistical::Statistical;

/// Where a cascade says what the user should know while it generates.
pub(crate) type NoticeSink = Arc<dyn Fn(&str) + Send + Sync>;
pub(crate) type BoxedDrafter = Box<dyn Drafter + Send>;

/// One drafter.
pub(crate) enum Level {
    /// A model that reviews what the levels below it draft, and adds a token of its own.
    Neural(Neural),
    /// A drafter that proposes directly.
    Statistical(Statistical),
}

impl Level {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Neural(neural) => &neural.name,
            Self::Statistical(statistical) => &statistical.name,
        }
    }

    pub(crate) fn spec(&self) -> LevelSpec<'_> {
        match self {
            Self::Neural(neural) => LevelSpec::Neural(neural.spec()),
            Self::Statistical(statistical) => LevelSpec::Statistical {
                name: &statistical.name,
                takes_advice: statistical.takes_advice(),
            },
        }
    }

    pub(crate) fn stop_rule_mut(&mut self) -> &mut Option<Box<dyn StopRule>> {
        match self {
            Self::Neural(neural) => &mut neural.stop_rule,
            Self::Statistical(statistical) => &mut statistical.stop_rule,
        }
    }

    pub(super) fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        match self {
            Self::Neural(neural) => neural.set_source(source),
            Self::Statistical(statistical) => {
                statistical.set_source(source);
                Ok(())
            }
        }
    }

    /// Lets the level's stop rule learn from a review of a draft to which it contributed, and
    /// watches a head.
    pub(crate) fn observe_outcome(&mut self, level: LevelId, outcome: &Outcome<'_>) {
        if let Self::Neural(Neural {
            name,
            watch: Some(watch),
            ..
        }) = self
        {
            watch.observe(name, level, outcome);
        }
        let contributed = outcome.turns.iter().any(|turn| turn.turn.drafter == level);
        if let Some(rule) = self.stop_rule_mut().as_mut().filter(|_| contributed) {
            rule.observe(outcome);
        }
    }

    pub(crate) fn observed_hidden(&self) -> HiddenLayers {
        match self {
            Self::Neural(neural) => neural.info().observes,
            Self::Statistical(statistical) => statistical.drafter.observed_hidden(),
        }
    }

    pub(super) fn role(&self) -> Role {
        match self {
            Self::Neural(_) => Role::Drafter,
            Self::Statistical(_) => Role::Statistical,
        }
    }

    fn ledger(&self) -> &Ledger {
        match self {
            Self::Neural(neural) => &neural.ledger,
            Self::Statistical(statistical) => &statistical.ledger,
        }
    }

    fn ledger_mut(&mut self) -> &mut Ledger {
        match self {
            Self::Neural(neural) => &mut neural.ledger,
            Self::Statistical(statistical) => &mut statistical.ledger,
        }
    }
}

fn failed(model: &str, source: cascade_core::Error) -> Error {
    Error::Model {
        model: model.to_owned(),
        source,
    }
}
