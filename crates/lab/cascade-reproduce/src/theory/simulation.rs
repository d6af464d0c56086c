//! Playing a system instead of computing it.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::theory::{AcceptanceRate, Error, Result, System};

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
}

/// Plays `steps` steps of `system`. The same seed gives the same result on every machine.
///
/// # Errors
/// [`Error::TooFewSteps`] if `steps` is below 2.
///
/// # Cost
/// One random number per review of a token.
pub fn simulate(system: &impl System, steps: u64, seed: u64) -> Result<Simulated> {
    if steps < 2 {
        return Err(Error::TooFewSteps(steps));
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut sums = Sums::default();
    for _ in 0..steps {
        let step = system.step(&mut rng);
        sums.add(step.tokens as f64, step.walltime);
    }
    Ok(sums.estimate(steps))
}

/// How many of `length` tokens a reviewer accepts before the first that it rejects.
pub(crate) fn accepted_run(rate: AcceptanceRate, length: u64, rng: &mut impl Rng) -> u64 {
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
    fn estimate(&self, steps: u64) -> Simulated {
        let n = steps as f64;
        let ratio = self.t / self.w;
        let squares = self.tt - 2.0 * ratio * self.tw + ratio * ratio * self.ww;
        let variance = squares.max(0.0) / (n - 1.0);
        Simulated {
            ewif: ratio,
            standard_error: (variance / n).sqrt() / (self.w / n),
            tokens_per_step: self.t / n,
            steps,
        }
    }
}
