//! Speculative decoding with one drafter.

use rand::Rng;

use crate::theory::geometric::geometric_sum;
use crate::theory::simulation::accepted_run;
use crate::theory::{AcceptanceRate, Drafter, Step, System};

/// Speculative decoding: a drafter guesses `tokens` tokens, one forward each, and the target
/// reviews them in one forward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculative {
    /// The drafter.
    pub drafter: Drafter,
    /// k: tokens drafted per step. 0 is plain decoding.
    pub tokens: usize,
}

impl Speculative {
    /// φ_(α,k)(x), the probability generating function of the number of tokens that a step emits
    /// (Cascade Speculative Drafting, Theorem 4.1):
    ///
    /// φ(x) = 1 + (x − 1)·(1 − α^{k+1} x^{k+1}) / (1 − αx).
    ///
    /// For x from 0 to 1 it is the probability that *all* these tokens please a second reviewer who
    /// accepts each with probability x. (Equation 6 of the paper's proof begins with x + … where 1
    /// + … is meant; the theorem has it right.)
    ///
    /// ```
    /// use cascade_reproduce::theory::{AcceptanceRate, Drafter, Speculative};
    ///
    /// // One token drafted: 1 or 2 tokens come out, with equal probability.
    /// let system = Speculative { drafter: Drafter::new(0.5, 0.0)?, tokens: 1 };
    /// let phi = system.generating_function(AcceptanceRate::new(0.5)?);
    /// assert_eq!(phi, 0.5 * 0.5 + 0.5 * 0.25);
    /// # Ok::<(), cascade_reproduce::theory::Error>(())
    /// ```
    pub fn generating_function(&self, x: AcceptanceRate) -> f64 {
        let ratio = self.drafter.acceptance.get() * x.get();
        1.0 - (1.0 - x.get()) * geometric_sum(ratio, self.tokens + 1)
    }
}

impl System for Speculative {
    /// φ′(1) = (1 − α^{k+1}) / (1 − α), and k + 1 at α = 1 (Corollary 4.2).
    fn expected_tokens(&self) -> f64 {
        geometric_sum(self.drafter.acceptance.get(), self.tokens + 1)
    }

    /// ck + 1.
    fn walltime(&self) -> f64 {
        self.tokens as f64 * self.drafter.cost.get() + 1.0
    }

    fn step(&self, rng: &mut impl Rng) -> Step {
        let accepted = accepted_run(self.drafter.acceptance, self.tokens as u64, rng);
        Step {
            tokens: accepted + 1,
            walltime: 1.0 + self.drafter.cost.get() * self.tokens as f64,
        }
    }
}
