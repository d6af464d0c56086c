//! The vertical cascade.

use rand::Rng;

use crate::theory::geometric::geometric_sum;
use crate::theory::simulation::accepted_run;
use crate::theory::{Drafter, Speculative, Step, System};

/// The vertical cascade of two drafters (Cascade Speculative Drafting, §4.1): the drafter does not
/// generate token by token but reviews what a smaller one, below it, has drafted.
///
/// A step is `rounds` rounds, in each of which the drafter below guesses `tokens` tokens and the
/// drafter reviews them in one forward, adding one of its own; then the target reviews all that the
/// rounds have left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Vertical {
    /// d1: the drafter. Its acceptance is α(target, d1).
    pub drafter: Drafter,
    /// d2: the drafter below it. Its acceptance is α′ = α(d1, d2), by d1 and not by the target; its
    /// cost is relative to the target, as d1's is.
    pub below: Drafter,
    /// n: rounds per step. 0 is plain decoding.
    pub rounds: usize,
    /// k: tokens that d2 drafts per round. 0 is speculative decoding with `rounds` tokens of d1.
    pub tokens: usize,
}

impl Vertical {
    /// One round: speculative decoding of d1 with d2.
    pub fn round(&self) -> Speculative {
        Speculative {
            drafter: self.below,
            tokens: self.tokens,
        }
    }
}

impl System for Vertical {
    /// (1 − α·φⁿ(α)) / (1 − α) with φ = φ_(α′,k), where φⁿ is the power, not the composition
    /// (Theorem 4.3).
    ///
    /// Computed as 1 + α·S·(1 + φ + … + φ^{n−1}) with S = (1 − φ(α)) / (1 − α) = Σ_{i=0}^{k}
    /// (α′α)^i, which is the same, has no pole at α = 1, and loses no digits beside it.
    fn expected_tokens(&self) -> f64 {
        let alpha = self.drafter.acceptance;
        let ratio = self.below.acceptance.get() * alpha.get();
        let sum = geometric_sum(ratio, self.tokens + 1);
        // Rounding may carry a φ of nearly 0 or 1 past it.
        let phi = self.round().generating_function(alpha).clamp(0.0, 1.0);
        1.0 + alpha.get() * sum * geometric_sum(phi, self.rounds)
    }

    /// 1 + n·c1 + n·k·c2.
    fn walltime(&self) -> f64 {
        let (n, k) = (self.rounds as f64, self.tokens as f64);
        1.0 + n * self.drafter.cost.get() + n * k * self.below.cost.get()
    }

    fn step(&self, rng: &mut impl Rng) -> Step {
        let (mut drafted, mut walltime) = (0, 1.0);
        for _ in 0..self.rounds {
            drafted += accepted_run(self.below.acceptance, self.tokens as u64, rng) + 1;
            walltime += self.drafter.cost.get() + self.tokens as f64 * self.below.cost.get();
        }
        Step {
            tokens: accepted_run(self.drafter.acceptance, drafted, rng) + 1,
            walltime,
        }
    }
}
