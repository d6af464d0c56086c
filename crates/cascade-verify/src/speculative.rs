//! Speculative sampling (Stratos, *Speculative Decoding*, §1): the first draw is accepted with
//! probability min(1, p(x)/q(x)); if it is rejected, the token is drawn from the residual max(p −
//! q, 0), normalised.
//!
//! Exact: a token x is emitted with probability min(p(x), q(x)) by acceptance and max(p(x) − q(x),
//! 0) by the residual, whose mass equals the probability of rejection. A draw is accepted with
//!    probability Σ min(p(x), q(x)) = 1 − TV(p, q).
//!
//! Later siblings are not tried individually; the walk still continues where the residual's token
//! happens to be one of them.

use std::sync::Arc;

use cascade_core::{Distribution, RandomSource, TokenId};

use crate::{CandidateToken, iterated};

/// Draws a token of `p`: the first of `draws` if it is accepted, or else one from the residual.
pub fn token(
    p: &Arc<Distribution>,
    draws: &[CandidateToken<'_>],
    chance: &mut dyn RandomSource,
) -> TokenId {
    iterated::token(p, &draws[..draws.len().min(1)], chance)
}
