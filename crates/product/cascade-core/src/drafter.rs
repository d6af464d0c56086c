//! Statistical drafters.

use crate::{TokenId, TokenTree};

/// How much a drafter may propose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Tokens on any path from the context.
    pub depth: usize,
    /// Nodes in all.
    pub nodes: usize,
}

impl Budget {
    /// A chain of at most `depth` tokens.
    pub const fn chain(depth: usize) -> Self {
        Self {
            depth,
            nodes: depth,
        }
    }
}

/// A model that proposes continuations from statistics alone, at a cost not worth counting: Max-Gram, a bigram table,
/// prompt lookup.
///
/// Proposing is observationally pure: what it returns depends on the source, the context and the budget, and not on
/// earlier calls. Whatever an implementation remembers is there for speed.
pub trait Drafter {
    /// Sets the encoder's tokens that belong to all following contexts; empty for decoder-only models.
    fn begin(&mut self, source: &[TokenId]);

    /// Guesses what follows `context`, within `budget`; siblings carry different tokens, the best guess first. Nothing
    /// worth guessing gives the empty tree.
    ///
    /// The best guess at each depth is the first child, so that a budget of as many nodes as its depth gives the chain
    /// that is the most worth.
    fn propose(&mut self, context: &[TokenId], budget: Budget) -> TokenTree;
}

impl<D: Drafter + ?Sized> Drafter for Box<D> {
    fn begin(&mut self, source: &[TokenId]) {
        (**self).begin(source);
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> TokenTree {
        (**self).propose(context, budget)
    }
}
