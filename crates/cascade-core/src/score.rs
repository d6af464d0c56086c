//! Scores: what a caller wants of a model's rows, and what it gets.

use crate::{HiddenLayer, HiddenLayers, HiddenStates, Matrix, NodeId, TokenId, TokenTree};

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

/// What a caller needs from [`Scorer::score`](crate::Scorer::score).
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
    /// From which row of the context on hidden states are wanted too: the row after its first
    /// `hidden_after` tokens, and all later ones. `None` for those of the tree's rows alone. A
    /// model computes rows again that it has cached, so it costs as much as reading these tokens.
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
    pub const GATHERED: Self = Self::ARGMAX.with_rows(RowDetail::Gathered);
    /// All logits.
    pub const LOGITS: Self = Self::ARGMAX.with_rows(RowDetail::Logits);

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
    /// Sets the most probable token of each row.
    pub fn with_argmax(self, argmax: Vec<TokenId>) -> Self {
        Self { argmax, ..self }
    }

    /// Sets the gathered probabilities.
    pub fn with_gathered(self, gathered: impl Into<Option<GatheredProbs>>) -> Self {
        Self {
            gathered: gathered.into(),
            ..self
        }
    }

    /// Sets the most probable tokens of each row and their probabilities.
    pub fn with_top(self, top: impl Into<Option<Top>>) -> Self {
        Self {
            top: top.into(),
            ..self
        }
    }

    /// Sets the logits.
    pub fn with_logits(self, logits: impl Into<Option<Matrix>>) -> Self {
        Self {
            logits: logits.into(),
            ..self
        }
    }

    /// Sets the entropy of each row.
    pub fn with_entropy(self, entropy: impl Into<Option<Vec<f32>>>) -> Self {
        Self {
            entropy: entropy.into(),
            ..self
        }
    }

    /// Sets the hidden states.
    pub fn with_hidden(self, hidden: impl Into<HiddenStates>) -> Self {
        Self {
            hidden: hidden.into(),
            ..self
        }
    }

    /// Sets the number of computed rows.
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
