//! The operations that layers are made of, and the backends that carry them out.
//!
//! An architecture is written once, in these operations: see `decoder/layers.rs` and
//! `t5/layers.rs`. A backend says how its weights lie in memory and how each operation is carried
//! out:
//!
//! * [`cpu`]: weights of any format on the CPU, with the kernels of `cascade-cpu`.
//! * [`candle`]: the devices of candle, with its tensors.

#[cfg(feature = "candle")]
pub(crate) mod candle;
pub(crate) mod cpu;
mod host;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cascade_core::{HiddenLayers, Result as CoreResult, Scores};
pub(crate) use cascade_cpu::{Activation, CacheShape};
use cascade_cpu::{CacheMemory, PAGE_SLOTS};
pub use cpu::compute_threads;

use crate::dtype::Types;
pub(crate) use crate::info::{Heads, ModelInfo};
use crate::network::{CacheUse, Network, NewRows, Sequence};
use crate::weights::Provider;
#[cfg(feature = "candle")]
use crate::Error;
use crate::{Device, Result};

/// A linear map as a checkpoint has it: one or several matrices `[outputs, inputs]` of the same
/// input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinearSpec<'a> {
    /// Names, without the `.weight` or `.bias` at their ends, and outputs. A single part may hold
    /// several below one another.
    pub(crate) parts: &'a [(String, usize)],
    pub(crate) inputs: usize,
    /// Whether the first half of the outputs is a gate for the second.
    pub(crate) gated: bool,
    /// Whether each part has a bias.
    pub(crate) bias: bool,
}

impl<'a> LinearSpec<'a> {
    /// A map without bias or gate.
    pub(crate) fn new(inputs: usize, parts: &'a [(String, usize)]) -> Self {
        Self {
            parts,
            inputs,
            gated: false,
            bias: false,
        }
    }

    pub(crate) fn gated(self) -> Self {
        Self {
            gated: true,
            ..self
        }
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
    /// All positions.
    Whole,
    /// So many positions, the row's own included.
    Window(NonZeroUsize),
    /// All positions, with a bias by distance, the same in all layers of a forward.
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
    /// Rows appended to its networks.
    type Sequence: Sequence;

    /// Whether a forward takes rows of several sequences.
    const GATHERS: bool;

    /// Whether the bits of a row do not depend on the rows beside it.
    const ROW_INVARIANT: bool;

    /// How matrices are held.
    fn held(&self) -> &HeldWeights;

    /// Bytes of keys and values in one slot, in all layers.
    fn bytes_per_slot(&self, shape: CacheShape) -> usize;

    /// Where the pages of keys and values are counted, if they are.
    fn cache_memory(&self) -> Option<&CacheMemory> {
        None
    }

    /// A sequence with nothing in it.
    fn sequence(model: Arc<BackendNetwork<Self>>) -> Self::Sequence;

    /// Carries out [`Network::forward`].
    fn forward(
        model: &BackendNetwork<Self>,
        texts: Vec<NewRows<'_, Self::Sequence>>,
    ) -> Vec<CoreResult<Scores>>;
}

/// How the matrices of a model are held.
#[derive(Debug, Default)]
pub(crate) struct HeldWeights {
    weights: usize,
    bytes: usize,
    /// How many matrices are held in another way than was asked for, by what is said of them.
    notes: BTreeMap<String, usize>,
}

impl HeldWeights {
    /// Counts a matrix of this shape that takes so many bytes.
    fn add(&mut self, shape: [usize; 2], bytes: usize, note: Option<String>) {
        self.weights += shape[0] * shape[1];
        self.bytes += bytes;
        if let Some(note) = note {
            *self.notes.entry(note).or_default() += 1;
        }
    }

    /// Bytes of `weights` weights that are held as all are in the mean.
    pub(crate) fn bytes_of(&self, weights: usize) -> usize {
        (weights as f64 * self.bytes as f64 / self.weights.max(1) as f64) as usize
    }

    /// What the user should know of how weights are held, in sentences.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let say = |(note, count): (&String, &usize)| match count {
            1 => format!("a matrix of weights is held in {note}"),
            count => format!("{count} matrices of weights are held in {note}"),
        };
        self.notes.iter().map(say).collect()
    }
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

    /// The rows of the residual stream are about to enter `layer`.
    fn enter(&mut self, layer: usize);

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
    fn activate(&mut self, linear: &B::Linear, activation: Activation);

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

    /// Whether the architecture has an encoder.
    fn has_encoder(&self) -> bool {
        false
    }

    /// A forward over the rows of the source, which all see each other, as far as keys and values
    /// of cross-attention. Keys and values of each encoder layer take the place of those of the
    /// layer before, in a sequence of one layer.
    fn encode(&self, _forward: &mut dyn Forward<B>) {}
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
        #[cfg(feature = "candle")]
        Device::Candle(device) => {
            if let Some(cache) = types.cache {
                return Err(Error::CandleCacheType { cache });
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
        self.backend.held().bytes_of(weights)
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
        self.backend.held().bytes_of(parameters)
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
        HiddenLayers::up_to(self.info.layers)
    }

    fn notes(&self) -> Vec<String> {
        self.backend.held().sentences()
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
