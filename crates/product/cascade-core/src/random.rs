//! Randomness, as drafting and reviewing use it.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Distribution, TokenId};

/// A source of chance. Rules and drafting draw from nothing else, so that a test can walk through
/// every outcome with its probability instead of drawing one.
pub trait RandomSource {
    /// `true` with this probability; numbers outside `[0, 1]` count as the nearer end.
    fn accept(&mut self, probability: f64) -> bool;

    /// A token drawn from a distribution.
    fn draw(&mut self, distribution: &Distribution) -> TokenId;

    /// One of `0..n`, each as probable as the others.
    ///
    /// # Panics
    /// May panic if `n` is 0.
    fn below(&mut self, n: usize) -> usize;
}

impl<C: RandomSource + ?Sized> RandomSource for &mut C {
    fn accept(&mut self, probability: f64) -> bool {
        (**self).accept(probability)
    }

    fn draw(&mut self, distribution: &Distribution) -> TokenId {
        (**self).draw(distribution)
    }

    fn below(&mut self, n: usize) -> usize {
        (**self).below(n)
    }
}

/// Pseudo-random numbers from a seed: the same everywhere and in every release (ChaCha with 8
/// rounds).
#[derive(Clone, Debug)]
pub struct SeededRandom(ChaCha8Rng);

impl SeededRandom {
    /// The sequence of `seed`.
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
