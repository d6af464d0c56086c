//! Lenience λ: how much a drafter loosens its reviews (Cascade Speculative Drafting, §3.1).

use std::fmt;

use cascade_core::Proposal;

/// A lenience λ, finite and at least 1. With λ = 1 a review is strict: it accepts only the
/// reviewer's own tokens.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Lenience(f32);

/// A value that is not a valid lenience.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("lenience must be a finite number of at least 1 (1 is strict), not {0}")]
pub struct InvalidLenience(pub f32);

impl Lenience {
    /// λ = 1.
    pub const STRICT: Self = Self(1.0);

    /// Checks that `value` is a lenience.
    pub fn new(value: f32) -> Result<Self, InvalidLenience> {
        if value.is_finite() && value >= 1.0 {
            Ok(Self(value))
        } else {
            Err(InvalidLenience(value))
        }
    }

    /// λ.
    pub fn get(self) -> f32 {
        self.0
    }

    /// Whether λ = 1.
    pub fn is_strict(self) -> bool {
        self.0 == 1.0
    }
}

impl fmt::Display for Lenience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Default for Lenience {
    fn default() -> Self {
        Self::STRICT
    }
}

/// The leniences of one reviewer, by the kind of drafter it reviews.
///
/// The paper loosens reviews of neural drafts and keeps those of Max-Gram strict (App. B), hence
/// two values. The target reviews with [`LeniencePolicy::STRICT`], always.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeniencePolicy {
    /// λ for tokens that a neural drafter proposed or passed on ([`Proposal::Pick`],
    /// [`Proposal::Sampled`]).
    pub neural: Lenience,
    /// λ for tokens of a statistical drafter ([`Proposal::PointMass`]).
    pub statistical: Lenience,
}

impl LeniencePolicy {
    /// λ = 1 for everything.
    pub const STRICT: Self = Self {
        neural: Lenience::STRICT,
        statistical: Lenience::STRICT,
    };

    /// Whether a review with these leniences compares tokens only and needs no probabilities.
    pub fn is_strict(self) -> bool {
        self.neural.is_strict() && self.statistical.is_strict()
    }

    /// The lenience that applies to a proposal.
    pub fn of(self, proposal: &Proposal) -> Lenience {
        match proposal {
            Proposal::PointMass => self.statistical,
            Proposal::Pick { .. } | Proposal::Sampled(_) => self.neural,
        }
    }

    /// Whether a token that is not the reviewer's most probable one is accepted leniently: q(x) ≤
    /// λ·p(x), for λ > 1, where p is the reviewer's probability and q the proposal's, 1 for a point
    /// mass.
    ///
    /// λ = 1 never accepts such a token, although q(x) ≤ p(x) may hold: the outcome of a strict
    /// review equals the reviewer's own greedy output.
    pub(crate) fn accepts_leniently(self, proposal: &Proposal, reviewer_probability: f32) -> bool {
        let lenience = self.of(proposal);
        let q = match proposal {
            Proposal::Pick { probability } => *probability,
            Proposal::PointMass | Proposal::Sampled(_) => 1.0,
        };
        !lenience.is_strict() && q <= lenience.get() * reviewer_probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_finite_numbers_from_one_on() {
        assert!(Lenience::new(1.0).is_ok_and(Lenience::is_strict));
        assert!(Lenience::new(5.0).is_ok_and(|l| !l.is_strict()));
        for bad in [0.99, 0.0, -1.0, f32::NAN, f32::INFINITY] {
            let error = Lenience::new(bad).unwrap_err();
            assert!(error.to_string().contains("at least 1"), "{error}");
        }
    }

    #[test]
    fn a_policy_is_strict_if_all_of_it_is() {
        let of = |neural, statistical| LeniencePolicy {
            neural: Lenience::new(neural).unwrap(),
            statistical: Lenience::new(statistical).unwrap(),
        };
        assert_eq!(LeniencePolicy::default(), LeniencePolicy::STRICT);
        assert!(LeniencePolicy::STRICT.is_strict() && of(1.0, 1.0).is_strict());
        for loose in [of(2.0, 1.0), of(1.0, 2.0), of(2.0, 2.0)] {
            assert!(!loose.is_strict(), "{loose:?}");
        }
    }
}
