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
pub(crate) mod network;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::num::NonZeroUsize;

pub use cpu::compute_threads;

pub(crate) use self::host::RelativeBias;
pub(crate) use crate::info::{Heads, ModelInfo};
pub(crate) use cascade_cpu::{Activation, CacheShape};

use crate::weights::{Provider, Role};
use crate::{DType, Result};

/// A linear map as a checkpoint has it: one or several matrices `[outputs, inputs]` of the same
/// input.
#[derive(Clone, Debug)]
pub(crate) struct LinearSpec {
    /// Names, without the `.weight` or `.bias` at their ends, and outputs. A single part may hold
    /// several below one another.
    pub(crate) parts: Vec<(String, usize)>,
    pub(crate) inputs: usize,
    /// Whether the first half of the outputs is a gate for the second.
    pub(crate) gated: bool,
    /// Whether each part has a bias.
    pub(crate) bias: bool,
}

impl LinearSpec {
    /// A map without bias or gate.
    pub(crate) fn new(inputs: usize, parts: impl Into<Vec<(String, usize)>>) -> Self {
        Self {
            parts: parts.into(),
            inputs,
            gated: false,
            bias: false,
        }
    }

    pub(crate) fn with_bias(self, bias: bool) -> Self {
        Self { bias, ..self }
    }
}

/// What is done to the heads of queries and keys before they are compared: RoPE, or QK-norm and
/// then RoPE.
#[derive(Debug)]
pub(crate) struct QkTransform<'a, B: Backend> {
    /// Norms of heads of queries and of keys, the same for all heads.
    pub(crate) norms: Option<&'a [B::Norm; 2]>,
    pub(crate) rotary: &'a B::Rotary,
}

/// Which positions self-attention reads, and with what bias.
#[derive(Debug)]
pub(crate) struct AttentionSpan<'a, B: Backend> {
    /// So many positions, the row's own included; all up to that if none is said.
    pub(crate) window: Option<NonZeroUsize>,
    /// A bias by distance, the same in all layers of a forward.
    pub(crate) bias: Option<&'a B::RelativeBias>,
}

/// Weights in the memory of a backend.
pub(crate) trait Loaded: Debug + Send + Sync + 'static {}
impl<T: Debug + Send + Sync + 'static> Loaded for T {}

/// What carries out the operations, and the types of its weights.
pub(crate) trait Backend: Debug + Send + Sync + Sized + 'static {
    /// A matrix, `[outputs, inputs]`.
    type Matrix: Loaded;
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

    /// How matrices are held.
    fn held(&self) -> &HeldWeights;

    /// Bytes of keys and values in one slot, in all layers.
    fn bytes_per_slot(&self, shape: CacheShape) -> usize;

    /// Loads the matrix of a tensor.
    fn matrix(&mut self, tensor: &Tensor<'_>, shape: [usize; 2]) -> Result<Self::Matrix>;

    /// Loads an embedding; `tied` if it is the head, too.
    fn table(&mut self, tensor: &Tensor<'_>, shape: [usize; 2], tied: bool) -> Result<Self::Table>;

    /// The matrix that an embedding is in memory, for a head that is tied to it.
    fn matrix_of(table: &Self::Table) -> Option<Self::Matrix>;

    /// A norm of rows of as many elements.
    fn norm(&self, weight: Vec<f32>, epsilon: f32) -> Result<Self::Norm>;

    /// Matrices of one input below one another, with a bias if there is one. If it is `gated`, the
    /// first half of the outputs is a gate for the second.
    fn linear(
        &self,
        parts: Vec<Self::Matrix>,
        bias: Option<Vec<f32>>,
        gated: bool,
    ) -> Result<Self::Linear>;

    /// Rotations from cosines and sines, `[positions][half]` each.
    fn rotary(&self, cosines: Vec<f32>, sines: Vec<f32>, half: usize) -> Result<Self::Rotary>;

    /// A bias by distance.
    fn relative_bias(&self, bias: RelativeBias) -> Result<Self::RelativeBias>;
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

/// A tensor of a checkpoint that is to be held in a type.
pub(crate) struct Tensor<'a> {
    pub(crate) weights: &'a dyn Provider,
    pub(crate) name: String,
    pub(crate) dtype: DType,
}

/// Puts weights into the memory of a backend. Names are those of a checkpoint without the `.weight`
/// or `.bias` at their ends.
pub(crate) struct Loader<'a, B> {
    pub(crate) info: ModelInfo,
    pub(crate) weights: &'a dyn Provider,
    pub(crate) dtype: DType,
    pub(crate) backend: B,
}

impl<'a, B: Backend> Loader<'a, B> {
    /// Whether there is a weight of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.weights.has(&format!("{name}.weight"))
    }

    /// A small tensor, on the host.
    pub(crate) fn on_host(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let name = format!("{name}.weight");
        self.weights.read(&name, shape, Role::Matrix)
    }

    fn tensor(&self, name: &str) -> Tensor<'a> {
        Tensor {
            weights: self.weights,
            name: format!("{name}.weight"),
            dtype: self.dtype,
        }
    }

    fn vocabulary(&self) -> [usize; 2] {
        [self.info.vocab_size, self.info.size]
    }

    /// The embedding; `tied` if it is the head, too.
    pub(crate) fn table(&mut self, name: &str, tied: bool) -> Result<B::Table> {
        let (tensor, shape) = (self.tensor(name), self.vocabulary());
        self.backend.table(&tensor, shape, tied)
    }

    /// The linear map to logits; if `tied` is given, `name` is the embedding's and this is it.
    pub(crate) fn head(&mut self, name: &str, tied: Option<&B::Table>) -> Result<B::Linear> {
        let matrix = match tied.and_then(B::matrix_of) {
            Some(matrix) => matrix,
            None => {
                let (tensor, shape) = (self.tensor(name), self.vocabulary());
                self.backend.matrix(&tensor, shape)?
            }
        };
        self.backend.linear(vec![matrix], None, false)
    }

    /// The norm of a row of the residual stream.
    pub(crate) fn norm(&self, name: &str) -> Result<B::Norm> {
        self.norm_of(name, self.info.size)
    }

    /// The norm `name` of rows of so many elements.
    pub(crate) fn norm_of(&self, name: &str, size: usize) -> Result<B::Norm> {
        let name = format!("{name}.weight");
        let weight = self.weights.read(&name, &[size], Role::Norm)?;
        self.backend.norm(weight, self.info.epsilon as f32)
    }

    /// A linear map.
    pub(crate) fn linear(&mut self, spec: LinearSpec) -> Result<B::Linear> {
        let (mut parts, mut bias) = (Vec::new(), Vec::new());
        for (name, outputs) in spec.parts {
            let tensor = self.tensor(&name);
            parts.push(self.backend.matrix(&tensor, [outputs, spec.inputs])?);
            if spec.bias {
                let name = format!("{name}.bias");
                bias.extend(self.weights.read(&name, &[outputs], Role::Bias)?);
            }
        }
        let bias = spec.bias.then_some(bias);
        self.backend.linear(parts, bias, spec.gated)
    }

    /// Rotations from cosines and sines, `[positions][head size / 2]` each.
    pub(crate) fn rotary(&self, (cosines, sines): (Vec<f32>, Vec<f32>)) -> Result<B::Rotary> {
        self.backend
            .rotary(cosines, sines, self.info.heads.size / 2)
    }
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
    fn project(&mut self, linear: &B::Linear, transform: Option<QkTransform<'_, B>>, layer: usize);

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

/// A model on a backend.
#[derive(Debug)]
pub(crate) struct BackendNetwork<B: Backend> {
    pub(crate) backend: B,
    pub(crate) info: ModelInfo,
    pub(crate) layers: Box<dyn Layers<B>>,
}

impl<B: Backend> BackendNetwork<B> {
    /// Bytes of keys and values that the layers keep of one position of a sequence; those of a
    /// position of the source are as many.
    pub(crate) fn bytes_per_position(&self) -> usize {
        self.backend.bytes_per_slot(self.info.cache_shape())
    }

    /// The embedding and the head, for those that share them.
    pub(crate) fn vocabulary(&self) -> Vocabulary<'_, B> {
        self.layers.vocabulary()
    }
}
