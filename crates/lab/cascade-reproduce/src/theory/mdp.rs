//! When to stop drafting, as a Markov decision process (Huang et al., SpecDec++: Boosting
//! Speculative Decoding via Adaptive Candidate Lengths, §3 and §4).
//!
//! Target and drafter are a [`Markov`](crate::theory::rejection::Markov) chain. After every drafted
//! token a policy drafts another one or lets the target review. It knows the drafted tokens, and so
//! the probability that each is accepted, and not whether it will be. The time of a sequence is
//! (Lemma 3.1)
//!
//! T = T₀ + t_draft·N_discarded + (t_target − t_draft)·N_target,
//!
//! where T₀ = t_draft·N is fixed: a policy trades discarded tokens against reviews.
//!
//! * [`Costs`]: the time of both forwards.
//! * [`Solution::best`]: the best of all policies, by dynamic programming; it stops where the
//!   probability that all drafted tokens are accepted is at or below a bound that depends on the
//!   state (§4.2, Theorem 4.3).
//! * [`expected_time`]: the time of a fixed draft length, by formula.
//! * [`simulate_policy`]: any [`Policy`], played token by token.

mod concave;
mod play;
mod solution;

use crate::theory::CostCoefficient;
use crate::{Error, Result};

pub use play::{Played, simulate_policy};
pub use solution::{Solution, expected_time};

/// The time of a forward of the drafter, in forwards of the target, and the longest draft.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// t_draft / t_target.
    pub draft: CostCoefficient,
    /// Tokens of a draft at most, 1 or more.
    longest: usize,
}

impl Costs {
    /// A drafter whose forward takes `draft` forwards of the target, and drafts of `longest` tokens
    /// at most.
    ///
    /// # Errors
    /// A `longest` of 0.
    pub fn new(draft: CostCoefficient, longest: usize) -> Result<Self> {
        if longest == 0 {
            let problem = "the longest draft has at least 1 token, not 0; plain decoding is among the policies";
            return Err(Error::theory(problem));
        }
        Ok(Self { draft, longest })
    }

    /// Tokens that may be drafted where `emitted` of `positions` have been emitted: the review adds
    /// one.
    pub(crate) fn room(self, positions: usize, emitted: usize) -> usize {
        self.longest.min(positions.saturating_sub(emitted + 1))
    }
}

/// When a draft ends.
#[derive(Clone, Copy, Debug)]
pub enum Policy<'a> {
    /// At once: plain decoding.
    Plain,
    /// After that many tokens.
    Length(usize),
    /// Where the probability that some drafted token is rejected exceeds this (SpecDec++, with a
    /// head that knows it); the first token is always drafted.
    Threshold(f64),
    /// Where the best policy stops.
    Best(&'a Solution),
    /// Before the first token that will be rejected, which no policy can know: N_discarded = 0.
    Oracle,
}

impl Policy<'_> {
    /// Checks that a threshold is a probability.
    ///
    /// # Errors
    /// One that is none.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Threshold(threshold) if !(0.0..=1.0).contains(&threshold) => {
                let problem = format!("a threshold is a probability, from 0 to 1, not {threshold}");
                Err(Error::theory(problem))
            }
            _ => Ok(()),
        }
    }
}
