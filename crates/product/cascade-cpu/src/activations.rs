//! Rows of activations, as the kernels of a format read them.
//!
//! Rows are cut into blocks of as many as a kernel takes at a time, as even as they can be. Within
//! a block, a step's inputs of all rows lie side by side, so that a kernel reads from front to
//! back.

use half::bf16;

use crate::format::Format;
use crate::vectorized;

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
            Format::Q4K | Format::Q6K => Self::Q8K,
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

impl Activations {
    /// Turns `[rows, inputs]` into blocks of at most `most` rows. Inputs are padded with zeros.
    pub(crate) fn new(input: &[f32], inputs: usize, kind: Kind, most: usize) -> Self {
        let rows = input.len() / inputs;
        let blocks = even_blocks(rows, most);
        let steps = inputs.div_ceil(kind.step());
        let order = Order {
            input,
            inputs,
            blocks: &blocks,
            steps,
        };
        let values = vectorized(
            #[inline(always)]
            || match kind {
                Kind::F32 => Values::F32(order.map(|step: &[f32; 32]| *step)),
                Kind::BF16 => Values::BF16(order.map(pairs)),
                Kind::Q8 => Values::Q8(order.map(q8)),
                Kind::Q8K => Values::Q8K(order.map(q8_k)),
            },
        );
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
    #[inline(always)]
    fn map<T, const N: usize>(&self, make: impl Fn(&[f32; N]) -> T) -> Vec<T> {
        let mut made = Vec::with_capacity(self.blocks.iter().sum::<usize>() * self.steps);
        let mut rest = self.input;
        for rows in self.blocks {
            let (block, after) = rest.split_at(rows * self.inputs);
            rest = after;
            for start in (0..self.inputs).step_by(N) {
                for row in block.chunks_exact(self.inputs) {
                    match row[start..].first_chunk::<N>() {
                        Some(step) => made.push(make(step)),
                        None => {
                            let mut padded = [0.0; N];
                            padded[..row.len() - start].copy_from_slice(&row[start..]);
                            made.push(make(&padded));
                        }
                    }
                }
            }
        }
        made
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
    let most = greatest(step);
    let scale = most / 127.0;
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let (words, [first, second]) = integers(step, inverse);
    Q8 {
        words,
        scale: usable(scale, inverse),
        of_bytes: -128 * (first + second),
        of_nibbles: -8 * (first + second),
    }
}

/// The scale, unless one over it is too large, for which values are as good as 0, or it is NaN.
#[inline(always)]
fn usable(scale: f32, inverse: f32) -> f32 {
    match scale.is_finite() && inverse.is_finite() {
        true => scale,
        false if scale < 1.0 => 0.0,
        false => f32::NAN,
    }
}

#[inline(always)]
fn q8_k(step: &[f32; 256]) -> Q8K {
    let most = greatest(step);
    let scale = most / 127.0;
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    let (words, sums) = integers(step, inverse);
    let pair = |i: usize| {
        let of_32 = |j: usize| sums[2 * j] + sums[2 * j + 1];
        of_32(2 * i) & 0xffff | of_32(2 * i + 1) << 16
    };
    Q8K {
        words,
        scale: usable(scale, inverse),
        pairs: std::array::from_fn(pair),
        of_six_bits: sums.map(|sum: i32| -32 * sum),
    }
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
