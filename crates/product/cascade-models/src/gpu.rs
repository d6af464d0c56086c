//! Models on NVIDIA GPUs: which kernels make up T5 and LLaMA, and sessions' sequences there.

mod llama;
mod rows;
mod sequence;
mod t5;

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::DType;
use cascade_core::{Architecture, TokenId};
use cascade_gpu::{Cache, CacheShape, Device, Forward, Kind, LaunchCost, Runner};

use crate::network::{Network, Sequence};
use crate::weights::Provider;
use crate::{Error, LlamaConfig, Model, Result, T5Config};

/// A T5 on a GPU.
pub(crate) fn t5(
    device: &Device,
    dtype: DType,
    config: &T5Config,
    weights: &dyn Provider,
) -> Result<Model> {
    config.validate()?;
    let embedding = t5::embedding_name(|name| weights.has(name));
    let network = t5::load(device, kind(dtype)?, config, embedding, weights)?;
    Ok(Model::new(Arc::new(network)))
}

/// A LLaMA on a GPU.
pub(crate) fn llama(
    device: &Device,
    dtype: DType,
    config: &LlamaConfig,
    weights: &dyn Provider,
) -> Result<Model> {
    config.validate()?;
    let network = llama::load(device, kind(dtype)?, config, weights)?;
    Ok(Model::new(Arc::new(network)))
}

fn kind(dtype: DType) -> Result<Kind> {
    match dtype {
        DType::F32 => Ok(Kind::F32),
        DType::BF16 => Ok(Kind::Bf16),
        other => Err(Error::GpuComputeType {
            dtype: other.as_str().to_owned(),
        }),
    }
}

/// The layers of an architecture.
pub(super) trait Layers: Debug + Send + Sync {
    /// Keys and values that decoding leaves behind.
    fn cache_shape(&self) -> CacheShape;

    /// Writes down a forward over rows of the decoder: as far as their logits, or as their keys and values in all layers.
    fn decode(&self, forward: &mut Forward<'_>, logits: bool);

    /// Keys and values of `source` for cross-attention; none for an architecture without it.
    fn encode(
        &self,
        device: &Device,
        runner: &mut Runner,
        source: &[TokenId],
    ) -> cascade_gpu::Result<Option<Cache>>;
}

/// A model on a GPU.
#[derive(Debug)]
pub(super) struct GpuNetwork<L> {
    device: Device,
    kind: Kind,
    layers: L,
    /// All sessions share the memory that forwards pass through, so they take turns.
    runner: Mutex<Runner>,
    facts: Facts,
}

/// What is known of a model without running it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    architecture: Architecture,
    vocab_size: usize,
    parameters: usize,
    parameters_per_forward: usize,
    max_context: Option<usize>,
    start: Option<TokenId>,
}

impl<L: Layers> GpuNetwork<L> {
    fn runner(&self) -> MutexGuard<'_, Runner> {
        // A forward that panicked left nothing behind that the next one reads.
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Layers + 'static> Network for GpuNetwork<L> {
    fn architecture(&self) -> Architecture {
        self.facts.architecture
    }

    fn vocab_size(&self) -> usize {
        self.facts.vocab_size
    }

    fn num_parameters(&self) -> usize {
        self.facts.parameters
    }

    fn bytes_per_forward(&self) -> usize {
        self.facts.parameters_per_forward * self.kind.bytes()
    }

    fn layers(&self) -> usize {
        self.layers.cache_shape().layers
    }

    fn bytes_per_position(&self) -> usize {
        // Heads that are too large were refused when the model was loaded.
        let bytes = self.layers.cache_shape().bytes_per_slot(self.kind);
        bytes.unwrap_or_default()
    }

    fn launches(&self, rows: usize) -> Option<usize> {
        // Forwards are recorded for powers of two.
        self.runner().launches(rows.next_power_of_two(), true)
    }

    fn profile(&self, repeats: usize) -> cascade_core::Result<Vec<LaunchCost>> {
        let profile = self.runner().profile(repeats);
        profile.map_err(cascade_core::Error::backend)
    }

    fn max_context(&self) -> Option<usize> {
        self.facts.max_context
    }

    fn start(&self) -> Option<TokenId> {
        self.facts.start
    }

    fn sequence(self: Arc<Self>) -> Box<dyn Sequence> {
        Box::new(sequence::GpuSequence::new(self))
    }
}
