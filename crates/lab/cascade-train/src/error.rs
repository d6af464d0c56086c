//! Errors of training.

use std::path::PathBuf;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why something cannot be trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Too few outputs to train on, to choose by and to report on.
    #[error("{outputs} recorded outputs with tokens are too few: 10 or more are needed, so that some can be held out")]
    TooFew {
        /// Outputs with tokens.
        outputs: usize,
    },

    /// Hidden states that do not fit into memory.
    #[error("the hidden states of more than {outputs} outputs take more than 16 GB; give fewer with --limit")]
    TooMuch {
        /// Outputs that fit.
        outputs: usize,
    },

    /// Samples without the probabilities that they were drawn by, or with a part of them.
    #[error(
        "record {record} has no more than {least:.3} of a distribution that its tokens were drawn from; record with \
         --top-probabilities of at least the --top-k, or name the --target"
    )]
    NoProbabilities {
        /// The record.
        record: String,
        /// The least part of a distribution that it has; 0 without any.
        least: f64,
    },

    /// A model that does not give what was asked for.
    #[error("the model gives no hidden states or no logits; give another")]
    NoHidden,

    /// All examples are of one class.
    #[error(
        "all {examples} tokens to train on are {class}, so there is nothing to tell apart; record other prompts, or use \
         another drafter"
    )]
    OneClass {
        /// Number of examples.
        examples: usize,
        /// `accepted` or `rejected`.
        class: &'static str,
    },

    /// A setting that is none.
    #[error("{what} is {value}; {cure}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// What it was.
        value: String,
        /// What to give.
        cure: String,
    },

    /// The drafter failed.
    #[error("the drafter failed: {0}")]
    Drafter(#[from] cascade_core::Error),

    /// A computation failed.
    #[error("the computation failed: {0}")]
    Compute(#[from] candle_core::Error),

    /// Numbers that grew out of bounds.
    #[error("the loss of epoch {epoch} is {loss}; give a smaller learning rate")]
    Diverged {
        /// The epoch.
        epoch: usize,
        /// Its loss.
        loss: f64,
    },

    /// A checkpoint that is not one of this training.
    #[error("{}: {problem}; give another file, or remove it to begin anew", file.display())]
    Checkpoint {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// A file that cannot be read or written.
    #[error("cannot {action} {}: {source}", file.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}
