//! Speculative sampling (Stratos, *Speculative Decoding*, §1): the first draw is kept with
//! probability min(1, p(x)/q(x)), or else the token comes from the residual max(p − q, 0),
//! normalised.
//!
//! Exact: a token x comes out with probability min(p(x), q(x)) by acceptance and max(p(x) − q(x),
//! 0) by the residual, whose mass is just that of all rejections. A draw is accepted with
//! probability Σ min(p(x), q(x)) = 1 − TV(p, q).
//!
//! Siblings after the first draw are not given a chance of their own; the walk still goes on where
//! the residual's token happens to be one of them.

use std::sync::Arc;

use cascade_core::{Distribution, RandomSource, TokenId};

use crate::{iterated, CandidateToken};

/// A token of `p`, the first of `draws` if it is accepted.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    chance: &mut dyn RandomSource,
) -> TokenId {
    iterated::token(p, &draws[..draws.len().min(1)], chance)
}
