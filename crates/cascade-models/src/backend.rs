//! The operations that layers are made of, and the backends that carry them out.
//!
//! An architecture is written once, in these operations: see `decoder/layers.rs` and
//! `t5/layers.rs`. A backend says how its weights lie in memory and how each operation is carried
//! out:
//!
//! * [`cpu`]: weights of any format on the CPU, with the kernels of `cascade-cpu`.
//! * [`gpu`]: f32 and bf16 on NVIDIA GPUs, with the kernels of `cascade-gpu`.
//! * [`candle`]: the devices of candle, with its tensors.

#[cfg(test)]
#[cfg(all(feature = "gpu", feature = "candle"))]
mod by_operation;
#[cfg(feature = "candle")]
mod candle;
pub(crate) mod cpu;
#[cfg(feature = "gpu")]
mod gpu;
mod host;

use std::any::Any;
use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cascade_core::{HiddenLayers, Result as CoreResult, Scores};
pub(crate) use cascade_cpu::{Activation, CacheShape};
use cascade_cpu::{CacheMemory, PAGE_SLOTS};
pub use cpu::compute_threads;

use crate::dtype::Types;
pub(crate) use crate::info::{Heads, ModelInfo};
use crate::network::{CacheUse, LaunchCost, Network, NewRows, Sequence};
use crate::weights::Provider;
#[cfg(any(feature = "gpu", feature = "candle"))]
use crate::Error;
use crate::{Device, Result};

/// How the outputs of a linear map are used, which a backend may order them by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outputs {
    /// As they come, parts side by side.
    SideBySide,
    /// The first part is a gate for the second.
    Gated,
    /// Heads of queries, keys and values, of which queries and keys are rotated by position.
    Rotated,
}

/// A linear map as a checkpoint has it: one or several matrices `[outputs, inputs]` of the same
/// input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearSpec<'a> {
    /// Names, without the `.weight` or `.bias` at their ends, and outputs. A single part may hold
    /// several below one another.
    pub(crate) parts: &'a [(String, usize)],
    pub(crate) inputs: usize,
    pub(crate) outputs: Outputs,
    /// Whether each part has a bias.
    pub(crate) bias: bool,
}

impl<'a> LinearSpec<'a> {
    /// Without bias, parts side by side.
    pub(crate) fn new(inputs: usize, parts: &'a [(String, usize)]) -> Self {
        Self {
            parts,
            inputs,
            outputs: Outputs::SideBySide,
            bias: false,
        }
    }

    pub(crate) fn used_as(self, outputs: Outputs) -> Self {
        Self { outputs, ..self }
    }

    pub(crate) fn with_bias(self, bias: bool) -> Self {
        Self { bias, ..self }
    }
}

/// A bias of attention's scores by distance, `[heads][2 * reach + 1]`: entry reach + d is that of a
/// key d positions before its query; farther ones have the last on their side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BiasTable<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) reach: usize,
}

/// What is done to the heads of queries and keys before they are compared: nothing, RoPE, or
/// QK-norm and then RoPE.
#[derive(Debug)]
pub(crate) enum QkTransform<'a, B: Backend> {
    /// Nothing.
    None,
    /// RoPE.
    Rotated(&'a B::Rotary),
    /// A norm of each head, then RoPE.
    NormedAndRotated(&'a HeadNorms<B>, &'a B::Rotary),
}

/// Norms of heads of queries and keys, the same for all heads.
#[derive(Debug)]
pub(crate) struct HeadNorms<B: Backend> {
    pub(crate) queries: B::Norm,
    pub(crate) keys: B::Norm,
}

/// Which positions self-attention reads: all up to the row's own, a sliding window of them, or all
/// with a bias by distance.
#[derive(Debug)]
pub(crate) enum AttentionSpan<'a, B: Backend> {
    /// All of them.
    Whole,
    /// So many, the row's own included.
    Window(NonZeroUsize),
    /// All of them, with a bias by distance, which is the same in all layers of a forward.
    Biased(&'a B::RelativeBias),
}

impl<B: Backend> AttentionSpan<'_, B> {
    /// How many positions there are to see at most.
    pub(crate) fn window(&self) -> Option<NonZeroUsize> {
        match self {
            Self::Window(window) => Some(*window),
            Self::Whole | Self::Biased(_) => None,
        }
    }
}

/// Weights in the memory of a backend.
pub(crate) trait Loaded: Debug + Send + Sync + 'static {}
impl<T: Debug + Send + Sync + 'static> Loaded for T {}

/// What carries out the operations, and the types of its weights.
pub(crate) trait Backend: Debug + Send + Sync + Sized + 'static {
    /// An embedding: rows that are looked up.
    type Table: Loaded;
    /// A root-mean-square norm.
    type Norm: Loaded;
    /// A linear map.
    type Linear: Loaded;
    /// Rotations of queries and keys by position.
    type Rotary: Loaded;
    /// A bias of attention's scores by distance.
    type RelativeBias: Loaded;
    /// An activation that it has.
    type Activation: Loaded + Copy;
    /// Rows appended to its networks.
    type Sequence: Sequence;

    /// Whether a forward takes rows of several sequences.
    const GATHERS: bool;

    /// Whether the bits of a row do not depend on the rows beside it.
    const ROW_INVARIANT: bool;

    /// Bytes of `weights` weights of linear maps.
    fn weight_bytes(&self, weights: usize) -> usize;

    /// Bytes of keys and values in one slot, in all layers.
    fn bytes_per_slot(&self, shape: CacheShape) -> usize;

    /// Where the pages of keys and values are counted, if they are.
    fn cache_memory(&self) -> Option<&CacheMemory> {
        None
    }

    /// What the user should know of how weights are held, in sentences.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Kernels that a forward of `rows` rows launched, if there are any and one has run.
    fn launches(&self, _rows: usize) -> Option<usize> {
        None
    }

    /// What the launches of the last forward take.
    fn profile(&self, _repeats: usize) -> CoreResult<Vec<LaunchCost>> {
        Ok(Vec::new())
    }

    /// The hidden states that its forwards give, of a model of so many layers.
    fn hidden(&self, layers: usize) -> HiddenLayers;

    /// A sequence with nothing in it.
    fn sequence(model: Arc<BackendNetwork<Self>>) -> Self::Sequence;

    /// As [`Network::forward`].
    fn forward(
        model: &BackendNetwork<Self>,
        texts: Vec<NewRows<'_, Self::Sequence>>,
    ) -> Vec<CoreResult<Scores>>;
}

/// Puts weights into the memory of a backend. Names are those of a checkpoint without the `.weight`
/// or `.bias` at their ends.
pub(crate) trait Loader<B: Backend> {
    /// Whether there is a weight of this name.
    fn has(&self, name: &str) -> bool;

    /// The embedding; `tied` if it is the head, too.
    fn table(&mut self, name: &str, tied: bool) -> Result<B::Table>;

    /// The norm of a row of the residual stream.
    fn norm(&mut self, name: &str) -> Result<B::Norm>;

    /// The norm of a head.
    fn head_norm(&mut self, name: &str) -> Result<B::Norm>;

    /// A linear map.
    fn linear(&mut self, spec: LinearSpec<'_>) -> Result<B::Linear>;

    /// The linear map to logits; if `tied` is given, `name` is the embedding's and this is it.
    fn head(&mut self, name: &str, tied: Option<&B::Table>) -> Result<B::Linear>;

    /// Rotations from cosines and sines, `[positions][head size / 2]` each.
    fn rotary(&mut self, cosines: Vec<f32>, sines: Vec<f32>) -> Result<B::Rotary>;

    /// A bias by distance.
    fn relative_bias(&mut self, table: BiasTable<'_>) -> Result<B::RelativeBias>;

    /// An activation, if the backend has it.
    fn activation(&self, activation: Activation) -> Result<B::Activation>;

    /// A small tensor, on the host.
    fn on_host(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>>;
}

/// One forward over some rows. They pass through the residual stream and its norm, queries, what
/// attention gives, and the inner layer of a feed-forward.
///
/// Operations do not fail where they are written down: what goes wrong surfaces when the forward is
/// read.
pub(crate) trait Forward<B: Backend> {
    /// Tokens to the residual stream, and that to its norm.
    fn embed(&mut self, table: &B::Table, norm: &B::Norm);

    /// The rows of the residual stream are about to enter `layer`. Nothing is done by default: a
    /// backend without these states refuses them by name before it runs.
    fn enter(&mut self, _layer: usize) {}

    /// Norm to queries, and keys and values of `layer` of the sequence.
    fn project(&mut self, linear: &B::Linear, transform: QkTransform<'_, B>, layer: usize);

    /// Norm to queries.
    fn project_queries(&mut self, linear: &B::Linear);

    /// Norm to keys and values of `layer` of the source.
    fn project_source(&mut self, linear: &B::Linear, layer: usize);

    /// Queries to attention to `layer` of the sequence, as far as rows see it.
    fn attend(&mut self, span: AttentionSpan<'_, B>, layer: usize);

    /// Queries to attention to `layer` of the whole source.
    fn attend_source(&mut self, layer: usize);

    /// Adds a linear map of what attention gave to the residual stream, and that to its norm.
    fn add_attended(&mut self, linear: &B::Linear, norm: &B::Norm);

    /// Norm to the inner layer of a feed-forward; a gated one if `linear` was loaded so.
    fn activate(&mut self, linear: &B::Linear, activation: B::Activation);

    /// Adds a linear map of the inner layer to the residual stream, and that to its norm.
    fn add_inner(&mut self, linear: &B::Linear, norm: &B::Norm);

    /// Norm to logits, of the rows that are wanted, times `scale`.
    fn logits(&mut self, head: &B::Linear, scale: Option<f64>);
}

/// Where the tokens of a model enter and leave it.
#[derive(Debug)]
pub(crate) struct Vocabulary<'a, B: Backend> {
    pub(crate) table: &'a B::Table,
    pub(crate) head: &'a B::Linear,
    /// What the logits of the head are multiplied with.
    pub(crate) scale: Option<f64>,
}

/// The layers of an architecture on a backend.
pub(crate) trait Layers<B: Backend>: Debug + Send + Sync {
    /// A forward over rows of the decoder: as far as their logits, or as their keys and values in
    /// all layers.
    fn decode(&self, forward: &mut dyn Forward<B>, logits: bool);

    /// The embedding, and the head that gives logits of the last hidden state.
    fn vocabulary(&self) -> Vocabulary<'_, B>;

    /// Stages of the encoder; none for an architecture without it.
    fn encoder_stages(&self) -> usize {
        0
    }

    /// A stage of the encoder, over rows of the source: a stage begins when all rows are through
    /// the one before. Keys and values of its layers lie in turns in two layers of a sequence. The
    /// last stage projects the source.
    fn encode(&self, _stage: usize, _forward: &mut dyn Forward<B>) {}
}

/// An architecture: the content of its config.json, checked, and how layers are made of it.
pub(crate) trait Describe {
    /// What follows from the settings.
    fn info(&self) -> ModelInfo;

    /// Loads the layers.
    fn layers<B: Backend>(&self, loader: &mut dyn Loader<B>) -> Result<Box<dyn Layers<B>>>;
}

/// Loads a model onto the backend for a device and type.
pub(crate) fn network(
    config: &impl Describe,
    weights: &dyn Provider,
    device: &Device,
    types: Types,
) -> Result<Arc<dyn Network>> {
    let info = config.info();
    Ok(match device {
        Device::Cpu => {
            let mut loader = cpu::CpuLoader::new(info, weights, types)?;
            let layers = config.layers(&mut loader)?;
            BackendNetwork::shared(loader.backend(), info, layers)
        }
        #[cfg(feature = "gpu")]
        Device::Gpu(device) => {
            if let Some(cache) = types.cache {
                return Err(Error::GpuCacheType { cache });
            }
            let mut loader = gpu::GpuLoader::new(device, info, weights, types.weights)?;
            let layers = config.layers(&mut loader)?;
            let backend = loader.backend()?;
            backend.prepare(&info, &*layers)?;
            BackendNetwork::shared(backend, info, layers)
        }
        #[cfg(feature = "candle")]
        Device::Candle(device) => {
            if let Some(cache) = types.cache {
                return Err(Error::GpuCacheType { cache });
            }
            let mut loader = candle::CandleLoader::new(device, info, weights, types.weights)?;
            let layers = config.layers(&mut loader)?;
            BackendNetwork::shared(loader.backend(), info, layers)
        }
    })
}

/// A model on a backend.
#[derive(Debug)]
pub(crate) struct BackendNetwork<B: Backend> {
    backend: B,
    info: ModelInfo,
    layers: Box<dyn Layers<B>>,
}

impl<B: Backend> BackendNetwork<B> {
    /// The embedding and the head, for those that share them.
    pub(crate) fn vocabulary(&self) -> Vocabulary<'_, B> {
        self.layers.vocabulary()
    }

    /// Bytes of the weights of a matrix of so many, as those of the model are held.
    pub(crate) fn weight_bytes(&self, weights: usize) -> usize {
        self.backend.weight_bytes(weights)
    }

    fn shared(backend: B, info: ModelInfo, layers: Box<dyn Layers<B>>) -> Arc<dyn Network> {
        Arc::new(Self {
            backend,
            info,
            layers,
        })
    }
}

/// Rows for a sequence that a network of the same backend has made.
fn of_backend<S: Sequence>(text: NewRows<'_>) -> NewRows<'_, S> {
    let sequence: &mut dyn Any = text.sequence;
    // Sequences are made by `Network::sequence`, and stay in the session of that network.
    NewRows {
        sequence: sequence.downcast_mut().expect("a sequence of this network"),
        plan: text.plan,
        read: text.read,
    }
}

impl<B: Backend> Network for BackendNetwork<B> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn bytes_per_forward(&self, rows: usize) -> usize {
        let parameters = self.info.parameters_per_forward(rows);
        self.backend.weight_bytes(parameters)
    }

    fn bytes_per_position(&self) -> usize {
        self.backend.bytes_per_slot(self.info.cache_shape())
    }

    fn cache_memory(&self) -> Option<CacheUse<'_>> {
        let memory = self.backend.cache_memory()?;
        let page = PAGE_SLOTS * self.bytes_per_position();
        Some(CacheUse { memory, page })
    }

    fn hidden(&self) -> HiddenLayers {
        self.backend.hidden(self.info.layers)
    }

    fn notes(&self) -> Vec<String> {
        self.backend.notes()
    }

    fn launches(&self, rows: usize) -> Option<usize> {
        self.backend.launches(rows)
    }

    fn profile(&self, repeats: usize) -> CoreResult<Vec<LaunchCost>> {
        self.backend.profile(repeats)
    }

    fn gathers(&self) -> bool {
        B::GATHERS
    }

    fn is_row_invariant(&self) -> bool {
        B::ROW_INVARIANT
    }

    fn forward(&self, texts: Vec<NewRows<'_>>) -> Vec<CoreResult<Scores>> {
        B::forward(self, texts.into_iter().map(of_backend).collect())
    }

    fn sequence(self: Arc<Self>) -> Box<dyn Sequence> {
        Box::new(B::sequence(self))
    }
}
