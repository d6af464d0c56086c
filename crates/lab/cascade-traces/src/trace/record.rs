//! One recorded output.

use std::collections::BTreeMap;

use cascade_core::{Prompt, TokenId};
use serde::{Deserialize, Serialize};

/// What identifies a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The sample's id in the dataset.
    pub id: String,
    /// Its subject or category, if the dataset has one.
    pub category: Option<String>,
    /// Turn of the conversation, from 1.
    pub turn: usize,
}

impl Subject {
    /// The first turn of a sample without a category.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            category: None,
            turn: 1,
        }
    }
}

/// A prompt and the target's output for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The sample's id in the dataset.
    pub id: String,
    /// Its subject or category, if the dataset has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Turn of the conversation, from 1.
    pub turn: usize,
    /// The prompt of an encoder-decoder model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<TokenId>,
    /// The prompt of a decoder-only model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<TokenId>,
    /// The target's tokens, the end token included if there was one.
    pub output: Vec<TokenId>,
    /// For each of them, the margin of its logit over the second greatest: how small a perturbation
    /// changes the choice. Absent if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "gaps")]
    pub margins: Option<Vec<f32>>,
    /// The seed of a sampled output: it determines the text, and what drafters draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// For each token of a sampled output, the most probable tokens of the distribution that it was
    /// drawn from and their probabilities, greatest first. Fewer than were asked for are all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top: Option<Vec<Vec<(TokenId, f32)>>>,
    /// What drafters yield that were recorded with the output, by their names: how many tokens a
    /// forward brings after the first token, after the second, and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub yields: BTreeMap<String, Vec<usize>>,
    /// Why the output ends.
    pub finish: Finish,
}

/// Why a recorded output ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model ended its text.
    Eos,
    /// The requested number of tokens was generated.
    Length,
    /// A stop sequence appeared.
    Stop,
    /// The target had no positions left.
    ContextFull,
}

impl Finish {
    /// `eos`, `length`, `stop` or `context_full`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eos => "eos",
            Self::Length => "length",
            Self::Stop => "stop",
            Self::ContextFull => "context_full",
        }
    }

    /// Whether the text is complete after the last token, rather than truncated.
    pub const fn ends_text(self) -> bool {
        matches!(self, Self::Eos | Self::Stop)
    }
}

impl Record {
    /// The prompt of the record.
    pub fn prompt(&self) -> Prompt {
        Prompt {
            source: self.source.clone(),
            context: self.context.clone(),
        }
    }
}
