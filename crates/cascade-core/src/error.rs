//! What can go wrong between the engine and a model.

use crate::{HiddenLayer, TokenId};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a [`Scorer`](crate::Scorer), a [`Drafter`](crate::Drafter) or a
/// [`TextCodec`](crate::TextCodec).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A decoder-only model was given an empty context.
    #[error("the prompt is empty: a decoder-only model needs at least one token to continue")]
    EmptyContext,

    /// An encoder-decoder model was given no source to encode.
    #[error("the prompt is empty: an encoder-decoder model needs at least one source token")]
    EmptySource,

    /// A decoder-only model was given a source.
    #[error(
        "a decoder-only model has no encoder, but was given a source of {tokens} tokens; \
         put them into the context"
    )]
    SourceWithoutEncoder {
        /// Length of the source that was given.
        tokens: usize,
    },

    /// The context and the tree need more positions than the model has.
    #[error(
        "{needed} positions are needed but the model has {limit}; \
         shorten the prompt or ask for fewer new tokens"
    )]
    ContextTooLong {
        /// Positions that the context and the tree take together.
        needed: usize,
        /// Positions that the model has.
        limit: usize,
    },

    /// A tree for whose scores there is no memory.
    #[error(
        "a tree of {nodes} nodes was to be scored, and {limit} are scored at most; draft less at a time (`tree.max_nodes`)"
    )]
    TreeTooLarge {
        /// Nodes of the tree.
        nodes: usize,
        /// The most that are scored.
        limit: usize,
    },

    /// A prompt of more tokens than it was allowed to have.
    #[error(
        "the prompt has {tokens} tokens, and {limit} are allowed; shorten it, raise `generation.max_prompt_tokens`, or \
         set `generation.truncate_prompt` to left or right"
    )]
    PromptTooLong {
        /// Its tokens.
        tokens: usize,
        /// The most that are allowed.
        limit: usize,
    },

    /// A token id outside the model's vocabulary.
    #[error(
        "token {token} is outside the model's vocabulary of {vocab_size}; \
         is this the model's own tokenizer?"
    )]
    TokenOutOfVocabulary {
        /// The token.
        token: TokenId,
        /// Size of the vocabulary.
        vocab_size: usize,
    },

    /// Hidden states were wanted of a model that does not give them.
    #[error("{layer} was wanted of {model}, which does not give it")]
    NoHiddenState {
        /// What was wanted.
        layer: HiddenLayer,
        /// What cannot give it.
        model: &'static str,
    },

    /// A model that reads the target's hidden states was to score what it has observed none of.
    #[error(
        "the head has observed too few hidden states of its target for this context of {tokens} tokens and a tree of \
         height {height}; it drafts behind what the target has verified, within its reach"
    )]
    BeyondReach {
        /// Tokens of the context.
        tokens: usize,
        /// Height of the tree.
        height: usize,
    },

    /// Nobody waits for an answer any more, so it is not computed to its end.
    #[error("the forward was given up: nobody waits for what it gives")]
    GivenUp,

    /// A model's logits do not form a valid distribution.
    #[error(
        "the logit of token {token} is {logit}, so there is no distribution to draw from; \
         are the weights damaged, or is their dtype too narrow (f16 overflows in T5)?"
    )]
    ImproperLogits {
        /// The first such token.
        token: TokenId,
        /// Its logit; negative infinity if all are.
        logit: f32,
    },

    /// An implementation of a trait violated the trait's contract.
    #[error("the implementation of `{interface}` breaks its contract: {violation}")]
    BrokenContract {
        /// The method.
        interface: &'static str,
        /// What it returned, and what it should have returned.
        violation: String,
    },

    /// The backend of an implementation failed: a tensor library, a device, a tokenizer.
    #[error(transparent)]
    Backend(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// The error for logits of which one is NaN or +∞, or all are −∞.
    pub fn improper_logits(logits: &[f32]) -> Self {
        let bad = |&(_, logit): &(TokenId, f32)| logit.is_nan() || logit == f32::INFINITY;
        let found = (0..).zip(logits.iter().copied()).find(bad);
        let (token, logit) = found.unwrap_or((0, f32::NEG_INFINITY));
        Self::ImproperLogits { token, logit }
    }

    /// Wraps a backend's error.
    pub fn backend(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Backend(error.into())
    }
}
