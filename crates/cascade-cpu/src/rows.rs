//! What a row of logits says: its most probable tokens, and how probable they are.
//!
//! Rows as long as a vocabulary are read in strides of [`LANES`], each lane on its own, so that
//! vector instructions do it.

use std::cmp::Ordering;

use cascade_core::{Error, Result, TokenId};

use cascade_core::exp::exp_clamped as exp;

use crate::vectorized;

/// Values of a stride: several vectors of any instruction set, whose results do not wait for each
/// other.
const LANES: usize = 32;

/// The first of a row's greatest logits. Costs one pass, and a second one up to that token.
///
/// # Errors
/// [`Error::ImproperLogits`] if a logit is NaN or +∞, or if all are −∞. Single −∞ are
/// probabilities of 0.
pub fn first_maximum(row: &[f32]) -> Result<TokenId> {
    let improper = |token: usize| Error::ImproperLogits {
        token: token as TokenId,
        logit: row[token],
    };
    let found = vectorized(
        #[inline(always)]
        || maximum(row).map(|max| first_equal(row, max)),
    );
    match found {
        Some(token) if row[token] > f32::NEG_INFINITY => Ok(token as TokenId),
        Some(_) => Err(improper(0)),
        None => {
            let place = row.iter().position(|&logit| is_improper(logit));
            Err(improper(place.unwrap_or(0)))
        }
    }
}

/// NaN or +∞.
#[inline(always)]
fn is_improper(logit: f32) -> bool {
    logit.is_nan() || logit == f32::INFINITY
}

/// The greatest value, or `None` if there is an improper one.
#[inline(always)]
fn maximum(row: &[f32]) -> Option<f32> {
    let mut greatest = [f32::NEG_INFINITY; LANES];
    // As wide as the values, so that both are handled by the same vectors.
    let mut improper = [0u32; LANES];
    let mut note = |values: &[f32]| {
        let lanes = greatest.iter_mut().zip(&mut improper);
        for ((greatest, improper), &value) in lanes.zip(values) {
            *greatest = if value > *greatest { value } else { *greatest };
            *improper |= u32::from(is_improper(value));
        }
    };
    let strides = row.chunks_exact(LANES);
    note(strides.remainder());
    strides.for_each(note);
    let proper = improper.iter().all(|&flag| flag == 0);
    proper.then(|| greatest.into_iter().fold(f32::NEG_INFINITY, f32::max))
}

/// The first place of `value`, which is in the row.
#[inline(always)]
fn first_equal(row: &[f32], value: f32) -> usize {
    let has_it = |stride: &[f32]| stride.iter().fold(false, |any, &v| any | (v == value));
    let strides = row.chunks(LANES).take_while(|stride| !has_it(stride));
    let before = strides.map(<[f32]>::len).sum::<usize>();
    let place = row[before..].iter().position(|&v| v == value);
    before + place.unwrap_or(0)
}

/// The softmax of one row, in f32.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    max: f32,
    /// One over the sum of the exponentials, relative to the greatest: the probability of the most
    /// probable token.
    scale: f32,
}

impl Softmax {
    /// Probabilities of a row with the greatest logit `max`. Costs one exponential per token.
    pub fn new(row: &[f32], max: f32) -> Self {
        let sum = vectorized(
            #[inline(always)]
            || sum_of_exponentials(row, max),
        );
        Self {
            max,
            scale: sum.recip(),
        }
    }

    /// The probability of the most probable token.
    pub fn greatest(self) -> f32 {
        self.scale
    }

    /// The probability of a token with this logit.
    pub fn probability(self, logit: f32) -> f32 {
        exp(logit - self.max) * self.scale
    }
}

#[inline(always)]
fn sum_of_exponentials(row: &[f32], max: f32) -> f32 {
    let mut sums = [0.0; LANES];
    let mut add = |values: &[f32]| {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum += exp(value - max);
        }
    };
    let strides = row.chunks_exact(LANES);
    add(strides.remainder());
    strides.for_each(add);
    sums.iter().sum()
}

/// The `width` greatest logits of a row without NaN with their tokens, the greatest first, the
/// lower id first among equals; all of them if there are fewer.
///
/// Costs about one pass over the row, whatever the width: most strides hold nothing above the
/// least logit selected so far, and of what is selected on top, the least is dropped whenever it
/// has become as much as is wanted.
pub fn greatest(row: &[f32], width: usize) -> Vec<(TokenId, f32)> {
    let (head, tail) = row.split_at(width.min(row.len()));
    if head.is_empty() {
        return Vec::new();
    }
    let mut selection = Selection::new(head);
    vectorized(
        #[inline(always)]
        || selection.extend(tail),
    );
    selection.into_sorted()
}

struct Selection {
    /// At least as many as are wanted, and the greatest of all seen among them.
    candidates: Vec<(TokenId, f32)>,
    width: usize,
    /// A logit that `width` earlier tokens reach: a later token needs a greater one.
    least: f32,
}

impl Selection {
    /// The top of the first tokens of a row, as many as are wanted.
    fn new(head: &[f32]) -> Self {
        let width = head.len();
        let mut candidates = Vec::with_capacity(2 * (width + LANES));
        candidates.extend((0..).zip(head.iter().copied()));
        let least = head.iter().copied().fold(f32::INFINITY, f32::min);
        Self {
            candidates,
            width,
            least,
        }
    }

    /// Sees the tokens after the first.
    #[inline(always)]
    fn extend(&mut self, tail: &[f32]) {
        for (stride, at) in tail.chunks(LANES).zip((self.width..).step_by(LANES)) {
            let least = self.least;
            if stride
                .iter()
                .fold(false, |any, &logit| any | (logit > least))
            {
                self.add(stride, at);
            }
        }
    }

    // Rarely called, so kept out of the loop above.
    #[inline(never)]
    fn add(&mut self, stride: &[f32], at: usize) {
        let tokens = (at as TokenId..).zip(stride.iter().copied());
        let least = self.least;
        self.candidates
            .extend(tokens.filter(|&(_, logit)| logit > least));
        if self.candidates.len() >= 2 * self.width + LANES {
            self.prune();
        }
    }

    fn prune(&mut self) {
        let (_, last, _) = self
            .candidates
            .select_nth_unstable_by(self.width - 1, more_probable_first);
        self.least = last.1;
        self.candidates.truncate(self.width);
    }

    fn into_sorted(mut self) -> Vec<(TokenId, f32)> {
        self.prune();
        self.candidates.sort_unstable_by(more_probable_first);
        self.candidates
    }
}

/// Zeros are equal, whatever their sign, as they are for [`first_maximum`].
fn more_probable_first(a: &(TokenId, f32), b: &(TokenId, f32)) -> Ordering {
    let by_logit = b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal);
    by_logit.then(a.0.cmp(&b.0))
}

/// Shannon entropy of the softmax of a row of finite logits or negative infinities, in nats.
pub fn entropy(row: &[f32]) -> f32 {
    let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (mut sum, mut weighted) = (0.0f64, 0.0f64);
    for &logit in row {
        let below = f64::from(logit - greatest);
        let weight = below.exp();
        if weight > 0.0 {
            sum += weight;
            weighted += weight * below;
        }
    }
    (sum.ln() - weighted / sum) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng, rngs::StdRng};

    const INFINITE: f32 = f32::INFINITY;

    /// Few distinct values, so that many are equal; some are −∞, and zeros have signs.
    fn random_row(rng: &mut StdRng, len: usize) -> Vec<f32> {
        let spread = rng.random_range(1..50);
        let value = |rng: &mut StdRng| match rng.random_range(-spread..=spread) {
            0 if rng.random_bool(0.5) => -0.0,
            x if x == -spread => -INFINITE,
            x => x as f32 / 4.0,
        };
        (0..len).map(|_| value(rng)).collect()
    }

    #[test]
    fn agrees_with_sorting_everything() {
        let mut rng = StdRng::seed_from_u64(1);
        for round in 0..400 {
            let len = rng.random_range(1..300);
            let mut row = random_row(&mut rng, len);
            match round % 4 {
                0 => row.sort_by(f32::total_cmp),
                1 => row.sort_by(|a, b| b.total_cmp(a)),
                _ => {}
            }
            let mut sorted: Vec<(TokenId, f32)> = (0..).zip(row.iter().copied()).collect();
            sorted.sort_by(more_probable_first);
            for width in [0, 1, 2, 8, 40, len, len + 1] {
                assert_eq!(greatest(&row, width), sorted[..width.min(len)]);
            }
            if sorted[0].1 > -INFINITE {
                assert_eq!(first_maximum(&row).unwrap(), sorted[0].0);
            }
        }
    }

    #[test]
    fn the_first_of_equals_wins() {
        assert_eq!(first_maximum(&[0.5, 2.0, 2.0]).unwrap(), 1);
        assert_eq!(first_maximum(&[-0.0, 0.0]).unwrap(), 0);
        assert_eq!(first_maximum(&[-INFINITE, -INFINITE, -3e38]).unwrap(), 2);
        let tokens: Vec<TokenId> = greatest(&[-0.0, 0.0, 1.0], 3).iter().map(|t| t.0).collect();
        assert_eq!(tokens, [2, 0, 1]);
    }

    #[test]
    fn the_first_improper_logit_is_named() {
        let refused = |row: &[f32]| match first_maximum(row).unwrap_err() {
            Error::ImproperLogits { token, logit } => (token, logit.to_string()),
            error => panic!("{error}"),
        };
        for len in [1, 31, 32, 33, 100, 2048] {
            assert_eq!(refused(&vec![-INFINITE; len]), (0, "-inf".into()));
            for place in [0, len / 2, len - 1] {
                for (bad, said) in [(f32::NAN, "NaN"), (INFINITE, "inf")] {
                    let mut row = vec![1.0; len];
                    row[place] = bad;
                    assert_eq!(refused(&row), (place as TokenId, said.into()), "{len}");
                    // Whatever comes after it.
                    row[len - 1] = bad;
                    assert_eq!(refused(&row), (place as TokenId, said.into()), "{len}");
                }
            }
        }
    }

    #[test]
    fn probabilities_are_those_of_the_softmax() {
        let mut rng = StdRng::seed_from_u64(2);
        for len in [1, 7, 32, 1000, 32_128] {
            let row: Vec<f32> = (0..len).map(|_| rng.random_range(-9.0..9.0)).collect();
            let max = row.iter().copied().fold(-INFINITE, f32::max);
            let softmax = Softmax::new(&row, max);
            let exact: f64 = row.iter().map(|&x| f64::from(x - max).exp()).sum();
            assert!((f64::from(softmax.greatest()) * exact - 1.0).abs() < 1e-5);
            assert_eq!(softmax.probability(max), softmax.greatest());
            assert_eq!(softmax.probability(-INFINITE), 0.0);
        }
    }
}
