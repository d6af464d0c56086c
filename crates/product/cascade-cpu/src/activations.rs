//! Rows of activations, as the kernels of a format read them.
//!
//! Rows are cut into blocks of as many as a kernel takes at a time, as even as they can be. Within
//! a block, a step's inputs of all rows lie side by side, so that a kernel reads from front to
//! back.

use half::bf16;
use rayon::prelude::*;

use crate::format::Format;
use crate::kernels::Wide;
use crate::{threads, vectorized, Isa};

/// What activations are turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    F32,
    BF16,
    Q8,
    Q8K,
}

impl Kind {
    pub(crate) fn of(format: Format) -> Self {
        match format {
            Format::F32 | Format::F16 => Self::F32,
            Format::BF16 => Self::BF16,
            Format::Q8_0 | Format::Q4_0 => Self::Q8,
            Format::Q4K | Format::Q5K | Format::Q6K => Self::Q8K,
        }
    }

    /// Inputs of a step.
    fn step(self) -> usize {
        match self {
            Self::Q8K => 256,
            _ => 32,
        }
    }
}

/// 32 inputs in 8 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub(crate) struct Q8 {
    /// Four inputs each, the first in the lowest byte.
    pub(crate) words: [i32; 8],
    /// What an integer stands for.
    pub(crate) scale: f32,
    /// What sums of products with bytes that have 128 added begin at: -128 times the sum of the
    /// integers.
    pub(crate) of_bytes: i32,
    /// The same of 4 bits with 8 added.
    pub(crate) of_nibbles: i32,
}

/// 256 inputs in 8 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Q8K {
    pub(crate) words: [i32; 64],
    pub(crate) scale: f32,
    /// Sums of 32 integers, two each, the first in the low half.
    pub(crate) pairs: [i32; 4],
    /// What sums of products with 16 weights of 6 bits that have 32 added begin at: -32 times the
    /// sum of the integers.
    pub(crate) of_six_bits: [i32; 16],
}

impl Default for Q8K {
    fn default() -> Self {
        Self {
            words: [0; 64],
            scale: 0.0,
            pairs: [0; 4],
            of_six_bits: [0; 16],
        }
    }
}

impl Q8 {
    /// Of integers and their sum.
    #[inline(always)]
    pub(crate) fn new(words: [i32; 8], scale: f32, sum: i32) -> Self {
        Self {
            words,
            scale,
            of_bytes: -128 * sum,
            of_nibbles: -8 * sum,
        }
    }
}

impl Q8K {
    /// Of integers and their sums by 16.
    #[inline(always)]
    pub(crate) fn new(words: [i32; 64], scale: f32, sums: [i32; 16]) -> Self {
        let pair = |i: usize| {
            let of_32 = |j: usize| sums[2 * j] + sums[2 * j + 1];
            of_32(2 * i) & 0xffff | of_32(2 * i + 1) << 16
        };
        Self {
            words,
            scale,
            pairs: std::array::from_fn(pair),
            of_six_bits: sums.map(|sum| -32 * sum),
        }
    }
}

/// Rows, block by block `[steps][rows of the block]`.
#[derive(Debug)]
pub(crate) enum Values {
    F32(Vec<[f32; 32]>),
    /// Two inputs each, the first in the low half.
    BF16(Vec<[u32; 16]>),
    Q8(Vec<Q8>),
    Q8K(Vec<Q8K>),
}

/// Rows of a product.
#[derive(Debug)]
pub(crate) struct Activations {
    pub(crate) values: Values,
    /// Rows of each block.
    pub(crate) blocks: Vec<usize>,
    pub(crate) steps: usize,
}

/// Estimated single-thread time in ns of rounding `values`.
fn duration(values: usize) -> usize {
    values * 2 / 5
}

impl Activations {
    /// Turns `[rows, inputs]` into blocks of at most `most` rows. Inputs are padded with zeros.
    /// Which instructions do it makes no difference to the bits.
    pub(crate) fn new(isa: Isa, input: &[f32], inputs: usize, kind: Kind, most: usize) -> Self {
        let rows = input.len() / inputs;
        let blocks = even_blocks(rows, most);
        let steps = inputs.div_ceil(kind.step());
        let order = Order {
            input,
            inputs,
            blocks: &blocks,
            steps,
        };
        let values = match kind {
            Kind::F32 => Values::F32(order.map([0.0; 32], |step: &[f32; 32]| *step)),
            Kind::BF16 => Values::BF16(order.map([0; 16], pairs)),
            Kind::Q8 => Values::Q8(match Wide::of(isa) {
                Some(wide) => order.map(Q8::default(), |step| wide.q8(step)),
                None => order.map(Q8::default(), q8),
            }),
            Kind::Q8K => Values::Q8K(match Wide::of(isa) {
                Some(wide) => order.map(Q8K::default(), |step| wide.q8_k(step)),
                None => order.map(Q8K::default(), q8_k),
            }),
        };
        Self {
            values,
            blocks,
            steps,
        }
    }
}

/// So many rows in blocks of at most `most`.
fn even_blocks(rows: usize, most: usize) -> Vec<usize> {
    let count = rows.div_ceil(most);
    let end = |block: usize| rows * block / count;
    (0..count)
        .map(|block| end(block + 1) - end(block))
        .collect()
}

/// In which order the steps of rows lie.
struct Order<'a> {
    input: &'a [f32],
    inputs: usize,
    blocks: &'a [usize],
    steps: usize,
}

impl Order<'_> {
    /// What `make` turns each step into, with several threads if that is worth it.
    fn map<T, const N: usize>(&self, empty: T, make: impl Fn(&[f32; N]) -> T + Sync) -> Vec<T>
    where
        T: Clone + Send,
    {
        let rows: usize = self.blocks.iter().sum();
        let mut made = vec![empty; rows * self.steps];
        let (mut to, mut from) = (&mut made[..], self.input);
        let blocks = self.blocks.iter().map(|&rows| {
            let (block, rest) = from.split_at(rows * self.inputs);
            from = rest;
            let (made, rest) = std::mem::take(&mut to).split_at_mut(rows * self.steps);
            to = rest;
            (rows, block, made)
        });
        // As many pieces as threads take in turn.
        let pieces = 4 * rayon::current_num_threads();
        let share = (self.blocks.len() * self.steps).div_ceil(pieces).max(1);
        let fill = |(rows, block, first, made): (usize, &[f32], usize, &mut [T])| {
            vectorized(
                #[inline(always)]
                || self.fill(rows, block, first, made, &make),
            );
        };
        threads::run(
            duration(self.input.len()),
            blocks,
            |blocks| blocks.for_each(|(rows, block, made)| fill((rows, block, 0, made))),
            |blocks| {
                let pieces = blocks.flat_map(|(rows, block, made)| {
                    let pieces = made.chunks_mut(rows * share).enumerate();
                    pieces.map(move |(piece, made)| (rows, block, piece * share, made))
                });
                let pieces: Vec<_> = pieces.collect();
                pieces.into_par_iter().for_each(fill);
            },
        );
        made
    }

    /// The steps of a block of rows, from the `first` on.
    #[inline(always)]
    fn fill<T, const N: usize>(
        &self,
        rows: usize,
        block: &[f32],
        first: usize,
        made: &mut [T],
        make: impl Fn(&[f32; N]) -> T,
    ) {
        let starts = (first * N..self.inputs).step_by(N);
        for (start, made) in starts.zip(made.chunks_exact_mut(rows)) {
            for (made, row) in made.iter_mut().zip(block.chunks_exact(self.inputs)) {
                *made = match row[start..].first_chunk::<N>() {
                    Some(step) => make(step),
                    None => {
                        let mut padded = [0.0; N];
                        padded[..row.len() - start].copy_from_slice(&row[start..]);
                        make(&padded)
                    }
                };
            }
        }
    }
}

#[inline(always)]
fn pairs(step: &[f32; 32]) -> [u32; 16] {
    let rounded = step.map(
        #[inline(always)]
        |value| u32::from(round(value)),
    );
    std::array::from_fn(
        #[inline(always)]
        |i| rounded[2 * i] | rounded[2 * i + 1] << 16,
    )
}

/// To the nearest bf16, ties to even; [`bf16::from_f32`] without branches.
#[inline(always)]
fn round(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    match value.is_nan() {
        true => bf16::NAN.to_bits(),
        false => rounded,
    }
}

/// The greatest magnitude; NaN is greater than all. Magnitudes are in the order of their bits.
#[inline(always)]
fn greatest<const N: usize>(values: &[f32; N]) -> f32 {
    let mut lanes = [0u32; 16];
    for values in values.as_chunks::<16>().0 {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = (*lane).max(value.to_bits() & 0x7fff_ffff);
        }
    }
    f32::from_bits(lanes.into_iter().fold(0, u32::max))
}

/// The scale of the integers -127 to 127 is a 127th of the greatest magnitude. Values that are not
/// finite make the scale NaN, and so whatever is computed with it.
#[inline(always)]
fn q8(step: &[f32; 32]) -> Q8 {
    let (scale, inverse) = scale_of(greatest(step));
    let (words, [first, second]) = integers(step, inverse);
    Q8::new(words, usable(scale, inverse), first + second)
}

/// What an integer stands for if this is the greatest magnitude, and one over it.
#[inline(always)]
pub(crate) fn scale_of(greatest: f32) -> (f32, f32) {
    let scale = greatest / 127.0;
    (scale, if scale > 0.0 { 1.0 / scale } else { 0.0 })
}

/// The scale, unless one over it is too large, for which values are as good as 0, or it is NaN.
#[inline(always)]
pub(crate) fn usable(scale: f32, inverse: f32) -> f32 {
    match scale.is_finite() && inverse.is_finite() {
        true => scale,
        false if scale < 1.0 => 0.0,
        false => f32::NAN,
    }
}

#[inline(always)]
fn q8_k(step: &[f32; 256]) -> Q8K {
    let (scale, inverse) = scale_of(greatest(step));
    let (words, sums) = integers(step, inverse);
    Q8K::new(words, usable(scale, inverse), sums)
}

/// The integers nearest to `N` values times `inverse`, ties to even, in words of four, and their
/// sums by 16.
#[inline(always)]
fn integers<const N: usize, const WORDS: usize, const SUMS: usize>(
    values: &[f32; N],
    inverse: f32,
) -> ([i32; WORDS], [i32; SUMS]) {
    // Adding and subtracting this leaves an integer.
    const MAGIC: f32 = 12_582_912.0;
    let mut rounded = [0i8; N];
    for (rounded, value) in rounded.iter_mut().zip(values) {
        let shifted = value * inverse + MAGIC;
        *rounded = (shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32) as i8;
    }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(rounded.as_chunks::<4>().0) {
        *word = i32::from_le_bytes(bytes.map(|byte| byte as u8));
    }
    let mut sums = [0; SUMS];
    for (sum, values) in sums.iter_mut().zip(rounded.as_chunks::<16>().0) {
        *sum = values.iter().map(|&value| i32::from(value)).sum();
    }
    (words, sums)
}
