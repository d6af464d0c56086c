//! SpecInfer's multi-draft verification (Stratos, *Speculative Decoding*, §2.1): iterated
//! speculative sampling over the children of a node in random order.
//!
//! The order is one of draws, not of nodes: a token drawn by two models, or in two sequences, is
//! one node of the prefix tree, but is considered twice. (A rule that considers the merged node
//! only once is not exact.) Random order is exact only for draws that are independent of each other
//! given their ancestors: [`reorders`](crate::ReviewRule::reorders).

use std::sync::Arc;

use cascade_core::{Distribution, RandomSource, TokenId};

use crate::{CandidateToken, iterated};

/// Draws a token of `p`: the first of `draws`, in random order, that is accepted, or else one from
/// the residual.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    chance: &mut dyn RandomSource,
) -> TokenId {
    let mut shuffled = draws.to_vec();
    for i in 1..shuffled.len() {
        shuffled.swap(i, chance.below(i + 1));
    }
    iterated::token(p, &shuffled, chance)
}
