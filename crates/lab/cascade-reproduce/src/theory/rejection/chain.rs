//! Markov chains: at random, and as people write them.

use cascade_core::Distribution;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{Markov, Pair};
use crate::theory::{AcceptanceRate, Error, Result};

/// The memory that a chain may take, in numbers of 8 bytes: 160 MB. A pair of distributions takes
/// its probabilities and 64 numbers.
pub const MOST_NUMBERS: usize = 20_000_000;

/// Bytes of the largest file that a chain should be read from: 3 million numbers as they are
/// usually written.
pub const LARGEST_CHAIN: u64 = 64 << 20;

/// How far from 1 the sum of written probabilities may be.
const SUM_TOLERANCE: f64 = 1e-6;

/// A chain as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// Positions of the sequence.
    positions: usize,
    target: WrittenModel,
    drafter: WrittenModel,
}

/// One model of a chain.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenModel {
    /// Probabilities of the first token.
    start: Vec<f64>,
    /// Probabilities of the tokens after each token: one matrix for each later position, or a
    /// single one for all of them.
    steps: Vec<Vec<Vec<f64>>>,
}

impl Markov {
    /// A chain as in the paper's simulations: at every position and after every token, target and
    /// drafter are unrelated random distributions (uniform numbers, normalised). The same seed
    /// gives the same chain on every machine.
    ///
    /// `likeness` moves the drafter towards the target: it is `likeness`·target + (1 −
    /// `likeness`)·random. The paper's drafter has 0.
    ///
    /// # Errors
    /// [`Error::Chain`] without states or positions; [`Error::TooLarge`].
    pub fn random(
        states: usize,
        positions: usize,
        likeness: AcceptanceRate,
        seed: u64,
    ) -> Result<Self> {
        if states == 0 || positions == 0 {
            return Err(Error::Chain(format!(
                "it has {positions} positions of {states} states; give 1 or more of both"
            )));
        }
        check_size(positions, states)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut pair = || random_pair(states, likeness.get(), &mut rng);
        let first = pair()?;
        let later = (1..positions).map(|_| (0..states).map(|_| pair()).collect());
        Self::new(first, later.collect::<Result<_>>()?)
    }

    /// Reads a chain:
    ///
    /// ```
    /// use cascade_reproduce::theory::rejection::{expected_rejections, Markov};
    ///
    /// // The first token, and one matrix for all later ones: a row after each token.
    /// let chain = Markov::from_json(r#"{
    ///     "positions": 3,
    ///     "target":  {"start": [0.5, 0.5], "steps": [[[0.9, 0.1], [0.5, 0.5]]]},
    ///     "drafter": {"start": [0.5, 0.5], "steps": [[[0.7, 0.3], [0.5, 0.5]]]}
    /// }"#)?;
    /// // After token 0 the distance is 0.2; it comes with probability 0.5, and then 0.7.
    /// assert!((expected_rejections(&chain, 3).expected - 0.2 * (0.5 + 0.7)).abs() < 1e-12);
    /// # Ok::<(), cascade_reproduce::theory::Error>(())
    /// ```
    ///
    /// `steps` has one matrix, or one for each position after the first. Rows must sum to 1.
    ///
    /// # Errors
    /// [`Error::Chain`], which names the entry; [`Error::TooLarge`].
    pub fn from_json(text: &str) -> Result<Self> {
        let written: Written =
            serde_json::from_str(text).map_err(|error| Error::Chain(error.to_string()))?;
        let Written {
            positions,
            target,
            drafter,
        } = written;
        let states = target.start.len();
        if states == 0 || positions == 0 {
            return Err(Error::Chain(format!(
                "it has {positions} positions and `target.start` {states} probabilities; give 1 or more of both"
            )));
        }
        check_size(positions, states)?;
        let (target, drafter) = (
            target.distributions("target", positions, states)?,
            drafter.distributions("drafter", positions, states)?,
        );
        let first = Pair::new(target.start.clone(), drafter.start.clone())?;
        let later = (0..positions - 1).map(|position| {
            let rows = target.step(position).iter().zip(drafter.step(position));
            rows.map(|(q, p)| Pair::new(q.clone(), p.clone())).collect()
        });
        Self::new(first, later.collect::<Result<_>>()?)
    }

    /// The chain as [`from_json`](Self::from_json) reads it.
    ///
    /// # Errors
    /// [`Error::Chain`] if it cannot be written.
    pub fn to_json(&self) -> Result<String> {
        let written = Written {
            positions: self.positions(),
            target: self.written(Pair::target),
            drafter: self.written(Pair::drafter),
        };
        serde_json::to_string(&written).map_err(|error| Error::Chain(error.to_string()))
    }

    fn written(&self, of: impl Fn(&Pair) -> &Distribution) -> WrittenModel {
        let row = |pair: &Pair| {
            let row = of(pair);
            (0..self.states() as u32)
                .map(|token| row.probability(token))
                .collect()
        };
        let steps = self.later.iter();
        WrittenModel {
            start: row(&self.first),
            steps: steps.map(|step| step.iter().map(row).collect()).collect(),
        }
    }
}

/// What a pair takes besides its probabilities, in numbers.
const PAIR: usize = 64;

/// The memory of a chain, in numbers; `None` if that is beyond counting.
fn size(positions: usize, states: usize) -> Option<usize> {
    let pair = states.checked_mul(2)?.checked_add(PAIR)?;
    positions.checked_mul(states)?.checked_mul(pair)
}

fn check_size(positions: usize, states: usize) -> Result<()> {
    match size(positions, states) {
        Some(numbers) if numbers <= MOST_NUMBERS => Ok(()),
        _ => Err(Error::TooLarge {
            positions,
            states,
            most: MOST_NUMBERS,
        }),
    }
}

fn random_pair(states: usize, likeness: f64, rng: &mut ChaCha8Rng) -> Result<Pair> {
    let target = random_row(states, rng);
    let other = random_row(states, rng);
    let drafter = target
        .iter()
        .zip(&other)
        .map(|(q, p)| likeness * q + (1.0 - likeness) * p);
    let proper =
        |row: Vec<f64>| Distribution::new(row).map_err(|error| Error::Chain(error.to_string()));
    Pair::new(proper(target.clone())?, proper(drafter.collect())?)
}

/// Uniform numbers in (0, 1], normalised.
fn random_row(states: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let row: Vec<f64> = (0..states).map(|_| 1.0 - rng.random::<f64>()).collect();
    let sum: f64 = row.iter().sum();
    row.into_iter().map(|weight| weight / sum).collect()
}

/// A model whose rows have been checked.
struct Model {
    start: Distribution,
    /// One, or one for each later position.
    steps: Vec<Vec<Distribution>>,
}

impl Model {
    fn step(&self, position: usize) -> &[Distribution] {
        let only = self.steps.len() == 1;
        &self.steps[if only { 0 } else { position }]
    }
}

impl WrittenModel {
    fn distributions(self, name: &str, positions: usize, states: usize) -> Result<Model> {
        let later = positions - 1;
        let matrices = self.steps.len();
        if matrices != later && !(matrices == 1 && later > 0) {
            return Err(Error::Chain(format!(
                "`{name}.steps` has {matrices} matrices and {later} positions follow the first; \
                 give {later}, or 1 for all of them"
            )));
        }
        let rows = |i: usize, matrix: Vec<Vec<f64>>| {
            let found = matrix.len();
            if found != states {
                return Err(Error::Chain(format!(
                    "`{name}.steps[{i}]` has {found} rows and there are {states} states; give one row after each"
                )));
            }
            let rows = matrix.into_iter().enumerate();
            rows.map(|(after, row)| proper(&format!("{name}.steps[{i}][{after}]"), row, states))
                .collect()
        };
        let steps = self.steps.into_iter().enumerate();
        Ok(Model {
            start: proper(&format!("{name}.start"), self.start, states)?,
            steps: steps
                .map(|(i, matrix)| rows(i, matrix))
                .collect::<Result<_>>()?,
        })
    }
}

fn proper(entry: &str, row: Vec<f64>, states: usize) -> Result<Distribution> {
    let found = row.len();
    if found != states {
        return Err(Error::Chain(format!(
            "`{entry}` has {found} probabilities and there are {states} states"
        )));
    }
    let sum: f64 = row.iter().sum();
    let row =
        Distribution::new(row).map_err(|error| Error::Chain(format!("`{entry}`: {error}")))?;
    if (sum - 1.0).abs() <= SUM_TOLERANCE {
        Ok(row)
    } else {
        Err(Error::Chain(format!(
            "`{entry}` sums to {sum}; divide it by that"
        )))
    }
}
