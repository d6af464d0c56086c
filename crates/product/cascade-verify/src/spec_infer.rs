//! SpecInfer's multi-draft verification (Stratos, *Speculative Decoding*, §2.1): iterated
//! speculative sampling over the children of a node in random order.
//!
//! It is the draws that are put in order: a token that two models, or two sequences, have drawn is
//! one node of the prefix tree, but has two chances. (A rule that gives the merged node one chance
//! only is not exact.) The order is exact for draws that are independent of each other given the
//! tokens above them, and for no others: [`reorders`](crate::ReviewRule::reorders).

use std::sync::Arc;

use cascade_core::{Distribution, RandomSource, TokenId};

use crate::{iterated, CandidateToken};

/// A token of `p`, the first of `draws` that is accepted in a random order.
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
