//! Match: the reviewer draws its token independently of the draft, and the walk continues if a
//! child carries it.
//!
//! Exact for any draft, since the draft does not influence the token. For deterministic drafts it
//! is also optimal: with siblings S, the token is a drafted one with probability Σ_{x ∈ S} p(x),
//! which no exact rule can exceed. For a sampled draft it accepts Σ p(x)q(x), where [speculative
//! sampling](crate::speculative) accepts Σ min(p(x), q(x)).

use cascade_core::{Distribution, RandomSource, TokenId};

/// Draws a token of `p`.
pub fn token(p: &Distribution, chance: &mut dyn RandomSource) -> TokenId {
    chance.draw(p)
}
