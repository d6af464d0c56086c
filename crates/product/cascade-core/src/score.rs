//! Scoring: the one thing a neural model does.

use crate::{Architecture, NodeId, Result, TokenId, TokenTree};

/// How much of each row a caller needs, in rising order. A model computes and copies no more than
/// that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowDetail {
    /// The most probable token of each row.
    #[default]
    Argmax,
    /// The same, with its probability, and the probability that each node's token has in its
    /// parent's row.
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
    /// How many of the most probable tokens of each row are named; 0 for none. More than the
    /// vocabulary has means all.
    pub top: usize,
    /// Whether the entropy of each row is wanted.
    pub entropy: bool,
    /// Whether the last hidden state of each row is wanted.
    pub hidden: bool,
}

impl Want {
    /// The most probable token of each row and nothing else.
    pub const ARGMAX: Self = Self {
        rows: RowDetail::Argmax,
        top: 0,
        entropy: false,
        hidden: false,
    };
    /// The most probable tokens and the drafted tokens, with probabilities.
    pub const GATHERED: Self = Self {
        rows: RowDetail::Gathered,
        top: 0,
        entropy: false,
        hidden: false,
    };
    /// All logits.
    pub const LOGITS: Self = Self {
        rows: RowDetail::Logits,
        top: 0,
        entropy: false,
        hidden: false,
    };

    /// The same, with so much of each row.
    pub const fn with_rows(self, rows: RowDetail) -> Self {
        Self { rows, ..self }
    }

    /// The same, with the `top` most probable tokens of each row.
    pub const fn with_top(self, top: usize) -> Self {
        Self { top, ..self }
    }

    /// The same, with the entropies.
    pub const fn with_entropy(self) -> Self {
        Self {
            entropy: true,
            ..self
        }
    }

    /// The same, with the last hidden states.
    pub const fn with_hidden(self) -> Self {
        Self {
            hidden: true,
            ..self
        }
    }

    /// The larger of both in every part.
    pub fn union(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            top: self.top.max(other.top),
            entropy: self.entropy || other.entropy,
            hidden: self.hidden || other.hidden,
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

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.len() / self.columns
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.columns..(row + 1) * self.columns]
    }
}

/// Probabilities of the tokens that matter to a greedy review, computed in f32 by softmax over the
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
    /// Row by row, the most probable first, the lower id first among equals.
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

/// What a model says of a context and a tree of N nodes: N + 1 rows.
///
/// Row 0 is the distribution after the last token of the context, row `i + 1` the one after node
/// `i` ([`TokenTree::row`]).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Scores {
    /// The most probable token of each row, the first of equals.
    pub argmax: Vec<TokenId>,
    /// Present if [`RowDetail::Gathered`] was wanted.
    pub gathered: Option<GatheredProbs>,
    /// Present if [`Want::top`] is not 0.
    pub top: Option<Top>,
    /// `[N + 1, vocabulary]`, present if [`RowDetail::Logits`] was wanted.
    pub logits: Option<Matrix>,
    /// For each row, the Shannon entropy of its softmax in nats, present if it was wanted.
    pub entropy: Option<Vec<f32>>,
    /// `[N + 1, hidden size]`: what the output head reads (after the final norm), present if it was
    /// wanted.
    pub hidden: Option<Matrix>,
    /// Rows that the forward really computed: N + 1, and one for each token of the context that the
    /// model had not seen before. For accounting.
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
    pub fn with_hidden(self, hidden: impl Into<Option<Matrix>>) -> Self {
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

/// A neural language model as the engine sees it.
///
/// # Purity
/// `score` is observationally pure: for the source of the last [`set_source`](Self::set_source),
/// the answer is a function of `context`, `tree` and `want`, in whatever order calls come.
/// Implementations keep what they have computed and reuse the longest common prefix, but no caller
/// passes a length, rolls back, or knows that a cache exists. (Floating-point answers may differ in
/// the last bits with the number of rows computed together.)
pub trait Scorer {
    /// How the model reads its prompt.
    fn architecture(&self) -> Architecture;

    /// Size of the vocabulary: the number of columns of the logits.
    fn vocab_size(&self) -> usize;

    /// The most positions that a context and the height of a tree may take together; `None` if
    /// there is no limit.
    fn max_context(&self) -> Option<usize>;

    /// Sets the source that the following calls of `score` are conditioned on. Decoder-only models
    /// take the empty source. Encoding may be put off until the first `score`, and the same source
    /// again costs nothing.
    ///
    /// # Errors
    /// A source that the model cannot take: see [`Error`](crate::Error).
    fn set_source(&mut self, source: &[TokenId]) -> Result<()>;

    /// Scores `tree` as a continuation of `context`, in one forward.
    ///
    /// # Errors
    /// A decoder-only model refuses an empty context; every model refuses tokens outside its
    /// vocabulary and more positions than it has. After an error the scorer is as usable as before.
    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores>;
}

impl<S: Scorer + ?Sized> Scorer for Box<S> {
    fn architecture(&self) -> Architecture {
        (**self).architecture()
    }

    fn vocab_size(&self) -> usize {
        (**self).vocab_size()
    }

    fn max_context(&self) -> Option<usize> {
        (**self).max_context()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        (**self).set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        (**self).score(context, tree, want)
    }
}
