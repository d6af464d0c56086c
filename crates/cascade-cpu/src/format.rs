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
/// | `Q4_1` | 5 | 8 bits, a scale for 32 | exact in a block of 32, f32 over blocks |
/// | `Q5_1` | 6 | 8 bits, a scale for 32 | exact in a block of 32, f32 over blocks |
/// | `Iq4`, `Mxfp4` | 5 | 8 bits, a scale for 32 | exact in a block of 32, f32 over blocks |
/// | `Q2K` | 3.125 | 8 bits, a scale for 256 | exact in a block of 256, f32 over blocks |
/// | `Q4K` | 4.625 | 8 bits, a scale for 256 | exact in a block of 256, f32 over blocks |
/// | `Q5K` | 5.625 | 8 bits, a scale for 256 | exact in a block of 256, f32 over blocks |
/// | `Q6K` | 6.5625 | 8 bits, a scale for 256 | exact in a block of 256, f32 over blocks |
///
/// All but the first three are those of GGUF, and their products are what llama.cpp defines them to
/// be, but for the scales of activations, which stay f32 here, and are of 32 inputs in `Iq4`.
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
    /// Blocks of 32: a scale and a minimum in f16, and 4 bits each.
    Q4_1,
    /// Blocks like those of `Q4_1`, with weights of 5 bits.
    Q5_1,
    /// Blocks of 32: a scale in f32, and 4 bits each, which stand for the 16 integers that IQ4_NL
    /// and IQ4_XS have.
    Iq4,
    /// Blocks of 32: a power of two in a byte, and 4 bits each, which stand for numbers of E2M1.
    Mxfp4,
    /// Blocks of 256: sixteen times 16 weights of 2 bits, with a scale and a minimum of 4 bits
    /// each.
    Q2K,
    /// Blocks of 256: eight times 32 weights of 4 bits, with a scale and a minimum of 6 bits each.
    Q4K,
    /// Blocks like those of `Q4K`, with weights of 5 bits.
    Q5K,
    /// Blocks of 256: sixteen times 16 weights of 6 bits, less 32, with a scale of 8 bits each.
    Q6K,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 13] = [
        Self::F32,
        Self::BF16,
        Self::F16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_1,
        Self::Iq4,
        Self::Mxfp4,
        Self::Q2K,
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
            Self::Q4_1 => "q4_1",
            Self::Q5_1 => "q5_1",
            Self::Iq4 => "iq4",
            Self::Mxfp4 => "mxfp4",
            Self::Q2K => "q2_k",
            Self::Q4K => "q4_k",
            Self::Q5K => "q5_k",
            Self::Q6K => "q6_k",
        }
    }

    /// Weights of a block, which are neighbours of one output. A row has whole blocks.
    pub fn block_values(self) -> usize {
        match self {
            Self::F32 | Self::BF16 | Self::F16 => 1,
            _ => self.step(),
        }
    }

    /// Bytes of a block, as files have it.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 | Self::Iq4 => 20,
            Self::Q5_1 => 24,
            Self::Mxfp4 => 17,
            Self::Q2K => 84,
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
            Self::Q2K | Self::Q4K | Self::Q5K | Self::Q6K => 256,
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
            Self::Q4_1 => Q4_1_STEP,
            Self::Q5_1 => Q5_1_STEP,
            Self::Iq4 | Self::Mxfp4 => TABLE_STEP,
            Self::Q2K => Q2K_STEP,
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
/// `[16]` scales and `[16]` minima in f16, then the weights as in Q4_0.
pub(crate) const Q4_1_STEP: usize = 4 * WIDTH + Q4K_PART;
/// As in Q4_1, but weights as in Q5_K.
pub(crate) const Q5_1_STEP: usize = 4 * WIDTH + Q5K_PART;
/// `[16]` scales in f32, then codes as in Q4_0.
pub(crate) const TABLE_STEP: usize = 4 * WIDTH + Q4K_PART;
/// What the codes of [`Format::Iq4`] stand for.
pub(crate) const IQ4: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];
/// What the codes of [`Format::Mxfp4`] stand for: twice the numbers of E2M1.
pub(crate) const MXFP4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
/// Both tables, by the numbers that kernels have for them.
pub(crate) const TABLES: [[i8; 16]; 2] = [IQ4, MXFP4];
/// Where the parts of a step of Q2_K begin: after `[16]` scales and `[16]` minima in f16,
/// `[16][16]` factors of scales and as many of minima, then 16 times (for 16 inputs each) a vector
/// whose bits 2i and 2i + 1 are the `i`th 4 inputs.
pub(crate) const Q2K_FACTORS: usize = 4 * WIDTH;
pub(crate) const Q2K_MINIMA: usize = Q2K_FACTORS + 16 * WIDTH;
pub(crate) const Q2K_WEIGHTS: usize = Q2K_MINIMA + 16 * WIDTH;
pub(crate) const Q2K_PART: usize = 4 * WIDTH;
pub(crate) const Q2K_STEP: usize = Q2K_WEIGHTS + 16 * Q2K_PART;
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
