//! candle's tensors: GPUs, and a second engine on the CPU that ours is compared with. Nothing waits
//! for the device before logits or hidden states are copied to the host.
//!
//! The bits of a row depend on the rows beside it: products of matrices choose their order of
//! summation by shape.

mod cache;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod forward;
mod sequence;
mod weights;

use candle_core::quantized::GgmlDType;
use candle_core::{DType as ComputeType, Tensor};
use cascade_cpu::Format;

use self::cache::CandleCache;
pub use self::device::CandleDevice;
pub(crate) use self::sequence::{CandleSequence, forward};
use self::weights::{Linear, Matrix, Norm, Rotary, tensor};
use super::{Backend, CacheShape, HeldWeights, RelativeBias, Tensor as NamedTensor};
use crate::dtype::Types;
use crate::weights::Role;
use crate::{DType, Error, Result};

/// One of candle's devices, and how a model is held on it.
#[derive(Debug)]
pub(crate) struct Candle {
    device: CandleDevice,
    /// The type of activations, keys and values.
    dtype: ComputeType,
    held: HeldWeights,
}

/// A bias by distance: which entry is whose on the host, and the entries `[heads, entries]` on the
/// device.
#[derive(Debug)]
pub(crate) struct DeviceBias {
    entries: RelativeBias,
    values: Tensor,
}

/// What candle computes in where a model is held in `dtype`: products with blocks are computed in
/// f32.
pub(crate) fn compute_type(dtype: DType) -> ComputeType {
    match dtype {
        DType::BF16 => ComputeType::BF16,
        DType::F16 => ComputeType::F16,
        _ => ComputeType::F32,
    }
}

impl Candle {
    /// Refuses types that the device does not compute in.
    pub(crate) fn new(device: &CandleDevice, types: Types) -> Result<Self> {
        if let Some(cache) = types.cache {
            return Err(Error::CandleCacheType { cache });
        }
        if device.is_cpu() && types.weights == DType::BF16 {
            return Err(Error::Device {
                text: device.spec().to_string(),
                reason: "it computes in f32, f16 and blocks of 8 and fewer bits, not in bf16"
                    .to_owned(),
            });
        }
        Ok(Self {
            device: device.clone(),
            dtype: compute_type(types.weights),
            held: HeldWeights::default(),
        })
    }

    fn cache(&self, shape: CacheShape) -> CandleCache {
        CandleCache::new(&self.device.inner, shape, self.dtype)
    }

    /// A tensor of these values on the device, in the type that is computed in.
    fn tensor(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        Ok(tensor(&self.device.inner, values, shape, self.dtype)?)
    }
}

impl Backend for Candle {
    type Matrix = Matrix;
    type Table = Matrix;
    type Norm = Norm;
    type Linear = Linear;
    type Rotary = Rotary;
    type RelativeBias = DeviceBias;

    fn held(&self) -> &HeldWeights {
        &self.held
    }

    fn bytes_per_slot(&self, shape: CacheShape) -> usize {
        shape.elements_per_slot() * self.dtype.size_in_bytes()
    }

    fn matrix(&mut self, named: &NamedTensor<'_>, shape: [usize; 2]) -> Result<Matrix> {
        let NamedTensor {
            weights,
            name,
            dtype,
        } = named;
        let blocks = weights.blocks(name, shape, *dtype)?;
        let known = blocks.and_then(|blocks| Some((candle_format(blocks.format)?, blocks.bytes)));
        let mut note = None;
        let matrix = match known {
            Some((format, bytes)) => Matrix::blocks(&self.device.inner, &bytes, shape, format)?,
            None => {
                if matches!(dtype, DType::Q8_0 | DType::Q4_0) {
                    note = Some(format!("f32 instead of {dtype}: rows are no whole blocks"));
                }
                let values = weights.read(name, &shape, Role::Matrix)?;
                Matrix::Dense(self.tensor(values, &shape)?)
            }
        };
        self.held.add(shape, matrix.bytes(), note);
        Ok(matrix)
    }

    fn table(&mut self, named: &NamedTensor<'_>, shape: [usize; 2], _tied: bool) -> Result<Matrix> {
        self.matrix(named, shape)
    }

    fn matrix_of(table: &Matrix) -> Option<Matrix> {
        Some(table.clone())
    }

    fn norm(&self, weight: Vec<f32>, epsilon: f32) -> Result<Norm> {
        let size = weight.len();
        Ok(Norm {
            weight: self.tensor(weight, &[size])?,
            epsilon,
        })
    }

    fn linear(&self, parts: Vec<Matrix>, bias: Option<Vec<f32>>, gated: bool) -> Result<Linear> {
        let on_device = |bias: Vec<f32>| {
            let outputs = bias.len();
            self.tensor(bias, &[outputs])
        };
        Ok(Linear::new(parts, bias.map(on_device).transpose()?, gated)?)
    }

    fn rotary(&self, cosines: Vec<f32>, sines: Vec<f32>, half: usize) -> Result<Rotary> {
        let shape = [cosines.len() / half.max(1), half];
        Ok(Rotary {
            cosines: self.tensor(cosines, &shape)?,
            sines: self.tensor(sines, &shape)?,
        })
    }

    fn relative_bias(&self, entries: RelativeBias) -> Result<DeviceBias> {
        let values = entries.values().to_vec();
        let shape = [entries.heads(), values.len() / entries.heads().max(1)];
        Ok(DeviceBias {
            values: self.tensor(values, &shape)?,
            entries,
        })
    }
}

/// The blocks that candle multiplies with.
fn candle_format(format: Format) -> Option<GgmlDType> {
    match format {
        Format::Q8_0 => Some(GgmlDType::Q8_0),
        Format::Q4_0 => Some(GgmlDType::Q4_0),
        Format::Q4K => Some(GgmlDType::Q4K),
        Format::Q5K => Some(GgmlDType::Q5K),
        Format::Q6K => Some(GgmlDType::Q6K),
        _ => None,
    }
}
