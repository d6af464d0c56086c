//! Rows of activations, as the kernels of a format read them.
//!
//! Rows are cut into blocks of as many as a kernel takes at a time, as even as they can be. Within
//! a block, a step's inputs of all rows lie side by side, so that a kernel reads from front to
//! back.

use std::ops::Range;

/// The numbers that activations are turned into for a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivationKind {
    F32,
    /// Pairs of bf16.
    BF16,
    /// f32 that bf16 has, too.
    Rounded,
    Q8,
    Q8K,
}

impl ActivationKind {
    /// Inputs of a step.
    pub(crate) fn step(self) -> usize {
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
    /// What sums of products with weights of 4 bits that have 8 added begin at.
    pub(crate) of_nibbles: i32,
    /// What a minimum is multiplied with: the sum of the integers times their scale.
    pub(crate) of_minima: f32,
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
    /// A block of integers and their sum.
    #[inline(always)]
    pub(crate) fn new(words: [i32; 8], scale: f32, sum: i32) -> Self {
        Self {
            words,
            scale,
            of_bytes: -128 * sum,
            of_nibbles: -8 * sum,
            of_minima: sum as f32 * scale,
        }
    }
}

impl Q8K {
    /// A block of integers and their sums by 16.
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

/// What an integer stands for if this is the greatest magnitude, and one over it.
#[inline(always)]
pub(crate) fn scale_of(greatest: f32) -> (f32, f32) {
    let scale = greatest / 127.0;
    (scale, if scale > 0.0 { 1.0 / scale } else { 0.0 })
}

/// The scale, unless one over it is too large, for which values are as good as 0, or it is NaN.
#[inline(always)]
pub(crate) fn usable(scale: f32, inverse: f32) -> f32 {
    if scale.is_finite() && inverse.is_finite() {
        scale
    } else if scale < 1.0 {
        0.0
    } else {
        f32::NAN
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

impl Activations {
    /// Where the values of a block are.
    pub(crate) fn range(&self, block: usize) -> Range<usize> {
        let before: usize = self.blocks[..block].iter().sum();
        before * self.steps..(before + self.blocks[block]) * self.steps
    }
}
