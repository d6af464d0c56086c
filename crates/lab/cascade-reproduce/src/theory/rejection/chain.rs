//! Markov chains: at random, and as people write them.

use cascade_core::Distribution;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::Pair;
use crate::theory::AcceptanceRate;
use crate::{Error, Result};

/// The memory that a chain may take, in numbers of 8 bytes: 160 MB. A pair of distributions takes
/// its probabilities and 64 numbers.
const MOST_NUMBERS: usize = 20_000_000;

/// Bytes of the largest file that a chain should be read from: 3 million numbers as they are
/// usually written.
pub const LARGEST_CHAIN: u64 = 64 << 20;

/// How far from 1 the sum of written probabilities may be.
const SUM_TOLERANCE: f64 = 1e-6;

/// Target and drafter as a Markov chain: their distributions depend on position and last token, as
/// in the paper's simulations. The sequence ends after the last position.
#[derive(Clone, Debug, PartialEq)]
pub struct Markov {
    positions: usize,
    states: usize,
    pairs: Vec<Pair>,
}

impl Markov {
    /// Number of positions.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// Number of tokens.
    pub fn states(&self) -> usize {
        self.states
    }

    /// All pairs: that of the first position, then position by position one after each token.
    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// The place among the pairs of a position after a token, which does not matter at the first
    /// position.
    pub(crate) fn place(&self, position: usize, last: usize) -> usize {
        match position {
            0 => 0,
            position => 1 + (position - 1) * self.states + last,
        }
    }

    /// Goes through the sequence, with the weight of each last token: `visit` is called with the
    /// pair behind it, its weight and those of the tokens that follow, to which it adds.
    pub(super) fn walk<W: Copy + Default>(
        &self,
        start: W,
        mut visit: impl FnMut(&Pair, W, &mut [W]),
    ) {
        let mut weights = vec![start];
        for position in 0..self.positions {
            let mut next = vec![W::default(); self.states];
            for (last, &weight) in weights.iter().enumerate() {
                visit(&self.pairs[self.place(position, last)], weight, &mut next);
            }
            weights = next;
        }
    }

    /// A chain as in the paper's simulations: at every position and after every token, target and
    /// drafter are unrelated random distributions (uniform numbers, normalised). The same seed
    /// gives the same chain on every machine.
    ///
    /// `likeness` moves the drafter towards the target: it is `likeness`·target + (1 −
    /// `likeness`)·random. The paper's drafter has 0.
    ///
    /// # Errors
    /// No states or positions, and more than there is memory for.
    pub fn random(
        states: usize,
        positions: usize,
        likeness: AcceptanceRate,
        seed: u64,
    ) -> Result<Self> {
        if states == 0 || positions == 0 {
            let size = format!("{positions} positions of {states} states");
            return Err(none(format!("it has {size}; give 1 or more of both")));
        }
        check_size(positions, states)?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let pairs = 1 + (positions - 1) * states;
        let pairs = (0..pairs).map(|_| random_pair(states, likeness.get(), &mut rng));
        Ok(Self {
            positions,
            states,
            pairs: pairs.collect::<Result<_>>()?,
        })
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
    /// let rejections = expected_rejections(&chain);
    /// assert!((rejections.expected - 0.2 * (0.5 + 0.7)).abs() < 1e-12);
    /// assert!((rejections.acceleration() - 3.0 / 0.24).abs() < 1e-9);
    /// # Ok::<(), cascade_reproduce::Error>(())
    /// ```
    ///
    /// `steps` has one matrix, or one for each position after the first. Rows must sum to 1.
    ///
    /// # Errors
    /// Text that is no chain, with the entry, and more than there is memory for.
    pub fn from_json(text: &str) -> Result<Self> {
        let Written {
            positions,
            target,
            drafter,
        } = serde_json::from_str(text).map_err(none)?;
        let states = target.start.len();
        if states == 0 || positions == 0 {
            return Err(none(format!(
                "it has {positions} positions and `target.start` {states} probabilities; give 1 or more of both"
            )));
        }
        check_size(positions, states)?;
        let target = target.rows("target", positions, states)?;
        let drafter = drafter.rows("drafter", positions, states)?;
        // One matrix for all positions is repeated.
        let place = |rows: &[Distribution], i: usize| match i {
            0 => 0,
            i if rows.len() == 1 + states => 1 + (i - 1) % states,
            i => i,
        };
        let pair = |i| Pair::new(&target[place(&target, i)], &drafter[place(&drafter, i)]);
        let pairs = (0..1 + (positions - 1) * states).map(pair);
        Ok(Self {
            positions,
            states,
            pairs: pairs.collect::<Result<_>>()?,
        })
    }

    /// The chain as [`from_json`](Self::from_json) reads it.
    ///
    /// # Errors
    /// What writing JSON fails with; no chain is known to cause it.
    pub fn to_json(&self) -> Result<String> {
        let written = Written {
            positions: self.positions,
            target: self.written(|(target, _)| target),
            drafter: self.written(|(_, drafter)| drafter),
        };
        serde_json::to_string(&written).map_err(none)
    }

    fn written(&self, of: fn((f64, f64)) -> f64) -> WrittenModel {
        let rows = self.pairs.iter();
        let mut rows: Vec<Vec<f64>> = rows.map(|pair| pair.tokens().map(of).collect()).collect();
        let later = rows.split_off(1);
        WrittenModel {
            start: rows.remove(0),
            steps: later.chunks(self.states).map(<[_]>::to_vec).collect(),
        }
    }
}

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

impl WrittenModel {
    /// All rows: the first, then those of each matrix.
    fn rows(self, name: &str, positions: usize, states: usize) -> Result<Vec<Distribution>> {
        let later = positions - 1;
        let matrices = self.steps.len();
        if matrices != later && !(matrices == 1 && later > 0) {
            return Err(none(format!(
                "`{name}.steps` has {matrices} matrices and {later} positions follow the first; \
                 give {later}, or 1 for all of them"
            )));
        }
        let mut rows = vec![proper(&format!("{name}.start"), self.start, states)?];
        for (i, matrix) in self.steps.into_iter().enumerate() {
            let found = matrix.len();
            if found != states {
                return Err(none(format!(
                    "`{name}.steps[{i}]` has {found} rows and there are {states} states; give one row after each"
                )));
            }
            for (after, row) in matrix.into_iter().enumerate() {
                rows.push(proper(&format!("{name}.steps[{i}][{after}]"), row, states)?);
            }
        }
        Ok(rows)
    }
}

fn none(problem: impl std::fmt::Display) -> Error {
    Error::theory(format!("the chain is not one: {problem}"))
}

/// What a pair takes besides its probabilities, in numbers.
const PAIR: usize = 64;

/// The memory of a chain, in numbers; `None` if that is beyond counting.
fn size(positions: usize, states: usize) -> Option<usize> {
    let pair = states.checked_mul(2)?.checked_add(PAIR)?;
    positions.checked_mul(states)?.checked_mul(pair)
}

fn check_size(positions: usize, states: usize) -> Result<()> {
    check_numbers(size(positions, states), (positions, states))
}

/// Refuses to hold more numbers than a chain may take.
pub(super) fn check_numbers(
    numbers: Option<usize>,
    (positions, states): (usize, usize),
) -> Result<()> {
    if numbers.is_some_and(|numbers| numbers <= MOST_NUMBERS) {
        return Ok(());
    }
    Err(Error::theory(format!(
        "{positions} positions of {states} states take more memory than that of {MOST_NUMBERS} numbers, which a chain \
         may take; take fewer"
    )))
}

fn random_pair(states: usize, likeness: f64, rng: &mut ChaCha8Rng) -> Result<Pair> {
    let target = random_row(states, rng);
    let other = random_row(states, rng);
    let both = target.iter().zip(&other);
    let drafter = both.map(|(q, p)| likeness * q + (1.0 - likeness) * p);
    let drafter = Distribution::new(drafter.collect()).map_err(none)?;
    Pair::new(&Distribution::new(target).map_err(none)?, &drafter)
}

/// Uniform numbers in (0, 1], normalised.
fn random_row(states: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let row: Vec<f64> = (0..states).map(|_| 1.0 - rng.random::<f64>()).collect();
    let sum: f64 = row.iter().sum();
    row.into_iter().map(|weight| weight / sum).collect()
}

fn proper(entry: &str, row: Vec<f64>, states: usize) -> Result<Distribution> {
    let found = row.len();
    if found != states {
        return Err(none(format!(
            "`{entry}` has {found} probabilities and there are {states} states"
        )));
    }
    let sum: f64 = row.iter().sum();
    let row = Distribution::new(row).map_err(|error| none(format!("`{entry}`: {error}")))?;
    if (sum - 1.0).abs() <= SUM_TOLERANCE {
        Ok(row)
    } else {
        Err(none(format!("`{entry}` sums to {sum}; divide it by that")))
    }
}
