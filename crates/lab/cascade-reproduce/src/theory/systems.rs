//! Ways to draft, under the assumption that every review of a token is an independent trial with a
//! fixed rate: their expected speed by formula, and by simulation.

use std::num::NonZeroU64;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::{Error, Result};

/// An expected acceptance rate α, from 0 to 1: the probability that a reviewer keeps a drafted
/// token (Cascade Speculative Drafting, §4).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct AcceptanceRate(pub(super) f64);

impl AcceptanceRate {
    /// Checks that `value` is a probability.
    pub fn new(value: f64) -> Result<Self> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            let problem = "an acceptance rate is a probability, from 0 to 1";
            Err(Error::theory(format!("{problem}, not {value}")))
        }
    }

    /// α.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A cost coefficient c, finite and not negative: the time of one forward of a drafter over that of
/// one forward of the target (Cascade Speculative Drafting, §4). Statistical drafters cost nearly
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct CostCoefficient(f64);

impl CostCoefficient {
    /// Checks that `value` is a cost coefficient.
    pub fn new(value: f64) -> Result<Self> {
        if value.is_finite() && value >= 0.0 {
            Ok(Self(value))
        } else {
            Err(Error::theory(format!(
                "a cost coefficient is the time of a drafter's forward over that of the target's: finite and not \
                 negative, not {value}"
            )))
        }
    }

    /// The ratio of two numbers of parameters: a forward at batch 1 takes as long as its weights
    /// take to be read.
    pub fn of_sizes(drafter: NonZeroU64, target: NonZeroU64) -> Self {
        Self(drafter.get() as f64 / target.get() as f64)
    }

    /// c.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A drafter in the theory: its acceptance rate and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drafter {
    /// α: the rate at which its reviewer keeps its tokens.
    pub acceptance: AcceptanceRate,
    /// c: what one of its tokens costs, in forwards of the target.
    pub cost: CostCoefficient,
}

impl Drafter {
    /// A drafter with α = `acceptance` and c = `cost`.
    pub fn new(acceptance: f64, cost: f64) -> Result<Self> {
        Ok(Self {
            acceptance: AcceptanceRate::new(acceptance)?,
            cost: CostCoefficient::new(cost)?,
        })
    }
}

/// A way to draft, under the assumption of the theory: every review of a token is an independent
/// trial with a fixed rate.
///
/// A *step* is one forward of the target together with the drafting for it. A target that drafts
/// nothing takes one forward for one token, so all figures are relative to plain decoding.
pub trait System {
    /// Expected number of tokens that a step emits, the target's own token included. At least 1.
    fn expected_tokens(&self) -> f64;

    /// Time of a step, in forwards of the target. At least 1.
    fn walltime(&self) -> f64;

    /// Expected walltime improvement factor (Cascade Speculative Drafting, §4): tokens per time,
    /// where plain decoding has 1. Below 1, drafting is a loss.
    fn ewif(&self) -> f64 {
        self.expected_tokens() / self.walltime()
    }

    /// Plays one step, trial by trial, without any formula.
    fn step(&self, rng: &mut impl Rng) -> Step;
}

/// What came of one step that was played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Tokens emitted.
    pub tokens: u64,
    /// Time it took, in forwards of the target.
    pub walltime: f64,
}

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
    /// # Ok::<(), cascade_reproduce::Error>(())
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
            walltime: self.walltime(),
        }
    }
}

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
        let round = Speculative {
            drafter: self.below,
            tokens: self.tokens,
        };
        // Rounding may carry a φ of nearly 0 or 1 past it.
        let phi = round.generating_function(alpha).clamp(0.0, 1.0);
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

/// The horizontal cascade (Cascade Speculative Drafting, §4.2): the first tokens of a draft come
/// from the best drafter, the later ones, which are reached less often, from cheaper ones.
///
/// Nothing is required of the order of the segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Horizontal {
    /// Who drafts how many tokens, first token first. No tokens at all are plain decoding.
    pub segments: Vec<Segment>,
}

/// Successive tokens of one drafter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// The drafter.
    pub drafter: Drafter,
    /// Tokens that it drafts.
    pub tokens: usize,
}

impl System for Horizontal {
    /// Σ_{i=0}^{k} Π_{j≤i} α_j (Theorem 4.5).
    fn expected_tokens(&self) -> f64 {
        let (mut expected, mut reached) = (1.0, 1.0);
        for segment in &self.segments {
            let rate = segment.drafter.acceptance.get();
            expected += reached * rate * geometric_sum(rate, segment.tokens);
            reached *= rate.powf(segment.tokens as f64);
        }
        expected
    }

    /// 1 + Σ_{i=1}^{k} c_i.
    fn walltime(&self) -> f64 {
        self.segments
            .iter()
            .map(|s| s.tokens as f64 * s.drafter.cost.get())
            .sum::<f64>()
            + 1.0
    }

    fn step(&self, rng: &mut impl Rng) -> Step {
        let (mut tokens, mut walltime, mut rejected) = (1, 1.0, false);
        for segment in &self.segments {
            walltime += segment.drafter.cost.get() * segment.tokens as f64;
            if !rejected {
                let length = segment.tokens as u64;
                let accepted = accepted_run(segment.drafter.acceptance, length, rng);
                tokens += accepted;
                rejected = accepted < length;
            }
        }
        Step { tokens, walltime }
    }
}

/// Σ_{i=0}^{terms−1} ratio^i for ratio ≥ 0.
///
/// The closed form (1 − ratio^terms) / (1 − ratio) loses all digits as the ratio comes near 1;
/// `exp_m1` keeps them, and at 1 itself the sum is the number of terms.
fn geometric_sum(ratio: f64, terms: usize) -> f64 {
    if terms == 0 {
        0.0
    } else if ratio == 1.0 {
        terms as f64
    } else {
        -f64::exp_m1(terms as f64 * ratio.ln()) / (1.0 - ratio)
    }
}

/// What a simulation found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// Tokens emitted over time taken, in forwards of the target: an estimate of the EWIF.
    pub ewif: f64,
    /// Standard error of the estimate.
    pub standard_error: f64,
    /// Tokens emitted per step.
    pub tokens_per_step: f64,
    /// Steps played.
    pub steps: u64,
    /// Seed of the trials.
    pub seed: u64,
}

/// Plays `steps` steps of `system`. The same seed gives the same result on every machine.
///
/// # Errors
/// Fewer than 2 steps.
///
/// # Cost
/// One random number per review of a token.
pub fn simulate(system: &impl System, steps: u64, seed: u64) -> Result<Simulated> {
    if steps < 2 {
        return Err(Error::too_few(steps));
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sums = Sums::default();
    for _ in 0..steps {
        let step = system.step(&mut rng);
        sums.add(step.tokens as f64, step.walltime);
    }
    Ok(sums.estimate(steps, seed))
}

/// How many of `length` tokens a reviewer accepts before the first that it rejects.
fn accepted_run(rate: AcceptanceRate, length: u64, rng: &mut impl Rng) -> u64 {
    let mut accepted = 0;
    while accepted < length && rng.random_bool(rate.get()) {
        accepted += 1;
    }
    accepted
}

/// Sums over steps of tokens t, walltime w and their products.
#[derive(Default)]
struct Sums {
    t: f64,
    w: f64,
    tt: f64,
    tw: f64,
    ww: f64,
}

impl Sums {
    fn add(&mut self, t: f64, w: f64) {
        self.t += t;
        self.w += w;
        self.tt += t * t;
        self.tw += t * w;
        self.ww += w * w;
    }

    /// The ratio of the means and its standard error (the usual linearisation, exact where all
    /// steps take the same time).
    fn estimate(&self, steps: u64, seed: u64) -> Simulated {
        let n = steps as f64;
        let ratio = self.t / self.w;
        let squares = self.tt - 2.0 * ratio * self.tw + ratio * ratio * self.ww;
        let variance = squares.max(0.0) / (n - 1.0);
        Simulated {
            ewif: ratio,
            standard_error: (variance / n).sqrt() / (self.w / n),
            tokens_per_step: self.t / n,
            steps,
            seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_probabilities() {
        for good in [0.0, 0.5, 1.0] {
            assert_eq!(AcceptanceRate::new(good).unwrap().get(), good);
        }
        for bad in [-0.01, 1.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let message = AcceptanceRate::new(bad).unwrap_err().to_string();
            assert!(message.ends_with(&format!("not {bad}")), "{message}");
        }
    }

    #[test]
    fn costs_are_finite_and_not_negative() {
        for good in [0.0, 0.02, 3.0] {
            assert_eq!(CostCoefficient::new(good).unwrap().get(), good);
        }
        for bad in [-0.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let message = CostCoefficient::new(bad).unwrap_err().to_string();
            assert!(message.ends_with(&format!("not {bad}")), "{message}");
        }
        assert!(Drafter::new(0.5, -1.0).is_err() && Drafter::new(1.5, 0.0).is_err());
    }

    #[test]
    fn equals_the_sum_written_out_even_next_to_one() {
        for ratio in [0.0, 1e-300, 0.3, 0.999, 1.0 - 1e-9, 1.0 - 1e-15, 1.0] {
            for terms in [0, 1, 2, 7, 50, 1000] {
                let written_out: f64 = (0..terms).map(|i| f64::powi(ratio, i)).sum();
                let error = (geometric_sum(ratio, terms as usize) - written_out).abs();
                assert!(error <= 1e-12 * written_out, "{ratio} {terms}: {error}");
            }
        }
    }
}
