//! Statistical drafters.

use crate::{TokenId, TokenTree};

/// A model that proposes continuations from statistics alone, at a cost not worth counting: Max-Gram, a bigram table,
/// prompt lookup.
///
/// Proposing is observationally pure: what it returns depends on the source, the context and the budget, and not on
/// earlier calls. Whatever an implementation remembers is there for speed.
pub trait Drafter {
    /// Sets the encoder's tokens that belong to all following contexts; empty for decoder-only models.
    fn begin(&mut self, source: &[TokenId]);

    /// Guesses what follows `context`, at most `budget` nodes. Nothing worth guessing gives the empty tree.
    fn propose(&mut self, context: &[TokenId], budget: usize) -> TokenTree;
}

impl<D: Drafter + ?Sized> Drafter for Box<D> {
    fn begin(&mut self, source: &[TokenId]) {
        (**self).begin(source);
    }

    fn propose(&mut self, context: &[TokenId], budget: usize) -> TokenTree {
        (**self).propose(context, budget)
    }
}
