//! Options of a generation.

use cascade_core::{Decoding, Penalties};

use crate::{Ends, StopSequences};

/// Length, stop sequences, decoding mode and seed of a generation.
///
/// ```
/// use cascade_engine::Options;
///
/// let options = Options::default().with_max_new_tokens(40).with_seed(7);
/// assert!(options.speculate && options.decoding.is_greedy());
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Maximum number of tokens; drafts never exceed it. 256 by default.
    pub max_new_tokens: usize,
    /// Texts that end the generation. One that is exactly a special token ends it at that token.
    pub stop: Option<StopSequences>,
    /// Whether the text goes on from the prompt's, so that a blank between the two is part of it.
    /// By default it stands alone, as an answer does.
    pub continues: bool,
    /// Tokens that end it.
    pub ends: Ends,
    /// Whether to draft. If `false`, the target decodes plainly, one token per forward.
    pub speculate: bool,
    /// How tokens are chosen, by the target and by its drafters alike; greedy by default.
    pub decoding: Decoding,
    /// What tokens lose that the text has already; nothing by default. Costs the copy of all logits
    /// of each forward.
    pub penalties: Penalties,
    /// Seed for sampling. If the target's rule is [`Rule::Coupled`](crate::Rule::Coupled), the
    /// default, the same seed and prompt give the same output whatever drafts, and plain decoding
    /// gives it too (if the target computes the same logits): the token at each position is the
    /// winner of a race with this seed's [noise](cascade_core::SeededNoise), where the position is
    /// the number of tokens before it, those of the prompt included. With other rules the same
    /// seed, prompt and cascade give the same output, and another cascade gives other samples of
    /// the same distribution. For several samples of one prompt see
    /// [`seed_of`](cascade_core::seed_of).
    pub seed: u64,
    /// Whether steps report log probabilities of their tokens, and of how many of the most probable
    /// tokens beside each. Costs the copy of all logits of each forward, which a GPU otherwise
    /// keeps.
    pub logprobs: Option<usize>,
    /// Whether steps report the drafts that they verified.
    pub report_drafts: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_new_tokens: 256,
            stop: None,
            continues: false,
            ends: Ends::default(),
            speculate: true,
            decoding: Decoding::Greedy,
            penalties: Penalties::NONE,
            seed: 0,
            logprobs: None,
            report_drafts: false,
        }
    }
}

impl Options {
    /// Sets the maximum number of tokens.
    pub fn with_max_new_tokens(self, max_new_tokens: usize) -> Self {
        Self {
            max_new_tokens,
            ..self
        }
    }

    /// Sets the stop sequences, or removes them.
    pub fn with_stop(self, stop: impl Into<Option<StopSequences>>) -> Self {
        Self {
            stop: stop.into(),
            ..self
        }
    }

    /// Lets the text go on from the prompt's, or stand alone.
    pub fn with_continuation(self, continues: bool) -> Self {
        Self { continues, ..self }
    }

    /// Sets the tokens that end a generation.
    pub fn with_ends(self, ends: Ends) -> Self {
        Self { ends, ..self }
    }

    /// Switches drafting on or off.
    pub fn with_speculation(self, speculate: bool) -> Self {
        Self { speculate, ..self }
    }

    /// Sets the decoding mode.
    pub fn with_decoding(self, decoding: Decoding) -> Self {
        Self { decoding, ..self }
    }

    /// Sets what tokens lose that the text has already.
    pub fn with_penalties(self, penalties: Penalties) -> Self {
        Self { penalties, ..self }
    }

    /// Sets the seed.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Lets steps report log probabilities, with so many of the most probable tokens; or not.
    pub fn with_logprobs(self, logprobs: Option<usize>) -> Self {
        Self { logprobs, ..self }
    }

    /// Lets steps report their drafts, or not.
    pub fn with_drafts_reported(self, report_drafts: bool) -> Self {
        Self {
            report_drafts,
            ..self
        }
    }
}
