//! Which samples of a dataset to take.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Which samples of a dataset to take: a window, and of it all or some at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Number of samples to pass over at the beginning.
    pub offset: usize,
    /// The most samples to take; `None` takes all.
    pub limit: Option<usize>,
    /// Which of these to keep; `None` keeps all.
    pub random: Option<RandomSample>,
}

impl Selection {
    /// Every sample.
    pub const ALL: Self = Self {
        offset: 0,
        limit: None,
        random: None,
    };

    /// The first samples, `limit` at most.
    pub const fn first(limit: usize) -> Self {
        Self {
            limit: Some(limit),
            ..Self::ALL
        }
    }

    /// Samples at random out of the whole dataset.
    pub const fn random(size: usize, seed: u64) -> Self {
        Self {
            random: Some(RandomSample { size, seed }),
            ..Self::ALL
        }
    }
}

/// A random choice without replacement, which the seed determines for good: on any machine, and in
/// any later version.
///
/// The algorithm, for whoever wants the same choice elsewhere. Random words are the keystream of
/// ChaCha20 (key: the seed as 8 little-endian bytes followed by 24 zeros; nonce and counter zero),
/// read as little-endian 64-bit numbers. A number below m is the first word that is less than the
/// largest multiple of m up to 2^64, modulo m. With the positions 0, 1, …, n − 1 in a list, for i =
/// 0, 1, …, size − 1 the one at i changes places with the one at i + (a number below n − i); the
/// first `size` of the list are chosen, and are taken **in the order of the dataset**.
///
/// Hence a smaller sample of the same seed from as many samples is a part of the larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomSample {
    /// How many.
    pub size: usize,
    /// What the choice depends on.
    pub seed: u64,
}

impl RandomSample {
    /// The chosen positions out of 0, …, `population` − 1, ascending; `None` if these are fewer
    /// than [`size`](Self::size). Takes time and memory of the order of the population.
    pub fn positions(self, population: usize) -> Option<Vec<usize>> {
        if self.size > population {
            return None;
        }
        let mut words = keystream(self.seed);
        let mut positions: Vec<usize> = (0..population).collect();
        for i in 0..self.size {
            let below = number_below((population - i) as u64, &mut words);
            positions.swap(i, i + below as usize);
        }
        positions.truncate(self.size);
        positions.sort_unstable();
        Some(positions)
    }
}

fn keystream(seed: u64) -> ChaCha20Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    ChaCha20Rng::from_seed(key)
}

/// A number below `bound`, which is at least 1, each as likely as the others.
fn number_below(bound: u64, words: &mut ChaCha20Rng) -> u64 {
    // 2^64 mod bound: so many words at the upper end would make small numbers likelier.
    let surplus = (u64::MAX % bound + 1) % bound;
    loop {
        let word = words.next_u64();
        if word <= u64::MAX - surplus {
            return word % bound;
        }
    }
}

#[cfg(test)]
mod tests;
