//! Scoring: the interface of neural models.

use std::time::Duration;

use crate::{
    Architecture, Error, HiddenLayers, Observation, Result, Scores, TokenId, TokenTree, Want,
};

/// Bytes that the attention and the logits of a forward may take: what bounds the size of trees. A
/// draft of 1,000 nodes takes 200 MB.
pub const LARGEST_FORWARD: usize = 2 << 30;

/// What is known of a [`Scorer`] without running it. The same for its lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScorerInfo {
    /// How the model reads its prompt.
    pub architecture: Architecture,
    /// Size of the vocabulary: the number of columns of the logits.
    pub vocab_size: usize,
    /// Maximum of the context length plus the height of the tree; `None` if there is no limit.
    pub max_context: Option<usize>,
    /// The most nodes of a tree that it scores, bounded by memory ([`LARGEST_FORWARD`]); `None` if
    /// there is no limit. Greater trees are an error.
    pub max_nodes: Option<usize>,
    /// The greatest [`Want::top`] that it can answer; `None` if there is no limit. A recording
    /// knows the tokens that were said and no probabilities: 0.
    pub max_top: Option<usize>,
    /// The hidden states that it can give; none if nothing is said. Others are an error.
    pub hidden: HiddenLayers,
    /// The hidden states of the target that it wants to [observe](Scorer::observe); none if nothing
    /// is said.
    pub observes: HiddenLayers,
}

impl ScorerInfo {
    /// A model without limits.
    pub const fn new(architecture: Architecture, vocab_size: usize) -> Self {
        Self {
            architecture,
            vocab_size,
            max_context: None,
            max_nodes: None,
            max_top: None,
            hidden: HiddenLayers::NONE,
            observes: HiddenLayers::NONE,
        }
    }

    /// Sets the size of the vocabulary.
    pub const fn with_vocab_size(self, vocab_size: usize) -> Self {
        Self { vocab_size, ..self }
    }

    /// Sets the number of positions.
    pub const fn with_max_context(self, max_context: Option<usize>) -> Self {
        Self {
            max_context,
            ..self
        }
    }

    /// Sets the largest tree that a forward scores, in nodes.
    pub const fn with_max_nodes(self, max_nodes: Option<usize>) -> Self {
        Self { max_nodes, ..self }
    }

    /// Sets how many of the most probable tokens a row has at most.
    pub const fn with_max_top(self, max_top: Option<usize>) -> Self {
        Self { max_top, ..self }
    }

    /// Sets the hidden states that the model gives.
    pub const fn with_hidden(self, hidden: HiddenLayers) -> Self {
        Self { hidden, ..self }
    }

    /// Sets the target's hidden states that the model observes.
    pub const fn observing(self, observes: HiddenLayers) -> Self {
        Self { observes, ..self }
    }

    /// Checks a source against the architecture.
    ///
    /// # Errors
    /// [`Error::EmptySource`] of an encoder-decoder, [`Error::SourceWithoutEncoder`] of another
    /// model.
    pub fn check_source(&self, source: &[TokenId]) -> Result<()> {
        match (self.architecture, source.len()) {
            (Architecture::EncoderDecoder, 0) => Err(Error::EmptySource),
            (Architecture::DecoderOnly, tokens @ 1..) => {
                Err(Error::SourceWithoutEncoder { tokens })
            }
            _ => Ok(()),
        }
    }

    /// Checks that tokens are in the vocabulary.
    ///
    /// # Errors
    /// [`Error::TokenOutOfVocabulary`] with the first that is not.
    pub fn check_tokens(&self, mut tokens: impl Iterator<Item = TokenId>) -> Result<()> {
        let vocab_size = self.vocab_size;
        match tokens.find(|&token| token as usize >= vocab_size) {
            Some(token) => Err(Error::TokenOutOfVocabulary { token, vocab_size }),
            None => Ok(()),
        }
    }

    /// Checks a call of [`Scorer::score`] before anything is computed. Messages call what has no
    /// hidden states `model`.
    ///
    /// # Errors
    /// An empty context of a decoder-only model; tokens outside the vocabulary; more positions or
    /// nodes than there are; hidden states that are not given.
    pub fn check(
        &self,
        context: &[TokenId],
        tree: &TokenTree,
        want: Want,
        model: &'static str,
    ) -> Result<()> {
        if self.architecture == Architecture::DecoderOnly && context.is_empty() {
            return Err(Error::EmptyContext);
        }
        self.check_tokens(context.iter().copied().chain(tree.tokens()))?;
        let needed = context.len() + tree.height();
        if let Some(limit) = self.max_context.filter(|&limit| needed > limit) {
            return Err(Error::ContextTooLong { needed, limit });
        }
        if let Some(layer) = want.hidden.lacking_in(self.hidden) {
            return Err(Error::NoHiddenState { layer, model });
        }
        let nodes = tree.len();
        match self.max_nodes.filter(|&limit| nodes > limit) {
            Some(limit) => Err(Error::TreeTooLarge { nodes, limit }),
            None => Ok(()),
        }
    }
}

/// A neural language model as the engine sees it.
///
/// # Purity
/// `score` is observationally pure: for the source of the last [`set_source`](Self::set_source),
/// the result is a function of `context`, `tree` and `want`, in any order of calls. Implementations
/// may cache their computations and reuse the longest common prefix, but callers never pass a cache
/// length, roll back, or depend on a cache. (Floating-point results may differ in the last bits
/// with the number of rows computed together.)
///
/// For a model that [observes](Self::observe), the result is a function of these and of the states
/// observed after the tokens of `context`: a fresh session that has observed the same gives the
/// same.
pub trait Scorer {
    /// What is known of the model without running it. Cheap: it is asked for in every step.
    fn info(&self) -> ScorerInfo;

    /// Sets the source that the following calls of `score` are conditioned on. Decoder-only models
    /// accept only the empty source. Encoding may be deferred until the first `score`, and setting
    /// the same source again is free.
    ///
    /// # Errors
    /// If the model cannot use the source: see [`Error`](crate::Error).
    fn set_source(&mut self, source: &[TokenId]) -> Result<()>;

    /// Scores `tree` as a continuation of `context`, in one forward.
    ///
    /// # Errors
    /// A decoder-only model rejects an empty context; every model rejects tokens outside its
    /// vocabulary and more positions than it has. The scorer remains usable after an error.
    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores>;

    /// How many tokens deep a tree behind `context` may be for the model to score it; `None` if it
    /// can say nothing after `context`, not even without a tree. A model that reads the target's
    /// states has none before the first [observation](Self::observe), and one that predicts a fixed
    /// number of tokens from a state reaches no farther. Positions are apart:
    /// [`max_context`](ScorerInfo::max_context). No limit by default. Cheap: it is asked for before
    /// each forward of a drafter.
    fn reach(&self, context: &[TokenId]) -> Option<usize> {
        let _ = context;
        Some(usize::MAX)
    }

    /// Learns what the target said in a step, with the [hidden states](ScorerInfo::observes) that
    /// it wants. Called for the neural drafters of a cascade after each verification of a
    /// generation with speculation on. Does nothing by default.
    ///
    /// # Errors
    /// If it cannot read what it is given. The scorer remains usable.
    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        let _ = observation;
        Ok(())
    }

    /// How many rows of a context, from the first on, the next call of [`score`](Self::score) would
    /// not compute again: those before [the states that cost
    /// nothing](crate::Want::hidden_after). It says nothing of scores. None by default; scorers
    /// that decorate others pass it on.
    fn cached(&mut self, context: &[TokenId]) -> usize {
        let _ = context;
        0
    }

    /// How many texts at present share the forwards of this scorer, its own included: what a
    /// drafted row costs depends on theirs. 1 by default. Scorers that decorate others pass it on;
    /// where one does not, texts draft as if each were alone. It says nothing of scores.
    fn texts(&self) -> usize {
        1
    }

    /// The forward that answered the last call, if it may have answered calls of other texts too.
    /// None by default. Scorers that decorate others pass it on. It says nothing of scores.
    fn shared_forward(&self) -> Option<SharedForward> {
        None
    }
}

/// A forward over rows of several texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedForward {
    /// Texts that had rows in it.
    pub texts: usize,
    /// Rows of all of them.
    pub rows: usize,
    /// Time that it took, without waiting for texts.
    pub time: Duration,
    /// Whether it read a part of a prompt.
    pub reads_prompt: bool,
}

impl<S: Scorer + Send + 'static> From<S> for Box<dyn Scorer + Send> {
    fn from(scorer: S) -> Self {
        Box::new(scorer)
    }
}
