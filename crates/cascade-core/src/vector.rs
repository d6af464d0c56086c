//! Loops over a whole vocabulary, compiled for the CPU's vector instructions.
//!
//! Every sum is taken in an order that does not depend on the width of a vector, and no product is
//! fused with a sum, so results are bit-identical on every CPU.

use crate::TokenId;
use crate::exp::exp_nonpositive as exp;

/// Block size: values are processed in blocks, each with its maximum or sum, so that a search first
/// finds the block.
pub(crate) const BLOCK: usize = 64;

/// Partial sums or maxima of a block.
const LANES: usize = 8;

/// Calls the closure with the widest vector instructions that this CPU has. The closure and
/// everything it calls must be `#[inline(always)]`, or they are compiled without those
/// instructions.
#[inline]
pub(crate) fn vectorized<T>(run: impl FnMut() -> T) -> T {
    pulp::Arch::new().dispatch(Vectorized(run))
}

/// Calls the closure by reference: the shim that calls it by value is not inlined.
struct Vectorized<F>(F);

impl<T, F: FnMut() -> T> pulp::WithSimd for Vectorized<F> {
    type Output = T;

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(mut self, _: S) -> T {
        (self.0)()
    }
}

/// All blocks; the last one is padded with `padding`.
#[inline(always)]
pub(crate) fn blocks<T: Copy>(values: &[T], padding: T) -> impl Iterator<Item = [T; BLOCK]> + '_ {
    let (blocks, rest) = values.as_chunks();
    let last = (!rest.is_empty()).then(|| padded(rest, padding));
    blocks.iter().copied().chain(last)
}

#[inline(always)]
fn padded<T: Copy>(values: &[T], padding: T) -> [T; BLOCK] {
    let mut block = [padding; BLOCK];
    block[..values.len()].copy_from_slice(values);
    block
}

/// Partial sums of a block.
#[inline(always)]
fn partial_sums<T: Weight>(block: &[T; BLOCK]) -> [f64; LANES] {
    let mut lanes = [0.0; LANES];
    for start in (0..BLOCK).step_by(LANES) {
        for i in 0..LANES {
            lanes[i] += block[start + i].into();
        }
    }
    lanes
}

/// The sum of each block, from its partial sums. (A loop of its own, since in the same loop it
/// would prevent vectorisation of the partial sums.)
fn sums(partial: Vec<[f64; LANES]>) -> Vec<f64> {
    partial
        .into_iter()
        .map(|lanes| fold(lanes, |a, b| a + b))
        .collect()
}

/// Reduces the lanes by repeatedly combining the two halves.
#[inline(always)]
fn fold<T: Copy>(mut lanes: [T; LANES], combine: impl Fn(T, T) -> T) -> T {
    for half in [4, 2, 1] {
        for i in 0..half {
            lanes[i] = combine(lanes[i], lanes[i + half]);
        }
    }
    lanes[0]
}

/// The larger of two values; unspecified which one if either is NaN.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// The maximum of each block, and whether all values are below +∞ (NaN is not). The maxima are
/// meaningless otherwise.
pub(crate) fn maxima(values: &[f32]) -> (Vec<f32>, bool) {
    let mut partial = Vec::with_capacity(values.len().div_ceil(BLOCK));
    let proper = vectorized(
        #[inline(always)]
        || {
            let mut improper = [0; LANES];
            for block in blocks(values, f32::NEG_INFINITY) {
                let mut lanes = [f32::NEG_INFINITY; LANES];
                for start in (0..BLOCK).step_by(LANES) {
                    for i in 0..LANES {
                        let value = block[start + i];
                        lanes[i] = larger(lanes[i], value);
                        improper[i] |= u32::from(value.is_nan() | (value == f32::INFINITY));
                    }
                }
                partial.push(lanes);
            }
            improper == [0; LANES]
        },
    );
    let maxima = partial.into_iter().map(|lanes| fold(lanes, larger));
    (maxima.collect(), proper)
}

/// Unnormalised softmax: e^((l − max)·scale).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exponential {
    pub(crate) max: f32,
    pub(crate) scale: f32,
}

impl Exponential {
    #[inline(always)]
    pub(crate) fn of(self, logit: f32) -> f32 {
        exp((logit - self.max) * self.scale)
    }

    #[inline(always)]
    fn of_block(self, logits: &[f32; BLOCK]) -> [f32; BLOCK] {
        let mut weights = [0.0; BLOCK];
        for (weight, &logit) in weights.iter_mut().zip(logits) {
            *weight = self.of(logit);
        }
        weights
    }

    /// The weight of each logit.
    pub(crate) fn all(self, logits: &[f32]) -> Vec<f32> {
        let mut weights = Vec::with_capacity(logits.len().next_multiple_of(BLOCK));
        vectorized(
            #[inline(always)]
            || {
                for block in blocks(logits, f32::NEG_INFINITY) {
                    weights.extend_from_slice(&self.of_block(&block));
                }
            },
        );
        weights.truncate(logits.len());
        weights
    }

    /// The sum of the weights of some tokens, which are ranked by their logits.
    pub(crate) fn mass(self, tokens: &[Ranked]) -> f64 {
        let mut partial = Vec::with_capacity(tokens.len().div_ceil(BLOCK));
        let nothing = Ranked::new(0, f32::NEG_INFINITY);
        vectorized(
            #[inline(always)]
            || {
                for block in blocks(tokens, nothing) {
                    let mut logits = [0.0; BLOCK];
                    for i in 0..BLOCK {
                        logits[i] = block[i].value();
                    }
                    partial.push(partial_sums(&self.of_block(&logits)));
                }
            },
        );
        sums(partial).into_iter().sum()
    }

    /// The sum of all weights.
    pub(crate) fn total(self, logits: &[f32]) -> f64 {
        let mut partial = Vec::with_capacity(logits.len().div_ceil(BLOCK));
        vectorized(
            #[inline(always)]
            || {
                for block in blocks(logits, f32::NEG_INFINITY) {
                    partial.push(partial_sums(&self.of_block(&block)));
                }
            },
        );
        sums(partial).into_iter().sum()
    }
}

/// A weight in either precision.
pub(crate) trait Weight: Copy + Default + PartialOrd + Into<f64> {}

impl Weight for f32 {}
impl Weight for f64 {}

/// The sum of each block.
pub(crate) fn block_sums<T: Weight>(weights: &[T]) -> Vec<f64> {
    let mut partial = Vec::with_capacity(weights.len().div_ceil(BLOCK));
    vectorized(
        #[inline(always)]
        || {
            for block in blocks(weights, T::default()) {
                partial.push(partial_sums(&block));
            }
        },
    );
    sums(partial)
}

/// Weights and the factor that makes them probabilities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scaled<'a, T> {
    pub(crate) weights: &'a [T],
    pub(crate) factor: f64,
}

impl<T: Weight> Scaled<'_, T> {
    /// All probabilities are 0.
    pub(crate) const NOTHING: Self = Self {
        weights: &[],
        factor: 0.0,
    };

    /// The probabilities of a block, padded with zeros.
    #[inline(always)]
    fn block(&self, index: usize) -> [f64; BLOCK] {
        let start = (index * BLOCK).min(self.weights.len());
        let weights = &self.weights[start..];
        let mut probabilities = [0.0; BLOCK];
        if let Some(block) = weights.first_chunk::<BLOCK>() {
            for i in 0..BLOCK {
                probabilities[i] = block[i].into() * self.factor;
            }
        } else {
            for (probability, &weight) in probabilities.iter_mut().zip(weights) {
                *probability = weight.into() * self.factor;
            }
        }
        probabilities
    }
}

/// f(p, q) for the probabilities at equal positions of a block of `p` and of `q`.
#[inline(always)]
fn zip_block<P: Weight, Q: Weight>(
    p: Scaled<'_, P>,
    q: Scaled<'_, Q>,
    f: impl Fn(f64, f64) -> f64,
    index: usize,
) -> [f64; BLOCK] {
    let (mut values, q) = (p.block(index), q.block(index));
    for i in 0..BLOCK {
        values[i] = f(values[i], q[i]);
    }
    values
}

/// f(p, q) for the probabilities at equal positions of `p` and `q`, and the sum of each block. f(0,
/// q) must be 0.
pub(crate) fn zip<P: Weight, Q: Weight>(
    p: Scaled<'_, P>,
    q: Scaled<'_, Q>,
    f: impl Fn(f64, f64) -> f64 + Copy,
) -> (Vec<f64>, Vec<f64>) {
    let blocks = p.weights.len().div_ceil(BLOCK);
    let mut values = Vec::with_capacity(blocks * BLOCK);
    let mut partial = Vec::with_capacity(blocks);
    vectorized(
        #[inline(always)]
        || {
            for index in 0..blocks {
                let block = zip_block(p, q, f, index);
                values.extend_from_slice(&block);
                partial.push(partial_sums(&block));
            }
        },
    );
    values.truncate(p.weights.len());
    (values, sums(partial))
}

/// The sum of the values of [`zip`].
pub(crate) fn zip_sum<P: Weight, Q: Weight>(
    p: Scaled<'_, P>,
    q: Scaled<'_, Q>,
    f: impl Fn(f64, f64) -> f64 + Copy,
) -> f64 {
    let mut partial = Vec::with_capacity(p.weights.len().div_ceil(BLOCK));
    vectorized(
        #[inline(always)]
        || {
            for index in 0..p.weights.len().div_ceil(BLOCK) {
                partial.push(partial_sums(&zip_block(p, q, f, index)));
            }
        },
    );
    sums(partial).into_iter().sum()
}

/// A token and its logit or weight packed into one integer, ordered by value and, among equal
/// values, by descending id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ranked(u64);

impl Ranked {
    /// `value` must not be NaN.
    #[inline(always)]
    pub(crate) fn new(token: TokenId, value: f32) -> Self {
        // −0 and +0 are equal.
        let bits = (value + 0.0).to_bits();
        let sign = bits.cast_signed() >> 31;
        let ordered = bits ^ (sign.cast_unsigned() | 1 << 31);
        Self(u64::from(ordered) << 32 | u64::from(!token))
    }

    #[inline(always)]
    pub(crate) fn token(self) -> TokenId {
        !(self.0 as u32)
    }

    #[inline(always)]
    pub(crate) fn value(self) -> f32 {
        let ordered = (self.0 >> 32) as u32;
        let sign = !ordered.cast_signed() >> 31;
        f32::from_bits(ordered ^ (sign.cast_unsigned() | 1 << 31))
    }
}

/// The tokens with a value of at least `bound`, in ascending order. `maxima` are those of the
/// blocks of `values`; only blocks that contain such a token are searched.
pub(crate) fn at_least(values: &[f32], maxima: &[f32], bound: f32) -> Vec<Ranked> {
    let mut found = Vec::new();
    let blocks = values.chunks(BLOCK).zip(maxima).enumerate();
    for (index, (block, _)) in blocks.filter(|&(_, (_, &max))| max >= bound) {
        // Always written, needed or not, which avoids an unpredictable branch.
        let mut hits = [Ranked(0); BLOCK];
        let mut count = 0;
        for (token, &value) in (index * BLOCK..).zip(block) {
            hits[count % BLOCK] = Ranked::new(token as TokenId, value);
            count += usize::from(value >= bound);
        }
        found.extend_from_slice(&hits[..count]);
    }
    found
}

/// The largest value that the maxima alone guarantee at least `n` tokens to reach; `floor` if they
/// guarantee none, or if `floor` is larger.
pub(crate) fn reached_by(maxima: &[f32], n: usize, floor: f32) -> f32 {
    if n == 0 || n > maxima.len() {
        return floor;
    }
    // Each block whose maximum reaches a value has a token that does.
    let mut maxima = maxima.to_vec();
    let (_, &mut nth, _) = maxima.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a));
    larger(floor, nth)
}

/// The `n` highest-ranked tokens among those of at least `floor`, in ascending order of ids.
pub(crate) fn first(values: &[f32], maxima: &[f32], n: usize, floor: f32) -> Vec<Ranked> {
    let mut found = at_least(values, maxima, reached_by(maxima, n, floor));
    if n < found.len() {
        let mut order = found.clone();
        let (_, &mut beyond, _) = order.select_nth_unstable_by(n, |a, b| b.cmp(a));
        found.retain(|&ranked| ranked > beyond);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_as_precise_as_documented() {
        let mut largest: f64 = 0.0;
        let mut last = 1.0;
        // Every 1001st of all values from 0 down to the logarithm of the smallest normal one.
        for bits in ((-0f32).to_bits()..=(-87.336_54f32).to_bits()).step_by(1001) {
            let x = f32::from_bits(bits);
            let exact = f64::from(x).exp();
            largest = largest.max((f64::from(exp(x)) / exact - 1.0).abs());
            assert!(exp(x) <= last, "not monotone at {x}");
            last = exp(x);
        }
        assert!(largest < 1e-7, "{largest:e}");
        assert_eq!((exp(0.0), exp(-0.0)), (1.0, 1.0));
        for none in [-87.4, -1e3, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp(none), 0.0);
        }
    }

    #[test]
    fn ranks_order_by_value_and_then_by_id() {
        let ascending = [
            Ranked::new(0, f32::NEG_INFINITY),
            Ranked::new(0, -2.0),
            Ranked::new(7, 0.0),
            Ranked::new(6, -0.0),
            Ranked::new(9, f32::MIN_POSITIVE),
            Ranked::new(9, 3.0),
            Ranked::new(8, 3.0),
        ];
        assert!(ascending.is_sorted());
        assert_eq!((ascending[1].token(), ascending[1].value()), (0, -2.0));
        assert_eq!((ascending[6].token(), ascending[6].value()), (8, 3.0));
    }

    #[test]
    fn the_first_are_found_wherever_they_are() {
        // Falling, rising, and all in one block.
        let values: Vec<f32> = (0..300i16).map(|i| f32::from((i * 77) % 300)).collect();
        let (maxima, proper) = maxima(&values);
        assert!(proper && maxima.len() == 5);
        for n in [0, 1, 4, 5, 6, 299, 300, 301] {
            let first = first(&values, &maxima, n, 0.0);
            let smallest = first
                .iter()
                .map(|r| r.value())
                .fold(f32::INFINITY, f32::min);
            assert_eq!(first.len(), n.min(300));
            assert!(first.is_sorted_by_key(|r| r.token()));
            assert!(n == 0 || smallest == 300.0 - first.len() as f32);
        }
    }

    #[test]
    fn the_instructions_make_no_difference() {
        let logits: Vec<f32> = (0..1000).map(|i| ((i * 37) as f32).sin() * 20.0).collect();
        let softmax = Exponential {
            max: 20.0,
            scale: 1.3,
        };
        let plain: Vec<f32> = logits.iter().map(|&l| softmax.of(l)).collect();
        assert_eq!(softmax.all(&logits), plain);
        let sums: f64 = block_sums(&plain).iter().sum();
        assert_eq!(sums.to_bits(), softmax.total(&logits).to_bits());
    }
}
