//! What one step of a generation did.

use std::time::Duration;

use cascade_core::{LevelId, TokenId};

use crate::{DraftNode, Finish, Step, TokenLogprobs, Usage};

/// One step: a draft, the target's verification of it, and the resulting tokens.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StepReport {
    /// Tokens that the step emitted, in order.
    pub tokens: Vec<TokenId>,
    /// The model that first proposed each token.
    pub proposers: Vec<LevelId>,
    /// The text that became final, piece by piece; empty without a codec. It may lag behind the
    /// tokens, as [`Event::Text`](crate::Event::Text) does.
    pub text: Vec<TextPiece>,
    /// Nodes that the target verified and accepted.
    pub step: Step,
    /// What each level did: drafted and accepted nodes, and usage; the target first.
    pub levels: Vec<LevelStep>,
    /// Where the time went.
    pub timings: StepTimings,
    /// For each emitted token, if [`Options::logprobs`](crate::Options::logprobs) asks for it;
    /// empty otherwise.
    pub logprobs: Vec<TokenLogprobs>,
    /// The draft, if [`Options::report_drafts`](crate::Options::report_drafts) asks for it; empty
    /// otherwise.
    pub draft: Vec<DraftNode>,
    /// Why the generation ended, if this was its last step.
    pub finish: Option<Finish>,
}

/// A piece of text, and the proposer of its token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPiece {
    /// The text, never empty.
    pub text: String,
    /// The model that first proposed its token.
    pub proposer: LevelId,
}

/// One level's part in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct LevelStep {
    /// Nodes of the target's draft that this level proposed first; 0 for the target.
    pub drafted: usize,
    /// How many of these the target accepted.
    pub accepted: usize,
    /// Forwards, rows and time of its model within the step. Encoding of the source is not
    /// included.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Where the time of a step went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepTimings {
    /// Drafting, including forwards of neural drafters.
    pub drafting: Duration,
    /// The target's forward.
    pub forward: Duration,
    /// Time from the target's scores to the verdict.
    pub verification: Duration,
    /// Time from the verdict to the last emitted token, including decoding of text,
    /// and learning from the step.
    pub emission: Duration,
}

impl StepTimings {
    /// Everything but the target's forward.
    pub fn overhead(&self) -> Duration {
        self.drafting + self.verification + self.emission
    }

    /// The whole step.
    pub fn total(&self) -> Duration {
        self.overhead() + self.forward
    }
}

impl StepReport {
    /// All text of the step.
    pub fn text(&self) -> String {
        self.text.iter().map(|piece| piece.text.as_str()).collect()
    }
}
