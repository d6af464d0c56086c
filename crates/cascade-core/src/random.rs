//! Random sources for drafting and verification.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Distribution, TokenId};

/// A source of randomness. It is the only one that acceptance rules and drafting use, so a test can
/// enumerate every outcome with its probability instead of sampling one.
pub trait RandomSource {
    /// `true` with this probability; values outside `[0, 1]` are clamped.
    fn accept(&mut self, probability: f64) -> bool;

    /// A token drawn from a distribution.
    fn draw(&mut self, distribution: &Distribution) -> TokenId;

    /// An integer drawn uniformly from `0..n`.
    ///
    /// # Panics
    /// May panic if `n` is 0.
    fn below(&mut self, n: usize) -> usize;
}

/// Pseudo-random numbers from a seed: the same everywhere and in every release (ChaCha with 8
/// rounds).
#[derive(Clone, Debug)]
pub struct SeededRandom(ChaCha8Rng);

impl SeededRandom {
    /// The generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }
}

impl RandomSource for SeededRandom {
    fn accept(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }

    fn draw(&mut self, distribution: &Distribution) -> TokenId {
        distribution.at_quantile(self.0.random())
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.random_range(0..n)
    }
}
