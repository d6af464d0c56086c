//! The output of a generation: tokens, steps, and what each model did.

use std::time::Duration;

use cascade_core::{LevelId, TokenId};

use crate::Usage;

/// The outcome of one prompt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GenerationOutput {
    /// Emitted tokens, the EOS token included if there was one.
    pub tokens: Vec<TokenId>,
    /// For each token, the model that proposed it first: [`LevelId::TARGET`] for bonus tokens.
    pub proposers: Vec<LevelId>,
    /// Their text, up to a stop sequence; `None` without a codec.
    pub text: Option<String>,
    /// Why it ended.
    pub finish: Finish,
    /// One entry for each forward of the target, in order.
    pub steps: Vec<Step>,
    /// What each model did, the target first.
    pub models: Vec<ModelUsage>,
    /// Time from the prompt's tokens to the last token.
    pub wall: Duration,
    /// The part of it up to the end of the first step, in which the prompt is read.
    pub first: Duration,
}

/// Why a generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model ended its text.
    Eos,
    /// The requested number of tokens was generated.
    MaxNewTokens,
    /// A stop sequence appeared.
    StopSequence(String),
    /// A token of the caller's ended it.
    StopToken(TokenId),
    /// The target has no positions left.
    ContextFull,
    /// The receiver of the events ended it, or it was abandoned between two steps.
    Cancelled,
}

impl Finish {
    /// `eos`, `length`, `stop`, `context_full` or `cancelled`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Eos => "eos",
            Self::MaxNewTokens => "length",
            Self::StopSequence(_) | Self::StopToken(_) => "stop",
            Self::ContextFull => "context_full",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One step: a draft and the target's review of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Nodes that the target verified.
    pub drafted: usize,
    /// Nodes that it accepted.
    pub accepted: usize,
}

/// What one model did.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ModelUsage {
    /// Its name.
    pub name: String,
    /// Its place in the cascade.
    pub role: Role,
    /// Its ledger: calls, rows and time.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A model's place in the cascade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Its output is emitted.
    Target,
    /// A neural drafter.
    Drafter,
    /// A statistical drafter.
    Statistical,
}

impl Role {
    /// `target`, `drafter` or `statistical`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Drafter => "drafter",
            Self::Statistical => "statistical",
        }
    }
}

impl GenerationOutput {
    /// Emitted tokens per forward of the target; the bonus token is included, so plain decoding has
    /// 1. 0 if nothing was generated.
    pub fn mean_acceptance_length(&self) -> f64 {
        ratio(self.tokens.len(), self.steps.len())
    }

    /// Share of drafted tokens that the target accepted; 0 if nothing was drafted.
    pub fn draft_acceptance_rate(&self) -> f64 {
        ratio(self.num_accepted_draft_tokens(), self.num_draft_tokens())
    }

    /// Drafted tokens that the target verified.
    pub fn num_draft_tokens(&self) -> usize {
        self.steps.iter().map(|step| step.drafted).sum()
    }

    /// Drafted tokens that the target accepted.
    pub fn num_accepted_draft_tokens(&self) -> usize {
        self.steps.iter().map(|step| step.accepted).sum()
    }

    /// Entry `i` counts the steps in which the target accepted `i` drafted tokens.
    pub fn acceptance_histogram(&self) -> Vec<usize> {
        let longest = self.steps.iter().map(|step| step.accepted).max();
        let mut histogram = vec![0; longest.map_or(0, |longest| longest + 1)];
        for step in &self.steps {
            histogram[step.accepted] += 1;
        }
        histogram
    }

    /// Tokens behind those of the first step, and the time that they took: generation without the
    /// reading of the prompt.
    pub fn after_first(&self) -> (usize, Duration) {
        let first = self.steps.first().map_or(0, |step| step.accepted + 1);
        let later = self.tokens.len().saturating_sub(first);
        (later, self.wall.saturating_sub(self.first))
    }

    /// Emitted tokens per second of wall time; 0 if nothing was generated.
    pub fn tokens_per_second(&self) -> f64 {
        if self.tokens.is_empty() {
            return 0.0;
        }
        self.tokens.len() as f64 / self.wall.as_secs_f64()
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}
