//! Weights by name, for backends: from a checkpoint, or from whoever has them.

mod pack;

use std::borrow::Cow;

#[cfg(feature = "candle")]
use cascade_checkpoint::{Blocks, Scales};
use cascade_checkpoint::{Checkpoint, FloatType, Named, Rows, Stored};
#[cfg(feature = "candle")]
use cascade_cpu::Format;

pub(crate) use self::pack::{PackedMatrix, format_for, pack, pack_blocks};
use crate::{DType, Result};

/// Gives the weights of a model by name, as a checkpoint of Hugging Face names them.
pub trait WeightSource: Send + Sync {
    /// Whether there is a tensor `name`.
    fn has(&self, name: &str) -> bool;

    /// The values of the tensor `name`, row-major. NaN and infinities are refused where they would
    /// be rounded; else they show in the logits.
    ///
    /// # Errors
    /// If it is missing or has another shape.
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>>;
}

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A linear map or a table, `[outputs, inputs]`.
    Matrix,
    /// The bias of a linear map.
    Bias,
    /// The weight of a norm.
    Norm,
}

/// Where the weights of a model come from, whatever the backend. What files give is finite.
pub(crate) trait Provider {
    /// Whether there is a tensor `name`.
    fn has(&self, name: &str) -> bool;

    /// The tensor `name` in f32.
    fn read(&self, name: &str, shape: &[usize], role: Role) -> Result<Vec<f32>>;

    /// The matrix `name`, `[rows, inputs]`, where it lies, if it is there what it would be in
    /// memory.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    fn rows(&self, _name: &str, _shape: [usize; 2], _dtype: DType) -> Result<Option<Rows>> {
        Ok(None)
    }

    /// The matrix `name`, `[outputs, inputs]`, as the CPU's kernels read it.
    fn pack(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<PackedMatrix>;

    /// The blocks that the matrix `name`, `[outputs, inputs]`, is held in if `dtype` asks for
    /// blocks: the file's own, or made of its values. `None` if it is held as numbers.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    #[cfg(feature = "candle")]
    fn blocks(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Option<Blocks<'_>>>;
}

/// The weights of a [`WeightSource`].
pub(crate) struct CallerWeights<'a>(pub(crate) &'a dyn WeightSource);

impl CallerWeights<'_> {
    fn stored(&self, name: &str, shape: &[usize]) -> Result<Stored<'static>> {
        let values = self.0.values(name, shape)?;
        Ok(Stored {
            dtype: FloatType::F32,
            bytes: Cow::Owned(values.into_iter().flat_map(f32::to_le_bytes).collect()),
        })
    }

    fn named(tensor: &str) -> Named<'_> {
        Named { file: None, tensor }
    }
}

impl Provider for CallerWeights<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.has(name)
    }

    fn read(&self, name: &str, shape: &[usize], _: Role) -> Result<Vec<f32>> {
        self.0.values(name, shape)
    }

    fn pack(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<PackedMatrix> {
        pack(Self::named(name), &self.stored(name, &shape)?, shape, dtype)
    }

    #[cfg(feature = "candle")]
    fn blocks(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Option<Blocks<'_>>> {
        let Some(format) = block_format(dtype, shape) else {
            return Ok(None);
        };
        let stored = self.stored(name, &shape)?;
        in_blocks(format, Self::named(name), &stored, shape).map(Some)
    }
}

/// What blocks a type asks for, if they fit rows of this shape.
#[cfg(feature = "candle")]
pub(crate) fn block_format(dtype: DType, [_, inputs]: [usize; 2]) -> Option<Format> {
    let format = match dtype {
        DType::Q8_0 => Format::Q8_0,
        DType::Q4_0 => Format::Q4_0,
        _ => return None,
    };
    inputs
        .is_multiple_of(format.block_values())
        .then_some(format)
}

#[cfg(feature = "candle")]
fn in_blocks(
    format: Format,
    name: Named<'_>,
    stored: &Stored<'_>,
    shape: [usize; 2],
) -> Result<Blocks<'static>> {
    Ok(Blocks {
        format,
        bytes: Cow::Owned(pack::blocks(format, name, stored, shape)?),
    })
}

/// The weights of a checkpoint.
pub(crate) struct CheckpointWeights(pub(crate) Checkpoint);

impl CheckpointWeights {
    fn packed(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<PackedMatrix> {
        let named = self.0.named(name);
        if let Some(blocks) = self.0.blocks(name, shape, dtype)? {
            return pack_blocks(named, &blocks, shape);
        }
        pack(named, &self.0.load(name, &shape)?, shape, dtype)
    }
}

impl Provider for CheckpointWeights {
    fn has(&self, name: &str) -> bool {
        self.0.has(name)
    }

    fn read(&self, name: &str, shape: &[usize], _: Role) -> Result<Vec<f32>> {
        let stored = self.0.finite(name, shape)?;
        Ok(stored.dtype.to_f32(&stored.bytes))
    }

    fn rows(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Option<Rows>> {
        Ok(self.0.rows(name, shape, dtype)?)
    }

    fn pack(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<PackedMatrix> {
        let packed = self.packed(name, shape, dtype)?;
        self.0.let_go(name);
        Ok(packed)
    }

    #[cfg(feature = "candle")]
    fn blocks(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Option<Blocks<'_>>> {
        let named = self.0.named(name);
        if let Some(blocks) = self.0.blocks(name, shape, dtype)? {
            named.check_blocks(Scales::of_format(blocks.format), &blocks.bytes, &shape)?;
            return Ok(Some(blocks));
        }
        match block_format(dtype, shape) {
            Some(format) => in_blocks(format, named, &self.0.load(name, &shape)?, shape).map(Some),
            None => Ok(None),
        }
    }
}
