//! How the weights of a linear map are stored, in files and in memory.

use std::fmt;

/// Outputs that lie side by side in a panel of weights.
pub(crate) const WIDTH: usize = 16;

/// How weights are stored. What a product of each is, to the bit, is written in
/// `kernels/scalar.rs`.
///
/// | | bits of a weight | activations | sums |
/// |---|---|---|---|
/// | `F32` | 32 | f32 | f32, input by input |
/// | `BF16` | 16 | rounded to bf16 | f32, input by input |
/// | `F16` | 16 | f32 | f32, input by input |
/// | `Q8_0` | 8.5 | 8 bits, a scale for 32 | exact in a block of 32, f32 over blocks |
/// | `Q4_0` | 4.5 | 8 bits, a scale for 32 | exact in a block of 32, f32 over blocks |
/// | `Q4K` | 4.625 | 8 bits, a scale for 256 | exact in a block of 256, f32 over blocks |
/// | `Q5K` | 5.625 | 8 bits, a scale for 256 | exact in a block of 256, f32 over blocks |
/// | `Q6K` | 6.5625 | 8 bits, a scale for 256 | exact in a block of 256, f32 over blocks |
///
/// The last five are those of GGUF, and their products are what llama.cpp defines them to be, but
/// for the scales of activations, which stay f32 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE single precision.
    F32,
    /// bfloat16.
    BF16,
    /// IEEE half precision.
    F16,
    /// Blocks of 32: a scale in f16 and signed bytes.
    Q8_0,
    /// Blocks of 32: a scale in f16 and 4 bits each, less 8.
    Q4_0,
    /// Blocks of 256: eight times 32 weights of 4 bits, with a scale and a minimum of 6 bits each.
    Q4K,
    /// Blocks like those of `Q4K`, with weights of 5 bits.
    Q5K,
    /// Blocks of 256: sixteen times 16 weights of 6 bits, less 32, with a scale of 8 bits each.
    Q6K,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 8] = [
        Self::F32,
        Self::BF16,
        Self::F16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// The name of the format, as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::BF16 => "bf16",
            Self::F16 => "f16",
            Self::Q8_0 => "q8_0",
            Self::Q4_0 => "q4_0",
            Self::Q4K => "q4_k",
            Self::Q5K => "q5_k",
            Self::Q6K => "q6_k",
        }
    }

    /// Weights of a block, which are neighbours of one output. A row has whole blocks.
    pub fn block_values(self) -> usize {
        match self {
            Self::F32 | Self::BF16 | Self::F16 => 1,
            Self::Q8_0 | Self::Q4_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block, as files have it.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Bytes that a map of `outputs` times `inputs` takes in memory, padding included.
    pub fn bytes(self, inputs: usize, outputs: usize) -> usize {
        let panel = inputs
            .div_ceil(self.step())
            .saturating_mul(self.step_bytes());
        outputs.div_ceil(WIDTH).saturating_mul(panel)
    }

    /// Inputs of a step of a kernel.
    pub(crate) const fn step(self) -> usize {
        match self {
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
            _ => 32,
        }
    }

    /// Bytes of a step of a panel.
    pub(crate) const fn step_bytes(self) -> usize {
        match self {
            Self::F32 => F32_STEP,
            Self::BF16 | Self::F16 => HALF_STEP,
            Self::Q8_0 => Q8_0_STEP,
            Self::Q4_0 => Q4_0_STEP,
            Self::Q4K => Q4K_STEP,
            Self::Q5K => Q5K_STEP,
            Self::Q6K => Q6K_STEP,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// `[32 inputs][16]` f32.
pub(crate) const F32_STEP: usize = 32 * WIDTH * 4;
/// `[32 inputs][16]` f16, or `[16 pairs of inputs][16][2]` bf16.
pub(crate) const HALF_STEP: usize = 32 * WIDTH * 2;
/// `[16]` scales, then `[8 times 4 inputs][16][4]` bytes, each with 128 added.
pub(crate) const Q8_0_STEP: usize = 2 * WIDTH + 32 * WIDTH;
/// `[16]` scales, then `[4 times 8 inputs][16][4]` bytes, whose low halves are the first four.
pub(crate) const Q4_0_STEP: usize = 2 * WIDTH + 16 * WIDTH;
/// Where the parts of a step of Q4_K begin: after `[16]` scales and `[16]` minima in f16, `[8][16]`
/// factors of scales, `[4][16][2]` factors of minima, and eight times the weights as in Q4_0. Q5_K
/// is the same, but each part ends with a vector whose bits `i` are the high ones of the `i`th 4
/// inputs.
pub(crate) const Q4K_FACTORS: usize = 4 * WIDTH;
pub(crate) const Q4K_MINIMA: usize = Q4K_FACTORS + 8 * WIDTH;
pub(crate) const Q4K_WEIGHTS: usize = Q4K_MINIMA + 8 * WIDTH;
pub(crate) const Q4K_PART: usize = 16 * WIDTH;
pub(crate) const Q4K_STEP: usize = Q4K_WEIGHTS + 8 * Q4K_PART;
pub(crate) const Q5K_PART: usize = Q4K_PART + 4 * WIDTH;
pub(crate) const Q5K_STEP: usize = Q4K_WEIGHTS + 8 * Q5K_PART;
/// Where the parts of a step of Q6_K begin: after `[16]` scales in f16, `[16][16]` signed factors,
/// then 16 times (for 16 inputs each) two vectors with the low 4 bits as in Q4_0, and one whose
/// bits 2i and 2i + 1 are the high ones of the `i`th 4 inputs.
pub(crate) const Q6K_FACTORS: usize = 2 * WIDTH;
pub(crate) const Q6K_WEIGHTS: usize = Q6K_FACTORS + 16 * WIDTH;
pub(crate) const Q6K_PART: usize = 12 * WIDTH;
pub(crate) const Q6K_STEP: usize = Q6K_WEIGHTS + 16 * Q6K_PART;
