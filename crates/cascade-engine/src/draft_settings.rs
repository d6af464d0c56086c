//! What bounds every draft of a cascade.

use cascade_core::{Budget, TokenId};
use cascade_verify::LeniencePolicy;

/// The settings of drafting that belong neither to a model nor to a policy.
pub(crate) struct DraftSettings {
    /// Lenience of reviews by drafters. The target's is strict.
    pub(crate) lenience: LeniencePolicy,
    /// Maximum number of nodes of a draft, for every reviewer.
    pub(crate) max_nodes: usize,
    /// Nothing is drafted after one of these.
    pub(crate) eos: Vec<TokenId>,
    /// Whether any reviewer's rule considers siblings in another order than they were drawn in.
    pub(crate) reorders: bool,
    /// The target's vocabulary size; statistical drafters must propose tokens below it.
    pub(crate) vocab_size: usize,
}

impl DraftSettings {
    /// The budget of a draft that may be `depth` tokens deep.
    pub(crate) fn budget(&self, depth: usize) -> Budget {
        Budget {
            depth: depth.min(self.max_nodes),
            nodes: self.max_nodes,
        }
    }

    pub(crate) fn is_eos(&self, token: TokenId) -> bool {
        self.eos.contains(&token)
    }
}
