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

use std::sync::Arc;

use candle_core::quantized::GgmlDType;
use candle_core::{DType as ComputeType, Tensor};
use cascade_core::{Result as CoreResult, Scores};
use cascade_cpu::Format;

use self::cache::CandleCache;
pub use self::device::CandleDevice;
use self::sequence::CandleSequence;
use self::weights::{tensor, Linear, Matrix, Norm, Rotary};
use super::host::RelativeBias;
use super::{
    Backend, BackendNetwork, BiasTable, CacheShape, HeldWeights, LinearSpec, Loader, ModelInfo,
    NewRows,
};
use crate::weights::{Provider, Role};
use crate::{DType, Error, Result};

/// One of candle's devices, and how a model is held on it.
#[derive(Debug)]
pub(super) struct Candle {
    device: CandleDevice,
    /// The type of activations, keys and values.
    dtype: ComputeType,
    held: HeldWeights,
}

/// A bias by distance: which entry is whose on the host, and the entries `[heads, entries]` on the
/// device.
#[derive(Debug)]
pub(super) struct DeviceBias {
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
    fn cache(&self, shape: CacheShape) -> CandleCache {
        CandleCache::new(&self.device.inner, shape, self.dtype)
    }
}

impl Backend for Candle {
    type Table = Matrix;
    type Norm = Norm;
    type Linear = Linear;
    type Rotary = Rotary;
    type RelativeBias = DeviceBias;
    type Sequence = CandleSequence;

    const GATHERS: bool = false;
    const ROW_INVARIANT: bool = false;

    fn held(&self) -> &HeldWeights {
        &self.held
    }

    fn bytes_per_slot(&self, shape: CacheShape) -> usize {
        shape.elements_per_slot() * self.dtype.size_in_bytes()
    }

    fn sequence(model: Arc<BackendNetwork<Self>>) -> CandleSequence {
        CandleSequence::new(model)
    }

    fn forward(
        _model: &BackendNetwork<Self>,
        texts: Vec<NewRows<'_, CandleSequence>>,
    ) -> Vec<CoreResult<Scores>> {
        texts
            .into_iter()
            .map(|text| text.sequence.append(&text.plan, text.read))
            .collect()
    }
}

/// Loads weights onto one of candle's devices.
pub(super) struct CandleLoader<'a> {
    info: ModelInfo,
    weights: &'a dyn Provider,
    /// The type that was asked for.
    dtype: DType,
    loaded: Candle,
}

impl<'a> CandleLoader<'a> {
    /// Refuses types that the device does not compute in.
    pub(super) fn new(
        device: &CandleDevice,
        info: ModelInfo,
        weights: &'a dyn Provider,
        dtype: DType,
    ) -> Result<Self> {
        if device.is_cpu() && dtype == DType::BF16 {
            return Err(Error::Device {
                text: device.spec().to_string(),
                reason: "it computes in f32, f16 and blocks of 8 and fewer bits, not in bf16"
                    .to_owned(),
            });
        }
        Ok(Self {
            info,
            weights,
            dtype,
            loaded: Candle {
                device: device.clone(),
                dtype: compute_type(dtype),
                held: HeldWeights::default(),
            },
        })
    }

    /// What carries out forwards, once everything is loaded.
    pub(super) fn backend(self) -> Candle {
        self.loaded
    }

    /// A tensor of these values on the device, in the type that is computed in.
    fn tensor(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        let Candle { device, dtype, .. } = &self.loaded;
        Ok(tensor(&device.inner, values, shape, *dtype)?)
    }

    fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<Matrix> {
        let name = format!("{name}.weight");
        let blocks = self.weights.blocks(&name, shape, self.dtype)?;
        let known = blocks.and_then(|blocks| Some((candle_format(blocks.format)?, blocks.bytes)));
        let mut note = None;
        let matrix = match known {
            Some((format, bytes)) => {
                Matrix::blocks(&self.loaded.device.inner, &bytes, shape, format)?
            }
            None => {
                if matches!(self.dtype, DType::Q8_0 | DType::Q4_0) {
                    let dtype = self.dtype;
                    note = Some(format!("f32 instead of {dtype}: rows are no whole blocks"));
                }
                let values = self.weights.read(&name, &shape, Role::Matrix)?;
                Matrix::Dense(self.tensor(values, &shape)?)
            }
        };
        self.loaded.held.add(shape, matrix.bytes(), note);
        Ok(matrix)
    }

    fn norm_of(&self, name: &str, size: usize) -> Result<Norm> {
        let name = format!("{name}.weight");
        let weight = self.weights.read(&name, &[size], Role::Norm)?;
        Ok(Norm {
            weight: self.tensor(weight, &[size])?,
            epsilon: self.info.epsilon as f32,
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

impl Loader<Candle> for CandleLoader<'_> {
    fn has(&self, name: &str) -> bool {
        self.weights.has(&format!("{name}.weight"))
    }

    fn table(&mut self, name: &str, _tied: bool) -> Result<Matrix> {
        self.matrix(name, [self.info.vocab_size, self.info.size])
    }

    fn norm(&mut self, name: &str) -> Result<Norm> {
        self.norm_of(name, self.info.size)
    }

    fn head_norm(&mut self, name: &str) -> Result<Norm> {
        self.norm_of(name, self.info.heads.size)
    }

    fn linear(&mut self, spec: LinearSpec<'_>) -> Result<Linear> {
        let (mut parts, mut bias) = (Vec::new(), Vec::new());
        for (name, outputs) in spec.parts {
            parts.push(self.matrix(name, [*outputs, spec.inputs])?);
            if spec.bias {
                let name = format!("{name}.bias");
                bias.append(&mut self.weights.read(&name, &[*outputs], Role::Bias)?);
            }
        }
        let outputs = bias.len();
        let bias = spec.bias.then(|| self.tensor(bias, &[outputs]));
        Ok(Linear::new(parts, bias.transpose()?, spec.gated)?)
    }

    fn head(&mut self, name: &str, tied: Option<&Matrix>) -> Result<Linear> {
        let weight = match tied {
            Some(table) => table.clone(),
            None => self.matrix(name, [self.info.vocab_size, self.info.size])?,
        };
        Ok(Linear::new(vec![weight], None, false)?)
    }

    fn rotary(&mut self, cosines: Vec<f32>, sines: Vec<f32>) -> Result<Rotary> {
        let half = self.info.heads.size / 2;
        let shape = [cosines.len() / half.max(1), half];
        Ok(Rotary {
            cosines: self.tensor(cosines, &shape)?,
            sines: self.tensor(sines, &shape)?,
        })
    }

    fn relative_bias(&mut self, table: BiasTable<'_>) -> Result<DeviceBias> {
        let (entries, heads) = (RelativeBias::new(table), self.info.heads.queries);
        let values = entries.values().to_vec();
        let shape = [heads, values.len() / heads.max(1)];
        Ok(DeviceBias {
            values: self.tensor(values, &shape)?,
            entries,
        })
    }

    fn on_host(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.weights
            .read(&format!("{name}.weight"), shape, Role::Matrix)
    }
}
