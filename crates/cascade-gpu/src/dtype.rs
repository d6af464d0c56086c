//! The types that models compute in, and those that checkpoints hold weights in.

/// What a model computes in: the type of its weights, of what linear maps read, and of cached keys
/// and values. Sums, norms, softmax and the residual stream are f32 always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32 bits.
    F32,
    /// bfloat16, on tensor cores.
    BF16,
    /// IEEE half precision, on tensor cores. What is too large for it becomes NaN, and stays it up
    /// to the logits.
    F16,
    /// Weights of linear maps and tables are integers of 8 bits with a scale in f16 for each
    /// [`BLOCK`] inputs; all else is as in [`BF16`](Self::BF16). The sum of a block's products with
    /// its integers, in f32, times its scale is added to that of the blocks before it by one fused
    /// multiplication and addition.
    Q8,
}

/// Weights that share a scale in [`DType::Q8`].
pub const BLOCK: usize = 32;
/// Bytes of a block as they are stored: the scale, then the integers, as in GGUF.
pub const BLOCK_BYTES: usize = 2 + BLOCK;

impl DType {
    /// The type of activations, keys and values as kernels number it.
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::BF16 | Self::Q8 => 1,
            Self::F16 => 2,
        }
    }

    /// Bytes of an activation, a key's or a value's element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::BF16 | Self::F16 | Self::Q8 => 2,
        }
    }

    /// Bytes of `weights` weights, which are whole blocks.
    pub fn weight_bytes(self, weights: usize) -> usize {
        match self {
            Self::Q8 => weights / BLOCK * BLOCK_BYTES,
            _ => weights * self.bytes(),
        }
    }
}

/// The type of a checkpoint's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageDType {
    /// 32 bits.
    F32,
    /// bfloat16.
    BF16,
    /// IEEE half precision.
    F16,
    /// Blocks of [`BLOCK_BYTES`] bytes, [`BLOCK`] weights of a row each.
    Q8,
}

impl StorageDType {
    /// Bytes of `count` elements.
    pub(crate) fn bytes(self, count: usize) -> usize {
        match self {
            Self::F32 => 4 * count,
            Self::BF16 | Self::F16 => 2 * count,
            Self::Q8 => count / BLOCK * BLOCK_BYTES,
        }
    }

    pub(crate) fn number(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::BF16 => 1,
            Self::F16 => 2,
            Self::Q8 => 3,
        }
    }
}
