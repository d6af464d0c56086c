//! Rules for sampled reviews: which one, and what they have in common.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cascade_core::{Distribution, Proposal, RandomSource, TokenId};

use crate::{iterated, matching, spec_infer, speculative};

/// A drawn sibling as a rule sees it.
#[derive(Clone, Copy, Debug)]
pub struct CandidateToken<'a> {
    /// The token.
    pub token: TokenId,
    /// What it was drawn from.
    pub proposal: &'a Proposal,
}

impl CandidateToken<'_> {
    /// Whether its proposal can give the token at all. If not, it was not drawn from that (a
    /// drafter whose numbers do not agree with each other), and every rule passes it over: a review
    /// that is exact given the draws that were, and given those that were not, is exact.
    pub(crate) fn is_possible(&self) -> bool {
        match self.proposal {
            Proposal::PointMass | Proposal::Pick { .. } => true,
            Proposal::Sampled(q) => q.probability(self.token) > 0.0,
        }
    }
}

/// How a reviewer that samples decides at one node of a draft: it draws a token of its own
/// distribution p, in such a way that the token is as often as possible one that was drafted.
///
/// # Contract
/// The token is distributed exactly as p, provided that each proposal is what its token was really
/// drawn from, given the draws before it. All else (that a review over a tree is exact, that one by
/// a drafter emits what it says) follows from this. [`Rule`] has those that the papers know.
pub trait ReviewRule: fmt::Debug + Send + Sync {
    /// What it is called in messages.
    fn name(&self) -> &str;

    /// Whether draws may be looked at in another order than the one they were drawn in. If so, a
    /// proposal that depends on the draws beside it (sampling without replacement, or the most
    /// probable of the tokens that were not drawn) is not what the draw was drawn from any more,
    /// and the review would not be exact.
    fn reorders(&self) -> bool {
        false
    }

    /// A token of `p`, which may be one of `draws`: those of the children of a node, in order.
    fn token(
        &self,
        p: &Arc<Distribution>,
        draws: &[CandidateToken<'_>],
        chance: &mut dyn RandomSource,
    ) -> TokenId;
}

impl<R: ReviewRule + ?Sized> ReviewRule for &R {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn reorders(&self) -> bool {
        (**self).reorders()
    }

    fn token(
        &self,
        p: &Arc<Distribution>,
        draws: &[CandidateToken<'_>],
        chance: &mut dyn RandomSource,
    ) -> TokenId {
        (**self).token(p, draws, chance)
    }
}

/// The rules of the papers. Every one of them emits exactly p; they differ in how often the token
/// is a drafted one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rule {
    /// `match`: see [`matching`].
    Match,
    /// `speculative`: see [`speculative`].
    Speculative,
    /// `iterated`: see [`iterated`].
    #[default]
    Iterated,
    /// `spec_infer`: see [`spec_infer`].
    SpecInfer,
}

/// A name that no rule goes by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no rule `{name}`; choose one of match, speculative, iterated, spec_infer")]
pub struct UnknownRule {
    /// The name.
    pub name: String,
}

impl Rule {
    /// All rules.
    pub const ALL: [Self; 4] = [
        Self::Match,
        Self::Speculative,
        Self::Iterated,
        Self::SpecInfer,
    ];

    /// The name that it goes by in configurations.
    pub const fn name(self) -> &'static str {
        match self {
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

    fn token(
        &self,
        p: &Arc<Distribution>,
        draws: &[CandidateToken<'_>],
        chance: &mut dyn RandomSource,
    ) -> TokenId {
        match self {
            Self::Match => matching::token(p, chance),
            Self::Speculative => speculative::token(p, draws, chance),
            Self::Iterated => iterated::token(p, draws, chance),
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
