//! Weights in the memory of one of candle's devices.

use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};

/// A matrix `[outputs, inputs]`: of a linear map, or an embedding. Clones share its memory.
#[derive(Clone, Debug)]
pub(crate) enum Matrix {
    /// Numbers.
    Dense(Tensor),
    /// Blocks of GGUF, which are multiplied with as they are.
    Blocks(Arc<QTensor>),
}

impl Matrix {
    /// A matrix of blocks, row by row, as GGUF has them.
    pub(super) fn blocks(
        device: &Device,
        bytes: &[u8],
        [outputs, inputs]: [usize; 2],
        format: GgmlDType,
    ) -> Result<Self> {
        let storage = QStorage::from_data(bytes.into(), device, format)?;
        let tensor = QTensor::new(storage, (outputs, inputs))?;
        Ok(Self::Blocks(Arc::new(tensor)))
    }

    /// Bytes that the matrix takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Dense(tensor) => tensor.elem_count() * tensor.dtype().size_in_bytes(),
            Self::Blocks(blocks) => blocks.storage_size_in_bytes(),
        }
    }

    /// The rows of some tokens, in `dtype`.
    pub(super) fn rows(&self, tokens: &Tensor, dtype: DType) -> Result<Tensor> {
        let rows = match self {
            Self::Dense(table) => table.index_select(tokens, 0),
            Self::Blocks(table) => table.embedding(tokens),
        };
        rows?.to_dtype(dtype)
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    fn product(&self, rows: &Tensor) -> Result<Tensor> {
        match self {
            Self::Dense(weight) => rows.matmul(&weight.t()?),
            Self::Blocks(blocks) => QMatMul::QTensor(Arc::clone(blocks)).forward(rows),
        }
    }

    /// Matrices below one another, as one matrix if all are of numbers.
    fn joined(parts: Vec<Self>) -> Result<Vec<Self>> {
        let dense = parts.iter().map(|part| match part {
            Self::Dense(tensor) => Some(tensor),
            Self::Blocks(_) => None,
        });
        match dense.collect::<Option<Vec<_>>>() {
            Some(all) if all.len() > 1 => Ok(vec![Self::Dense(Tensor::cat(&all, 0)?)]),
            _ => Ok(parts),
        }
    }
}

/// A tensor of these values on a device, which is narrowed to `dtype` before it is copied there.
pub(super) fn tensor(
    device: &Device,
    values: Vec<f32>,
    shape: &[usize],
    dtype: DType,
) -> Result<Tensor> {
    let host = Tensor::from_vec(values, shape, &Device::Cpu)?;
    host.to_dtype(dtype)?.to_device(device)
}

/// A linear map, whose outputs may be a gate and what it gates.
#[derive(Debug)]
pub(crate) struct Linear {
    parts: Vec<Matrix>,
    bias: Option<Tensor>,
    pub(super) gated: bool,
}

impl Linear {
    /// Maps of one input below one another; the first half of a gated one is the gate.
    pub(super) fn new(parts: Vec<Matrix>, bias: Option<Tensor>, gated: bool) -> Result<Self> {
        let parts = Matrix::joined(parts)?;
        Ok(Self { parts, bias, gated })
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    pub(super) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let product = match &self.parts[..] {
            [whole] => whole.product(rows)?,
            parts => {
                let products = parts.iter().map(|part| part.product(rows));
                Tensor::cat(&products.collect::<Result<Vec<_>>>()?, 1)?
            }
        };
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}

/// A root-mean-square norm.
#[derive(Debug)]
pub(crate) struct Norm {
    pub(super) weight: Tensor,
    pub(super) epsilon: f32,
}

impl Norm {
    /// Norms the last dimension.
    pub(super) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        candle_nn::ops::rms_norm(&rows.contiguous()?, &self.weight, self.epsilon)
    }
}

/// Cosines and sines by position, `[positions, half a head]` each.
#[derive(Debug)]
pub(crate) struct Rotary {
    pub(super) cosines: Tensor,
    pub(super) sines: Tensor,
}

impl Rotary {
    /// Cosines and sines of some positions.
    pub(super) fn at(&self, positions: &Tensor) -> Result<[Tensor; 2]> {
        Ok([
            self.cosines.index_select(positions, 0)?,
            self.sines.index_select(positions, 0)?,
        ])
    }
}
