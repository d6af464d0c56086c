//! Match: the reviewer draws its token without looking at the draft, and the walk goes on if a
//! child carries it.
//!
//! Exact for any draft whatever, since the draft has no say. For deterministic drafts it is also
//! the best there is: with siblings S, a drafted token comes out with probability Σ_{x ∈ S} p(x),
//! which no exact rule can exceed. For a sampled draft it accepts Σ p(x)q(x), where [speculative
//! sampling](crate::speculative) accepts Σ min(p(x), q(x)).

use cascade_core::{Distribution, RandomSource, TokenId};

/// A token of `p`.
pub fn token(p: &Distribution, chance: &mut dyn RandomSource) -> TokenId {
    chance.draw(p)
}
