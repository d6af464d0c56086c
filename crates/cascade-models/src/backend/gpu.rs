//! f32, bf16, f16 and weights of 8 bits on NVIDIA GPUs: row-invariant, with the kernels of
//! `cascade-gpu`.

mod rows;
mod sequence;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cascade_core::{HiddenLayers, Result as CoreResult, Scores};
use cascade_gpu::{
    padded, AttentionKind, Cache, Device, Linear, Norm, QkvParts, Rotary, Runner, Table,
    WorkspaceSizes,
};

use super::{
    Activation, AttentionSpan, Backend, BackendNetwork, BiasTable, CacheShape, Forward, Heads,
    Layers, LinearSpec, Loader, ModelInfo, Outputs, QkTransform,
};
use sequence::GpuSequence;

use crate::network::{LaunchCost, NewRows};
use crate::settings::unsupported;
use crate::weights::Provider;
use crate::{DType, Error, Result};

/// A GPU, and the memory that one model's forwards pass through.
#[derive(Debug)]
pub(super) struct Gpu {
    device: Device,
    dtype: cascade_gpu::DType,
    /// All sessions share it, so they take turns.
    runner: Mutex<Runner>,
}

/// Positions for which forwards are recorded when a model is loaded.
const PREPARED_KEYS: usize = 1024;

impl Gpu {
    fn runner(&self) -> MutexGuard<'_, Runner> {
        // A forward that panicked left nothing behind that the next one reads.
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the forwards that most texts need, which else their first generations would do:
    /// 1 ms for each. A text that grows longer has its own recorded when it does.
    pub(super) fn prepare(&self, info: &ModelInfo, layers: &dyn Layers<Self>) -> Result<()> {
        let keys = match layers.encoder_stages() {
            0 => [
                info.max_context.unwrap_or(PREPARED_KEYS).min(PREPARED_KEYS),
                0,
            ],
            // An answer, and its source.
            _ => [PREPARED_KEYS / 4, PREPARED_KEYS / 2],
        };
        let mut runner = self.runner();
        Ok(runner.prepare(keys, |forward, logits| layers.decode(forward, logits))?)
    }

    fn cache(&self, shape: CacheShape) -> cascade_gpu::Result<Cache> {
        Cache::new(&self.device, on_gpu(shape), self.dtype)
    }
}

fn on_gpu(shape: CacheShape) -> cascade_gpu::CacheShape {
    cascade_gpu::CacheShape {
        layers: shape.layers,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
    }
}

impl From<Heads> for cascade_gpu::Heads {
    fn from(heads: Heads) -> Self {
        Self {
            queries: heads.queries,
            kv: heads.kv,
            size: heads.size,
        }
    }
}

impl Backend for Gpu {
    type Table = Table;
    type Norm = Norm;
    type Linear = Linear;
    type Rotary = Rotary;
    type RelativeBias = cascade_gpu::RelativeBias;
    type Activation = cascade_gpu::Activation;
    type Sequence = GpuSequence;

    const GATHERS: bool = false;
    const ROW_INVARIANT: bool = true;

    fn weight_bytes(&self, weights: usize) -> usize {
        self.dtype.weight_bytes(weights)
    }

    fn bytes_per_slot(&self, shape: CacheShape) -> usize {
        // Heads that are too large were refused when the model was loaded.
        let bytes = on_gpu(shape).bytes_per_slot(self.dtype);
        bytes.unwrap_or_default()
    }

    fn hidden(&self, _layers: usize) -> HiddenLayers {
        HiddenLayers::LAST
    }

    fn launches(&self, rows: usize) -> Option<usize> {
        // Forwards are recorded for powers of two.
        self.runner().launches(rows.next_power_of_two(), true)
    }

    fn profile(&self, repeats: usize) -> CoreResult<Vec<LaunchCost>> {
        let profile = self
            .runner()
            .profile(repeats)
            .map_err(cascade_core::Error::backend)?;
        let own = |cost: cascade_gpu::LaunchCost| LaunchCost {
            purpose: cost.purpose,
            launches: cost.launches,
            seconds: cost.seconds,
            weights: cost.weights,
        };
        Ok(profile.into_iter().map(own).collect())
    }

    fn sequence(model: Arc<BackendNetwork<Self>>) -> GpuSequence {
        GpuSequence::new(model)
    }

    fn forward(
        _model: &BackendNetwork<Self>,
        texts: Vec<NewRows<'_, GpuSequence>>,
    ) -> Vec<CoreResult<Scores>> {
        let texts = texts.into_iter();
        texts
            .map(|text| text.sequence.append(&text.plan, text.read))
            .collect()
    }
}

/// Loads weights in the order that kernels read them, and measures the memory that forwards need.
pub(super) struct GpuLoader<'a> {
    loader: cascade_gpu::Loader<'a>,
    device: &'a Device,
    dtype: cascade_gpu::DType,
    info: ModelInfo,
    weights: &'a dyn Provider,
    sizes: WorkspaceSizes,
}

impl<'a> GpuLoader<'a> {
    /// Refuses types and heads that there are no kernels for.
    pub(super) fn new(
        device: &'a Device,
        info: ModelInfo,
        weights: &'a dyn Provider,
        dtype: DType,
    ) -> Result<Self> {
        let dtype = match dtype {
            DType::F32 => cascade_gpu::DType::F32,
            DType::BF16 => cascade_gpu::DType::BF16,
            DType::F16 => cascade_gpu::DType::F16,
            DType::Q8_0 => cascade_gpu::DType::Q8,
            // What is stored has been looked up; a caller's own weights are in f32.
            DType::Stored => cascade_gpu::DType::F32,
            _ => {
                return Err(Error::GpuComputeType {
                    dtype: dtype.to_string(),
                })
            }
        };
        padded(info.heads.size)?;
        let heads = info.heads.into();
        Ok(Self {
            loader: cascade_gpu::Loader::new(device, dtype, weights.for_gpu()),
            device,
            dtype,
            info,
            weights,
            sizes: WorkspaceSizes::new(info.size, info.epsilon, heads, info.vocab_size),
        })
    }

    /// The backend for what was loaded.
    pub(super) fn backend(self) -> Result<Gpu> {
        Ok(Gpu {
            runner: Mutex::new(Runner::new(self.device, self.dtype, self.sizes)?),
            device: self.device.clone(),
            dtype: self.dtype,
        })
    }

    fn covered(&mut self, linear: Linear) -> Linear {
        self.sizes.cover(&linear);
        linear
    }
}

fn weight(name: &str) -> String {
    format!("{name}.weight")
}

/// Names of the weights or biases of a linear map, and outputs.
fn tensors(spec: LinearSpec<'_>, kind: &str) -> Vec<(String, usize)> {
    let parts = spec.parts.iter();
    parts
        .map(|(name, outputs)| (format!("{name}.{kind}"), *outputs))
        .collect()
}

fn borrowed(tensors: &[(String, usize)]) -> Vec<(&str, usize)> {
    let parts = tensors.iter();
    parts
        .map(|(name, outputs)| (name.as_str(), *outputs))
        .collect()
}

impl Loader<Gpu> for GpuLoader<'_> {
    fn has(&self, name: &str) -> bool {
        self.weights.has(&weight(name))
    }

    fn table(&mut self, name: &str, _tied: bool) -> Result<Table> {
        let (vocabulary, size) = (self.info.vocab_size, self.info.size);
        Ok(self.loader.table(&weight(name), vocabulary, size)?)
    }

    fn norm(&mut self, name: &str) -> Result<Norm> {
        Ok(self.loader.norm(&weight(name), self.info.size)?)
    }

    fn head_norm(&mut self, name: &str) -> Result<Norm> {
        Ok(self.loader.norm(&weight(name), self.info.heads.size)?)
    }

    fn linear(&mut self, spec: LinearSpec<'_>) -> Result<Linear> {
        let weights = tensors(spec, "weight");
        let (inputs, heads) = (spec.inputs, self.info.heads.into());
        let mut linear = match (spec.outputs, &borrowed(&weights)[..]) {
            (Outputs::Gated, &[(gate, inner), (up, _)]) => {
                self.loader.gated(inputs, gate, up, inner)
            }
            (Outputs::Gated, &[(both, outputs)]) => self.loader.gated_as_one(inputs, both, outputs),
            (Outputs::Rotated, &[(q, _), (k, _), (v, _)]) => {
                self.loader.rotated(inputs, heads, [q, k, v])
            }
            (Outputs::Rotated, &[(all, _)]) => self.loader.rotated_as_one(inputs, heads, all),
            (_, parts) => self.loader.linear(inputs, parts),
        }?;
        if spec.bias {
            let biases = tensors(spec, "bias");
            self.loader.bias(&mut linear, &borrowed(&biases))?;
        }
        Ok(self.covered(linear))
    }

    fn head(&mut self, name: &str, _: Option<&Table>) -> Result<Linear> {
        let (vocabulary, size) = (self.info.vocab_size, self.info.size);
        let head = self.loader.head(size, &weight(name), vocabulary)?;
        Ok(self.covered(head))
    }

    fn rotary(&mut self, cosines: Vec<f32>, sines: Vec<f32>) -> Result<Rotary> {
        Ok(Rotary::new(self.device, &cosines, &sines)?)
    }

    fn relative_bias(&mut self, table: BiasTable<'_>) -> Result<cascade_gpu::RelativeBias> {
        let bias = cascade_gpu::RelativeBias::new(self.device, table.values, table.reach);
        Ok(bias?)
    }

    fn activation(&self, activation: Activation) -> Result<cascade_gpu::Activation> {
        match activation {
            Activation::Relu => Ok(cascade_gpu::Activation::Relu),
            Activation::Gelu => Ok(cascade_gpu::Activation::Gelu),
            Activation::Silu => Ok(cascade_gpu::Activation::Silu),
            Activation::GeluErf => {
                let what = "the activation \"gelu\" (the exact form) on a GPU";
                Err(unsupported(what.to_owned()))
            }
        }
    }

    fn on_host(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        Ok(self.loader.on_host(&weight(name), shape)?)
    }
}

/// Each operation is one launch, but for the logits and for heads that are normed, which are two.
impl Forward<Gpu> for cascade_gpu::Forward<'_> {
    fn embed(&mut self, table: &Table, norm: &Norm) {
        self.embed(table, norm);
    }

    fn project(&mut self, linear: &Linear, transform: QkTransform<'_, Gpu>, layer: usize) {
        match transform {
            QkTransform::None => self.project(linear, QkvParts::All(None), layer),
            QkTransform::Rotated(rotary) => {
                self.project(linear, QkvParts::All(Some(rotary)), layer)
            }
            QkTransform::NormedAndRotated(norms, rotary) => {
                self.project(linear, QkvParts::All(None), layer);
                self.norm_heads([&norms.queries, &norms.keys], rotary, layer);
            }
        }
    }

    fn project_queries(&mut self, linear: &Linear) {
        self.project(linear, QkvParts::Queries, 0);
    }

    fn project_source(&mut self, linear: &Linear, layer: usize) {
        self.project(linear, QkvParts::SourceKeysValues, layer);
    }

    fn attend(&mut self, span: AttentionSpan<'_, Gpu>, layer: usize) {
        let kind = match span {
            AttentionSpan::Whole => AttentionKind::SelfAttn(None),
            AttentionSpan::Biased(bias) => AttentionKind::SelfAttn(Some(bias)),
            AttentionSpan::Window(window) => AttentionKind::Windowed(window),
        };
        self.attention(kind, layer);
    }

    fn attend_source(&mut self, layer: usize) {
        self.attention(AttentionKind::CrossAttn, layer);
    }

    fn add_attended(&mut self, linear: &Linear, norm: &Norm) {
        self.add_attended(linear, norm);
    }

    fn activate(&mut self, linear: &Linear, activation: cascade_gpu::Activation) {
        self.activate(linear, activation);
    }

    fn add_inner(&mut self, linear: &Linear, norm: &Norm) {
        self.add_inner(linear, norm);
    }

    fn logits(&mut self, head: &Linear, scale: Option<f64>) {
        self.logits(head, scale.unwrap_or(1.0) as f32);
    }
}
