//! Acceptance rules for sampled reviews: their interface, and the rules of the papers.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cascade_core::{Distribution, RandomSource, TokenId};

use crate::{CandidateToken, iterated, matching, spec_infer, speculative};

/// How a sampling reviewer decides at one node of a draft: it draws a token of its own distribution
/// p such that the token coincides with a drafted one as often as possible.
///
/// # Contract
/// The token is distributed exactly as p, provided that each token was really drawn from its
/// proposal, conditioned on the draws before it. Everything else follows from this: a review over a
/// tree is exact, and a review by a drafter emits from the proposals that it reports. [`Rule`]
/// lists the rules of the papers.
pub trait ReviewRule: fmt::Debug + Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;

    /// Whether the rule may consider draws in another order than they were drawn in. If so, a
    /// proposal that depends on sibling draws (sampling without replacement, or the most probable
    /// of the tokens that were not drawn) is no longer the distribution of its draw, and the review
    /// would not be exact.
    fn reorders(&self) -> bool {
        false
    }

    /// Whether reviews are [`coupled`](crate::coupled): then tokens are not drawn by this rule.
    fn is_coupled(&self) -> bool {
        false
    }

    /// Draws a token of `p`, which may be one of `draws`: those of the children of a node, in
    /// order.
    fn token(
        &self,
        p: &Arc<Distribution>,
        draws: &[CandidateToken<'_>],
        chance: &mut dyn RandomSource,
    ) -> TokenId;
}

/// The rules of the papers. Each emits exactly p; they differ in how often the token is a drafted
/// one, and in whether a seed's tokens depend on what is drafted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    /// `coupled`: see [`coupled`](crate::coupled). A seed's tokens are those of plain decoding.
    /// Its reviews do not draw from a source of randomness. A drafter with this rule whose target
    /// has a rule that draws reviews as [`Iterated`](Self::Iterated).
    #[default]
    Coupled,
    /// `match`: see [`matching`].
    Match,
    /// `speculative`: see [`speculative`].
    Speculative,
    /// `iterated`: see [`iterated`].
    Iterated,
    /// `spec_infer`: see [`spec_infer`].
    SpecInfer,
}

/// The name is not that of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no rule `{name}`; choose one of coupled, match, speculative, iterated, spec_infer"
)]
pub struct UnknownRule {
    /// The name.
    pub name: String,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 5] = [
        Self::Coupled,
        Self::Match,
        Self::Speculative,
        Self::Iterated,
        Self::SpecInfer,
    ];

    /// The rules that draw from a source of randomness: what a seed's tokens are depends on what is
    /// drafted, and only their distribution does not.
    pub const DRAWN: [Self; 4] = [
        Self::Match,
        Self::Speculative,
        Self::Iterated,
        Self::SpecInfer,
    ];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coupled => "coupled",
            Self::Match => "match",
            Self::Speculative => "speculative",
            Self::Iterated => "iterated",
            Self::SpecInfer => "spec_infer",
        }
    }
}

impl ReviewRule for Rule {
    fn name(&self) -> &str {
        (*self).name()
    }

    fn reorders(&self) -> bool {
        matches!(self, Self::SpecInfer)
    }

    fn is_coupled(&self) -> bool {
        matches!(self, Self::Coupled)
    }

    fn token(
        &self,
        p: &Arc<Distribution>,
        draws: &[CandidateToken<'_>],
        chance: &mut dyn RandomSource,
    ) -> TokenId {
        match self {
            Self::Match => matching::token(p, chance),
            Self::Speculative => speculative::token(p, draws, chance),
            Self::Coupled | Self::Iterated => iterated::token(p, draws, chance),
            Self::SpecInfer => spec_infer::token(p, draws, chance),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str((*self).name())
    }
}

impl FromStr for Rule {
    type Err = UnknownRule;

    fn from_str(name: &str) -> Result<Self, UnknownRule> {
        let named = Self::ALL.into_iter().find(|rule| (*rule).name() == name);
        named.ok_or_else(|| UnknownRule {
            name: name.to_owned(),
        })
    }
}
