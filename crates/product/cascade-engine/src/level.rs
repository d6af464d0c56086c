//! A drafter of the cascade, with its name and its ledger.

use cascade_core::{Drafter, Scorer, TokenId};

use std::sync::Arc;

use cascade_verify::{ReviewRule, Rule};

use crate::{Branching, Error, Metered, Result, Reviewer, Usage};

pub(crate) type BoxedScorer = Box<dyn Scorer + Send>;
pub(crate) type BoxedDrafter = Box<dyn Drafter + Send>;

/// How a neural drafter reviews and drafts.
#[derive(Clone, Debug)]
pub struct NeuralOptions {
    /// The rule of its reviews when tokens are sampled.
    pub rule: Arc<dyn ReviewRule>,
    /// How its drafts branch.
    pub branching: Branching,
}

impl NeuralOptions {
    /// A rule and a shape.
    pub fn new(rule: impl ReviewRule + 'static, branching: Branching) -> Self {
        Self {
            rule: Arc::new(rule),
            branching,
        }
    }
}

impl Default for NeuralOptions {
    fn default() -> Self {
        Self::new(Rule::default(), Branching::default())
    }
}

/// A neural model and its name.
pub(crate) struct Neural {
    pub(crate) name: String,
    pub(crate) scorer: Metered<BoxedScorer>,
    /// How it reviews when tokens are sampled.
    pub(crate) rule: Arc<dyn ReviewRule>,
    /// How its drafts branch.
    pub(crate) branching: Branching,
}

impl Neural {
    pub(crate) fn new(name: String, scorer: BoxedScorer, options: NeuralOptions) -> Self {
        Self {
            name,
            scorer: Metered::new(scorer),
            rule: options.rule,
            branching: options.branching,
        }
    }

    pub(crate) fn as_reviewer(&self) -> Reviewer<'_> {
        Reviewer {
            name: &self.name,
            rule: &*self.rule,
            branching: &self.branching,
        }
    }

    pub(crate) fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        let begun = self.scorer.set_source(source);
        begun.map_err(|source| self.failed(source))
    }

    pub(crate) fn failed(&self, source: cascade_core::Error) -> Error {
        Error::Model {
            model: self.name.clone(),
            source,
        }
    }

    /// Tokens that may still follow a context of `context_len` before the model runs out of positions.
    pub(crate) fn room(&self, context_len: usize) -> Option<usize> {
        match self.scorer.max_context() {
            None => Some(usize::MAX),
            Some(limit) => limit.checked_sub(context_len),
        }
    }
}

/// One drafter.
pub(crate) enum Level {
    /// It reviews what the levels below it draft, and adds a token of its own.
    Neural(Neural),
    /// It proposes directly.
    Statistical {
        name: String,
        drafter: Metered<BoxedDrafter>,
    },
}

impl Level {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Neural(neural) => &neural.name,
            Self::Statistical { name, .. } => name,
        }
    }

    pub(crate) fn as_reviewer(&self) -> Option<Reviewer<'_>> {
        match self {
            Self::Neural(neural) => Some(neural.as_reviewer()),
            Self::Statistical { .. } => None,
        }
    }

    pub(crate) fn is_neural(&self) -> bool {
        matches!(self, Self::Neural(_))
    }

    pub(crate) fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        match self {
            Self::Neural(neural) => neural.set_source(source),
            Self::Statistical { drafter, .. } => {
                drafter.set_source(source);
                Ok(())
            }
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        match self {
            Self::Neural(neural) => neural.scorer.usage(),
            Self::Statistical { drafter, .. } => drafter.usage(),
        }
    }
}
