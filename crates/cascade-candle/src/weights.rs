//! Weights in the memory of a device.

use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Module, Tensor};

use crate::{DType, Device, Result};

/// Blocks of GGUF that candle multiplies with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFormat {
    /// 32 weights of 8 bits.
    Q8_0,
    /// 32 weights of 4 bits.
    Q4_0,
    /// 256 weights of 4 bits.
    Q4K,
    /// 256 weights of 5 bits.
    Q5K,
    /// 256 weights of 6 bits.
    Q6K,
}

impl BlockFormat {
    fn of_candle(self) -> GgmlDType {
        match self {
            Self::Q8_0 => GgmlDType::Q8_0,
            Self::Q4_0 => GgmlDType::Q4_0,
            Self::Q4K => GgmlDType::Q4K,
            Self::Q5K => GgmlDType::Q5K,
            Self::Q6K => GgmlDType::Q6K,
        }
    }
}

/// A matrix `[outputs, inputs]`: of a linear map, or an embedding. Clones share it.
#[derive(Clone, Debug)]
pub struct Matrix(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Dense(Tensor),
    Blocks(Arc<QTensor>),
}

impl Matrix {
    /// A matrix of numbers, row-major, held in `dtype`.
    ///
    /// # Errors
    /// A number of values that is not that of the shape; no memory.
    pub fn dense(
        device: &Device,
        values: Vec<f32>,
        shape: [usize; 2],
        dtype: DType,
    ) -> Result<Self> {
        tensor(device, values, &shape, dtype).map(|tensor| Self(Kind::Dense(tensor)))
    }

    /// A matrix of blocks, row by row, as GGUF has them.
    ///
    /// # Errors
    /// Rows that are not a whole number of blocks; no memory.
    pub fn blocks(
        device: &Device,
        bytes: &[u8],
        shape: [usize; 2],
        format: BlockFormat,
    ) -> Result<Self> {
        let storage = QStorage::from_data(bytes.into(), &device.inner, format.of_candle())?;
        let tensor = QTensor::new(storage, (shape[0], shape[1]))?;
        Ok(Self(Kind::Blocks(Arc::new(tensor))))
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Kind::Dense(tensor) => tensor.elem_count() * tensor.dtype().size_in_bytes(),
            Kind::Blocks(blocks) => blocks.storage_size_in_bytes(),
        }
    }

    /// The rows of some tokens, in `dtype`.
    pub(crate) fn rows(&self, tokens: &Tensor, dtype: DType) -> Result<Tensor> {
        let rows = match &self.0 {
            Kind::Dense(table) => table.index_select(tokens, 0),
            Kind::Blocks(table) => table.embedding(tokens),
        };
        Ok(rows?.to_dtype(dtype.of_candle())?)
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    fn product(&self, rows: &Tensor) -> Result<Tensor> {
        match &self.0 {
            Kind::Dense(weight) => Ok(rows.matmul(&weight.t()?)?),
            Kind::Blocks(blocks) => Ok(QMatMul::QTensor(Arc::clone(blocks)).forward(rows)?),
        }
    }

    /// Matrices below one another, as one if they are of numbers.
    fn joined(parts: Vec<Self>) -> Result<Vec<Self>> {
        let dense = parts.iter().map(|part| match &part.0 {
            Kind::Dense(tensor) => Some(tensor),
            Kind::Blocks(_) => None,
        });
        match dense.collect::<Option<Vec<_>>>() {
            Some(all) if all.len() > 1 => Ok(vec![Self(Kind::Dense(Tensor::cat(&all, 0)?))]),
            _ => Ok(parts),
        }
    }
}

fn tensor(device: &Device, values: Vec<f32>, shape: &[usize], dtype: DType) -> Result<Tensor> {
    // Narrowed before it is copied to the device.
    let host = Tensor::from_vec(values, shape, &candle_core::Device::Cpu)?;
    Ok(host.to_dtype(dtype.of_candle())?.to_device(&device.inner)?)
}

/// A linear map, whose outputs may be a gate and what it gates.
#[derive(Debug)]
pub struct Linear {
    parts: Vec<Matrix>,
    bias: Option<Tensor>,
    pub(crate) gated: bool,
}

impl Linear {
    /// Maps of the same input below one another; the first half of a gated one is the gate.
    ///
    /// # Errors
    /// No memory.
    pub fn new(parts: Vec<Matrix>, gated: bool) -> Result<Self> {
        Ok(Self {
            parts: Matrix::joined(parts)?,
            bias: None,
            gated,
        })
    }

    /// The same with a bias.
    ///
    /// # Errors
    /// No memory.
    pub fn with_bias(self, device: &Device, bias: Vec<f32>, dtype: DType) -> Result<Self> {
        let outputs = bias.len();
        let bias = Some(tensor(device, bias, &[outputs], dtype)?);
        Ok(Self { bias, ..self })
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    pub(crate) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let mut products = self
            .parts
            .iter()
            .map(|part| part.product(rows))
            .collect::<Result<Vec<_>>>()?;
        let product = match products.len() {
            1 => products.remove(0),
            _ => Tensor::cat(&products, 1)?,
        };
        match &self.bias {
            Some(bias) => Ok(product.broadcast_add(bias)?),
            None => Ok(product),
        }
    }
}

/// A root-mean-square norm.
#[derive(Debug)]
pub struct Norm {
    weight: Tensor,
    epsilon: f32,
}

impl Norm {
    /// A norm of rows of so many elements as there are weights.
    ///
    /// # Errors
    /// No memory.
    pub fn new(device: &Device, weight: Vec<f32>, epsilon: f32, dtype: DType) -> Result<Self> {
        let size = weight.len();
        let weight = tensor(device, weight, &[size], dtype)?;
        Ok(Self { weight, epsilon })
    }

    /// Of the last dimension.
    pub(crate) fn forward(&self, rows: &Tensor) -> Result<Tensor> {
        let rows = rows.contiguous()?;
        Ok(candle_nn::ops::rms_norm(&rows, &self.weight, self.epsilon)?)
    }
}

/// Cosines and sines by position, `[positions, half a head]` each.
#[derive(Debug)]
pub struct Rotary {
    cosines: Tensor,
    sines: Tensor,
}

impl Rotary {
    /// Rotations of heads of `2 * half` elements.
    ///
    /// # Errors
    /// Values that are not whole rows; no memory.
    pub fn new(
        device: &Device,
        [cosines, sines]: [Vec<f32>; 2],
        half: usize,
        dtype: DType,
    ) -> Result<Self> {
        let table = |values: Vec<f32>| {
            let shape = [values.len() / half.max(1), half];
            tensor(device, values, &shape, dtype)
        };
        Ok(Self {
            cosines: table(cosines)?,
            sines: table(sines)?,
        })
    }

    /// Those of some positions.
    pub(crate) fn at(&self, positions: &Tensor) -> Result<[Tensor; 2]> {
        Ok([
            self.cosines.index_select(positions, 0)?,
            self.sines.index_select(positions, 0)?,
        ])
    }
}

/// A bias of attention's scores by entry, `[heads, entries]`.
#[derive(Debug)]
pub struct RelativeBias(Tensor);

impl RelativeBias {
    /// Entries of each of some heads.
    ///
    /// # Errors
    /// Values that are not whole rows; no memory.
    pub fn new(device: &Device, values: Vec<f32>, heads: usize, dtype: DType) -> Result<Self> {
        let shape = [heads, values.len() / heads.max(1)];
        tensor(device, values, &shape, dtype).map(Self)
    }

    /// `[heads, rows, keys]`, looked up by `[rows, keys]` entries.
    pub(crate) fn look_up(&self, entries: &Tensor) -> Result<Tensor> {
        let (rows, keys) = entries.dims2()?;
        let heads = self.0.dim(0)?;
        let values = self.0.index_select(&entries.flatten_all()?, 1)?;
        Ok(values.reshape((heads, rows, keys))?)
    }
}
