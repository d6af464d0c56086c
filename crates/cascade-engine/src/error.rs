//! Errors of building and running a cascade.

use cascade_core::{Architecture, HiddenLayer, LARGEST_FORWARD, LevelId};
use cascade_verify::InvalidLenience;

use crate::{DEFAULT_MAX_NODES, KMatrixError, LONGEST_STOP};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What an [`enum@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Parts of a cascade that are missing, given twice or not valid.
    Setup,
    /// Models, drafters and settings that do not fit each other.
    Mismatch,
    /// A prompt, or another part of a request, that cannot be answered.
    Request,
    /// A model failed.
    Model,
    /// The tokenizer failed.
    Tokenizer,
}

impl Error {
    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotJoint { .. }
            | Self::StopRuleOfJoint { .. }
            | Self::ScheduledDrafter { .. }
            | Self::KMatrixSize { .. }
            | Self::TooManyNodes { .. }
            | Self::InexactOrder { .. }
            | Self::NoSharedToken { .. }
            | Self::NoHiddenState { .. }
            | Self::ArchitectureMismatch { .. } => ErrorKind::Mismatch,
            Self::EmptyStopSequence
            | Self::LongStopSequences { .. }
            | Self::NoCodec
            | Self::EmptyPrompt
            | Self::PromptTooLong { .. }
            | Self::PromptLimit(_) => ErrorKind::Request,
            Self::Model { .. } => ErrorKind::Model,
            Self::Codec(_) => ErrorKind::Tokenizer,
            _ => ErrorKind::Setup,
        }
    }
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The builder was given no target.
    #[error("a cascade needs a target model; call `target` on the builder")]
    NoTarget,

    /// There are a K matrix and another schedule.
    #[error("a cascade has one schedule: call `k_matrix` or `schedule` on the builder, not both")]
    TwoSchedules,

    /// A stop rule was set before any drafter.
    #[error(
        "a stop rule belongs to the drafter before it; call `stop_rule` after adding a drafter"
    )]
    StopRuleWithoutDrafter,

    /// A drafter of most probable nodes has nobody below it whose probabilities it could join.
    #[error(
        "drafter `{drafter}` drafts the most probable nodes together with a statistical drafter below it, and {problem}; \
         add a drafter that mixes probabilities (the Max-Gram tree) with an entry in the row of `{drafter}`, \
         or expand the main path or all leaves"
    )]
    NotJoint {
        /// Name of the neural drafter.
        drafter: String,
        /// What is in the way.
        problem: String,
    },

    /// A stop rule for a drafter that drafts no token of its own.
    #[error(
        "drafter `{drafter}` drafts the most probable nodes, not one token after the other: \
         it has no use for a stop rule"
    )]
    StopRuleOfJoint {
        /// Name of the drafter.
        drafter: String,
    },

    /// A schedule requested a drafter that is not below the reviewer.
    #[error(
        "the schedule requests drafts of level {} for level {}, but only levels {} to {} are below it",
        drafter.0, reviewer.0, reviewer.0 + 1, last.0
    )]
    ScheduledDrafter {
        /// The level that reviews.
        reviewer: LevelId,
        /// The level that was to draft.
        drafter: LevelId,
        /// The smallest level.
        last: LevelId,
    },

    /// The K matrix does not fit the drafters.
    #[error(
        "the K matrix is {size} x {size}, but there are {drafters} drafters \
         (statistical ones count): it needs one row and one column for each"
    )]
    KMatrixSize {
        /// Rows of the matrix.
        size: usize,
        /// Number of drafters.
        drafters: usize,
    },

    /// The K matrix itself is wrong.
    #[error(transparent)]
    KMatrix(#[from] KMatrixError),

    /// A lenience that is below 1 or not finite.
    #[error(transparent)]
    Lenience(#[from] InvalidLenience),

    /// The maximum number of nodes is 0.
    #[error("a draft may have at most 0 nodes, so nothing can be drafted; allow 1 or more")]
    NoNodes,

    /// Drafts that are larger than a model can score.
    #[error(
        "a draft may have {nodes} nodes, and `{model}` scores {limit} at most in {} GiB of memory for attention and logits; \
         set `tree.max_nodes` (`max_nodes` of the builder) to {limit} or less: {DEFAULT_MAX_NODES} is the default",
        LARGEST_FORWARD >> 30
    )]
    TooManyNodes {
        /// Nodes that a draft may have.
        nodes: usize,
        /// Name of the model.
        model: String,
        /// The most that it scores.
        limit: usize,
    },

    /// A rule that would change the distribution of the output.
    #[error(
        "rule `{rule}` of `{reviewer}` considers siblings in random order, but those of drafter `{drafter}` are drawn \
         without replacement, each depending on earlier ones: the output would not have the target's distribution; \
         give `{reviewer}` the rule `iterated`, or draw the siblings of `{drafter}` with replacement"
    )]
    InexactOrder {
        /// Name of the rule.
        rule: String,
        /// Name of the model that uses the rule.
        reviewer: String,
        /// Name of the drafter whose drafts it reviews.
        drafter: String,
    },

    /// A drafter may draft no token of the target's.
    #[error(
        "drafter `{drafter}` shares no token with target `{target}`, so it could draft nothing; \
         use models of one family"
    )]
    NoSharedToken {
        /// Name of the drafter.
        drafter: String,
        /// Name of the target.
        target: String,
    },

    /// A drafter reads hidden states that the target does not give.
    #[error(
        "drafter `{drafter}` reads {layer} of target `{target}`, which does not give it; \
         use a target on the CPU, or a drafter that reads no hidden states"
    )]
    NoHiddenState {
        /// Name of the drafter.
        drafter: String,
        /// Name of the target.
        target: String,
        /// What it reads.
        layer: HiddenLayer,
    },

    /// A drafter has another architecture than the target.
    #[error(
        "drafter `{drafter}` is {found} and target `{target}` is {expected}: they cannot share a context"
    )]
    ArchitectureMismatch {
        /// Name of the drafter.
        drafter: String,
        /// Its architecture.
        found: Architecture,
        /// Name of the target.
        target: String,
        /// The target's architecture.
        expected: Architecture,
    },

    /// A stop sequence is empty.
    #[error("a stop sequence is empty: it would end every generation at once; remove it")]
    EmptyStopSequence,

    /// The stop sequences are longer than any answer.
    #[error(
        "the stop sequences have {bytes} bytes in all, and {LONGEST_STOP} are searched for at most; give their beginnings"
    )]
    LongStopSequences {
        /// Their length in all.
        bytes: usize,
    },

    /// Text was to be processed, but the cascade has no codec.
    #[error("text prompts and stop sequences need a tokenizer; call `codec` on the builder")]
    NoCodec,

    /// The prompt holds no text.
    #[error("the prompt is empty; give the model something to answer")]
    EmptyPrompt,

    /// The prompt leaves no room to generate.
    #[error(
        "the prompt takes {tokens} tokens, and `{target}` has {limit} positions: \
         shorten it to at most {} tokens", limit - 1
    )]
    PromptTooLong {
        /// Length of the prompt.
        tokens: usize,
        /// Name of the target.
        target: String,
        /// Positions that the target has.
        limit: usize,
    },

    /// A model failed.
    #[error("model `{model}` failed: {source}")]
    Model {
        /// Name of the model.
        model: String,
        /// Its error.
        source: cascade_core::Error,
    },

    /// The prompt is longer than it may be.
    #[error(transparent)]
    PromptLimit(cascade_core::Error),

    /// The tokenizer failed.
    #[error("the tokenizer failed: {0}")]
    Codec(#[source] cascade_core::Error),
}
