//! Scoring: the interface of neural models.

use std::time::Duration;

use crate::{
    Architecture, HiddenLayer, HiddenLayers, HiddenStates, NodeId, Observation, Result, TokenId,
    TokenTree,
};

/// How much of each row a caller needs, in increasing order. A model computes and copies no more
/// than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowDetail {
    /// The most probable token of each row.
    #[default]
    Argmax,
    /// The most probable token of each row with its probability, and the probability of each node's
    /// token in its parent's row.
    Gathered,
    /// All logits.
    Logits,
}

/// What a caller needs from [`Scorer::score`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Want {
    /// How much of each row.
    pub rows: RowDetail,
    /// How many of the most probable tokens of each row to return; 0 for none. A value above the
    /// vocabulary size means all.
    pub top: usize,
    /// Whether the entropy of each row is wanted.
    pub entropy: bool,
    /// The hidden states that are wanted of each row.
    pub hidden: HiddenLayers,
    /// Of which rows of the context hidden states are wanted, too: those after its first so many
    /// tokens, and after all longer beginnings of it. `None` for no others than the answer's. A
    /// model computes rows again that it has cached, so it costs what reading these tokens does.
    pub hidden_after: Option<usize>,
}

impl Want {
    /// The most probable token of each row and nothing else.
    pub const ARGMAX: Self = Self {
        rows: RowDetail::Argmax,
        top: 0,
        entropy: false,
        hidden: HiddenLayers::NONE,
        hidden_after: None,
    };
    /// The most probable tokens and the drafted tokens, with probabilities.
    pub const GATHERED: Self = Self {
        rows: RowDetail::Gathered,
        top: 0,
        entropy: false,
        hidden: HiddenLayers::NONE,
        hidden_after: None,
    };
    /// All logits.
    pub const LOGITS: Self = Self {
        rows: RowDetail::Logits,
        top: 0,
        entropy: false,
        hidden: HiddenLayers::NONE,
        hidden_after: None,
    };

    /// Wants this much of each row instead.
    pub const fn with_rows(self, rows: RowDetail) -> Self {
        Self { rows, ..self }
    }

    /// Additionally wants the `top` most probable tokens of each row.
    pub const fn with_top(self, top: usize) -> Self {
        Self { top, ..self }
    }

    /// Additionally wants the entropies.
    pub const fn with_entropy(self) -> Self {
        Self {
            entropy: true,
            ..self
        }
    }

    /// Additionally wants the last hidden states.
    pub const fn with_last_hidden(self) -> Self {
        Self {
            hidden: self.hidden.with(HiddenLayer::Last),
            ..self
        }
    }

    /// Additionally wants these hidden states.
    pub fn with_hidden(self, layers: HiddenLayers) -> Self {
        Self {
            hidden: self.hidden.union(layers),
            ..self
        }
    }

    /// Wants no hidden states.
    pub const fn without_hidden(self) -> Self {
        Self {
            hidden: HiddenLayers::NONE,
            hidden_after: None,
            ..self
        }
    }

    /// Wants hidden states of the context, too: [from there on](Self::hidden_after).
    pub const fn with_hidden_after(self, tokens: Option<usize>) -> Self {
        Self {
            hidden_after: tokens,
            ..self
        }
    }

    /// Rows of which hidden states are given, for a context and a tree of so many tokens.
    pub fn hidden_rows(&self, context: usize, nodes: usize) -> usize {
        let before = self
            .hidden_after
            .map_or(0, |after| context.saturating_sub(after));
        before + nodes + 1
    }

    /// Everything that either of the two wants.
    pub fn union(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            top: self.top.max(other.top),
            entropy: self.entropy || other.entropy,
            hidden: self.hidden.union(other.hidden),
            hidden_after: match (self.hidden_after, other.hidden_after) {
                (Some(mine), Some(others)) => Some(mine.min(others)),
                (mine, others) => mine.or(others),
            },
        }
    }
}

/// A dense row-major matrix of `f32`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matrix {
    columns: usize,
    data: Vec<f32>,
}

impl Matrix {
    /// A matrix of `data.len() / columns` rows.
    ///
    /// # Panics
    /// If `columns` is 0 or does not divide the length of `data`.
    pub fn new(columns: usize, data: Vec<f32>) -> Self {
        assert!(
            columns > 0 && data.len().is_multiple_of(columns),
            "{} values do not fill rows of {columns}",
            data.len()
        );
        Self { columns, data }
    }

    /// All values, row by row.
    pub fn as_slice(&self) -> &[f32] {
        &self.data
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.len() / self.columns
    }

    /// These rows and then those of another matrix.
    ///
    /// # Panics
    /// If it has another number of columns.
    pub fn followed_by(mut self, more: &Self) -> Self {
        assert_eq!(self.columns, more.columns, "rows of one width");
        self.data.extend_from_slice(&more.data);
        self
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.columns..(row + 1) * self.columns]
    }
}

/// Probabilities of the tokens that a greedy review reads, computed in f32 by softmax over the
/// whole vocabulary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatheredProbs {
    /// For each row, the probability of its most probable token.
    pub argmax: Vec<f32>,
    /// For each node, the probability of its token in its parent's row.
    pub nodes: Vec<f32>,
}

/// The most probable tokens of each row, with their probabilities in f32 by softmax over the whole
/// vocabulary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Top {
    /// Tokens per row.
    pub width: usize,
    /// Row by row, in descending order of probability, ties by lower id.
    pub tokens: Vec<(TokenId, f32)>,
}

impl Top {
    /// The most probable tokens of a row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[(TokenId, f32)] {
        &self.tokens[row * self.width..(row + 1) * self.width]
    }
}

/// A model's output for a context and a tree of N nodes: N + 1 rows.
///
/// Row 0 is the distribution after the last token of the context, row `i + 1` the one after node
/// `i` ([`TokenTree::row`]).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Scores {
    /// The most probable token of each row, ties by lower id.
    pub argmax: Vec<TokenId>,
    /// Present if [`RowDetail::Gathered`] was wanted.
    pub gathered: Option<GatheredProbs>,
    /// Present if [`Want::top`] is not 0.
    pub top: Option<Top>,
    /// `[N + 1, vocabulary]`, present if [`RowDetail::Logits`] was wanted.
    pub logits: Option<Matrix>,
    /// For each row, the Shannon entropy of its softmax in nats, present if it was wanted.
    pub entropy: Option<Vec<f32>>,
    /// The hidden states that were wanted: `[rows, hidden size]` each, of the rows of the context
    /// that were wanted and of the N + 1 rows of the answer.
    pub hidden: HiddenStates,
    /// Rows that the forward actually computed: N + 1, plus one for each context token that was not
    /// in its cache. For accounting.
    pub rows_computed: usize,
}

impl Scores {
    /// The same with these most probable tokens, one for each row.
    pub fn with_argmax(self, argmax: Vec<TokenId>) -> Self {
        Self { argmax, ..self }
    }

    /// The same with these probabilities.
    pub fn with_gathered(self, gathered: impl Into<Option<GatheredProbs>>) -> Self {
        Self {
            gathered: gathered.into(),
            ..self
        }
    }

    /// The same with these most probable tokens and their probabilities.
    pub fn with_top(self, top: impl Into<Option<Top>>) -> Self {
        Self {
            top: top.into(),
            ..self
        }
    }

    /// The same with these logits.
    pub fn with_logits(self, logits: impl Into<Option<Matrix>>) -> Self {
        Self {
            logits: logits.into(),
            ..self
        }
    }

    /// The same with these entropies, one for each row.
    pub fn with_entropy(self, entropy: impl Into<Option<Vec<f32>>>) -> Self {
        Self {
            entropy: entropy.into(),
            ..self
        }
    }

    /// The same with these hidden states.
    pub fn with_hidden(self, hidden: impl Into<HiddenStates>) -> Self {
        Self {
            hidden: hidden.into(),
            ..self
        }
    }

    /// The same with this number of computed rows.
    pub fn with_rows_computed(self, rows_computed: usize) -> Self {
        Self {
            rows_computed,
            ..self
        }
    }

    /// Most probable token after `node`, or after the context if `None`.
    ///
    /// # Panics
    /// If the tree that was scored has no such node.
    pub fn argmax_after(&self, node: Option<NodeId>) -> TokenId {
        self.argmax[TokenTree::row(node)]
    }
}

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

    /// The same over a vocabulary of another size.
    pub const fn with_vocab_size(self, vocab_size: usize) -> Self {
        Self { vocab_size, ..self }
    }

    /// The same with this many positions.
    pub const fn with_max_context(self, max_context: Option<usize>) -> Self {
        Self {
            max_context,
            ..self
        }
    }

    /// The same with trees of at most so many nodes.
    pub const fn with_max_nodes(self, max_nodes: Option<usize>) -> Self {
        Self { max_nodes, ..self }
    }

    /// The same with at most so many of the most probable tokens.
    pub const fn with_max_top(self, max_top: Option<usize>) -> Self {
        Self { max_top, ..self }
    }

    /// The same with these hidden states to give.
    pub const fn with_hidden(self, hidden: HiddenLayers) -> Self {
        Self { hidden, ..self }
    }

    /// The same with these hidden states of the target to observe.
    pub const fn observing(self, observes: HiddenLayers) -> Self {
        Self { observes, ..self }
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

    /// The forward that answered the last call, if it may have answered calls of other texts too:
    /// what rows cost then depends on theirs. None by default. Scorers that decorate others pass it
    /// on; where one does not, texts draft as if each were alone. It says nothing of scores.
    fn shared_forward(&self) -> Option<SharedForward> {
        None
    }
}

/// A forward over rows of several texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedForward {
    /// Differs from that of the forward before it.
    pub number: u64,
    /// Texts that had rows in it.
    pub texts: usize,
    /// Rows of all of them.
    pub rows: usize,
    /// Time that it took, without waiting for texts.
    pub time: Duration,
    /// Whether it read a part of a prompt.
    pub reads_prompt: bool,
}

impl<S: Scorer + ?Sized> Scorer for Box<S> {
    fn info(&self) -> ScorerInfo {
        (**self).info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        (**self).set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        (**self).score(context, tree, want)
    }

    fn reach(&self, context: &[TokenId]) -> Option<usize> {
        (**self).reach(context)
    }

    fn observe(&mut self, observation: &Observation<'_>) -> Result<()> {
        (**self).observe(observation)
    }

    fn shared_forward(&self) -> Option<SharedForward> {
        (**self).shared_forward()
    }
}
