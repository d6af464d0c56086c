//! bf16 and f16 on the CPU, with the tensor library. Last bits vary with the number of rows.
//!
//! Activations are `[rows, features]`; what is split into heads is `[heads, rows, head size]`.

use std::sync::Arc;

use candle_core::{DType as TensorType, Device, Error as TensorError, Result as TensorResult};
use candle_core::{Tensor, D};

use super::arena::Arena;
use super::host::{
    Answer, HostBackend, HostBias, HostCache, HostInput, HostRows, HostSequence, PerWindow,
    RelativeBias,
};
use super::{
    Activation, Backend, BackendNetwork, BiasTable, CacheShape, Forward, LinearSpec, Loader,
    ModelInfo, Outputs, Sight, Turn,
};
use crate::network::Sequence;
use crate::weights::{values, with_values, Provider, Role};
use crate::{DType, Error, Result};

#[derive(Debug)]
pub(super) struct Tensors {
    pub(super) dtype: DType,
}

/// A root-mean-square norm, computed in f32.
#[derive(Debug)]
pub(super) struct Norm {
    /// In the type of the residual stream.
    weight: Tensor,
    epsilon: f32,
    /// The model's type.
    output: TensorType,
}

impl Norm {
    fn forward(&self, input: &Tensor) -> TensorResult<Tensor> {
        let normed = match input.dtype() {
            TensorType::F32 => {
                let weight = self.weight.to_vec1::<f32>()?;
                let norm = |input: &[f32]| cascade_cpu::rms_norm(input, &weight, self.epsilon);
                let normed = with_values(input, norm)?;
                Tensor::from_vec(normed, input.shape(), &Device::Cpu)?
            }
            _ => candle_nn::ops::rms_norm(&input.contiguous()?, &self.weight, self.epsilon)?,
        };
        normed.to_dtype(self.output)
    }
}

/// A linear map, whose outputs may be a gate and what it gates.
#[derive(Debug)]
pub(super) struct Map {
    weight: Weight,
    bias: Option<Tensor>,
    gated: bool,
}

#[derive(Debug)]
enum Weight {
    /// `[outputs, inputs]`
    Half(Tensor),
    /// Of which outputs exceed the range of f16.
    Single(cascade_cpu::Linear),
}

impl Map {
    fn forward(&self, input: &Tensor) -> TensorResult<Tensor> {
        let product = match &self.weight {
            Weight::Half(weight) => input.to_dtype(weight.dtype())?.matmul(&weight.t()?)?,
            Weight::Single(linear) => {
                let product = with_values(input, |input| linear.forward(input))?;
                let shape = (input.dim(0)?, linear.outputs());
                Tensor::from_vec(product, shape, &Device::Cpu)?
            }
        };
        match &self.bias {
            None => Ok(product),
            Some(bias) => product.broadcast_add(bias),
        }
    }
}

/// Cosines and sines, `[positions, half a head]`.
#[derive(Debug)]
pub(super) struct Rotary {
    cosines: Tensor,
    sines: Tensor,
}

impl Rotary {
    /// Rotates `[heads, rows, head size]`, halves of a head being the coordinates.
    fn rotate(&self, heads: &Tensor, positions: &Tensor) -> TensorResult<Tensor> {
        let angles = |table: &Tensor| table.index_select(positions, 0);
        let (cosines, sines) = (angles(&self.cosines)?, angles(&self.sines)?);
        candle_nn::rotary_emb::rope(&heads.unsqueeze(0)?, &cosines, &sines)?.squeeze(0)
    }
}

impl Backend for Tensors {
    type Table = Tensor;
    type Norm = Norm;
    type Linear = Map;
    type Rotary = Rotary;
    type RelativeBias = RelativeBias;

    fn weight_bytes(&self) -> usize {
        self.dtype.size_in_bytes()
    }

    fn bytes_per_slot(&self, shape: CacheShape) -> usize {
        shape.elements_per_slot() * self.weight_bytes()
    }

    fn sequence(model: Arc<BackendNetwork<Self>>) -> Box<dyn Sequence> {
        Box::new(HostSequence::new(model))
    }
}

/// The type of the residual stream, and of whatever else may exceed the range of f16.
fn wide(dtype: DType, exceeds_f16: bool) -> DType {
    match dtype {
        DType::F16 if exceeds_f16 => DType::F32,
        dtype => dtype,
    }
}

/// Loads weights of any type as one.
pub(super) struct TensorLoader<'a> {
    info: ModelInfo,
    weights: &'a dyn Provider,
    dtype: DType,
}

impl<'a> TensorLoader<'a> {
    pub(super) fn new(info: ModelInfo, weights: &'a dyn Provider, dtype: DType) -> Self {
        Self {
            info,
            weights,
            dtype,
        }
    }

    fn matrix(&self, name: &str, shape: [usize; 2], dtype: DType) -> Result<Tensor> {
        let name = format!("{name}.weight");
        self.weights.read(&name, &shape, Role::Matrix, dtype)
    }

    /// The norm of rows of `size` elements of a type.
    fn norm_of(&self, name: &str, size: usize, dtype: DType) -> Result<Norm> {
        let name = format!("{name}.weight");
        Ok(Norm {
            weight: self.weights.read(&name, &[size], Role::Norm, dtype)?,
            epsilon: self.info.epsilon as f32,
            output: self.dtype.tensor_type(),
        })
    }
}

impl Loader<Tensors> for TensorLoader<'_> {
    fn has(&self, name: &str) -> bool {
        self.weights.has(&format!("{name}.weight"))
    }

    fn table(&mut self, name: &str) -> Result<Tensor> {
        self.matrix(name, [self.info.vocab_size, self.info.size], self.dtype)
    }

    fn norm(&mut self, name: &str) -> Result<Norm> {
        let stream = wide(self.dtype, self.info.exceeds_f16);
        self.norm_of(name, self.info.size, stream)
    }

    fn head_norm(&mut self, name: &str) -> Result<Norm> {
        self.norm_of(name, self.info.heads.size, self.dtype)
    }

    fn linear(&mut self, spec: LinearSpec<'_>) -> Result<Map> {
        let dtype = wide(self.dtype, spec.exceeds_f16);
        let (mut weights, mut biases) = (Vec::new(), Vec::new());
        for (name, outputs) in spec.parts {
            weights.push(self.matrix(name, [*outputs, spec.inputs], dtype)?);
            if spec.bias {
                let name = format!("{name}.bias");
                biases.push(self.weights.read(&name, &[*outputs], Role::Bias, dtype)?);
            }
        }
        let join = |parts: &[Tensor]| Tensor::cat(parts, 0).map_err(Error::tensor);
        let weight = join(&weights)?;
        Ok(Map {
            weight: match dtype {
                DType::F32 => {
                    Weight::Single(cascade_cpu::Linear::new(&values(&weight)?, spec.inputs))
                }
                _ => Weight::Half(weight),
            },
            bias: spec.bias.then(|| join(&biases)).transpose()?,
            gated: spec.outputs == Outputs::Gated,
        })
    }

    fn head(&mut self, name: &str, tied: Option<&Tensor>) -> Result<Map> {
        let weight = match tied {
            Some(table) => table.clone(),
            None => self.table(name)?,
        };
        Ok(Map {
            weight: Weight::Half(weight),
            bias: None,
            gated: false,
        })
    }

    fn rotary(&mut self, cosines: Vec<f32>, sines: Vec<f32>) -> Result<Rotary> {
        let half = self.info.heads.size / 2;
        let table = |values: Vec<f32>| {
            let shape = (values.len() / half, half);
            Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(self.dtype.tensor_type())
        };
        Ok(Rotary {
            cosines: table(cosines).map_err(Error::tensor)?,
            sines: table(sines).map_err(Error::tensor)?,
        })
    }

    fn relative_bias(&mut self, table: BiasTable<'_>) -> Result<RelativeBias> {
        Ok(RelativeBias::new(table))
    }

    fn on_host(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let name = format!("{name}.weight");
        values(&self.weights.read(&name, shape, Role::Matrix, self.dtype)?)
    }
}

impl HostCache for Arena {
    fn len(&self) -> usize {
        self.len()
    }

    fn reserve(&mut self, rows: usize) -> Result<()> {
        self.reserve(rows).map_err(Error::tensor)
    }

    fn commit(&mut self, rows: usize) {
        self.commit(rows);
    }

    fn truncate(&mut self, len: usize) {
        self.truncate(len);
    }

    fn retain(&mut self, at: usize, slots: &[u32]) -> Result<()> {
        self.retain(at, slots).map_err(Error::tensor)
    }
}

impl HostBackend for Tensors {
    type Cache = Arena;

    fn cache(&self, shape: CacheShape) -> Arena {
        Arena::new(shape, self.dtype.tensor_type())
    }

    fn run(
        &self,
        info: &ModelInfo,
        input: HostInput<'_, Arena>,
        write: &mut dyn FnMut(&mut dyn Forward<Self>),
    ) -> Result<Answer> {
        let tensor = |values: Vec<u32>| Tensor::new(values, &Device::Cpu).map_err(Error::tensor);
        let nothing = tensor(Vec::new())?;
        let mut forward = TensorForward {
            info,
            dtype: self.dtype,
            positions: tensor(input.rows.positions())?,
            rows: input.rows,
            sequence: input.sequence,
            source: input.source,
            wanted: input.wanted,
            biases: PerWindow::new(),
            stream: nothing.clone(),
            normed: nothing.clone(),
            queries: nothing.clone(),
            attended: nothing.clone(),
            inner: nothing,
            answer: Answer::default(),
            failure: None,
        };
        write(&mut forward);
        match forward.failure {
            None => Ok(forward.answer),
            Some(error) => Err(Error::tensor(error)),
        }
    }
}

/// Rows on their way through the layers.
struct TensorForward<'a> {
    info: &'a ModelInfo,
    dtype: DType,
    rows: HostRows<'a>,
    positions: Tensor,
    sequence: &'a mut Arena,
    source: &'a mut Arena,
    wanted: usize,
    /// Of self-attention, once a layer has asked for it: `[rows, keys]`, `[heads, rows, keys]`, or
    /// nothing.
    biases: PerWindow<TensorResult<Option<Tensor>>>,
    stream: Tensor,
    normed: Tensor,
    queries: Tensor,
    attended: Tensor,
    inner: Tensor,
    answer: Answer,
    /// The first operation's that failed; those after it are left out.
    failure: Option<TensorError>,
}

impl TensorForward<'_> {
    fn attempt(&mut self, operation: impl FnOnce(&mut Self) -> TensorResult<()>) {
        if self.failure.is_none() {
            self.failure = operation(self).err();
        }
    }

    /// Adds the output of a sublayer to the residual stream, in the stream's type.
    fn add(&mut self, delta: &Tensor, norm: &Norm) -> TensorResult<()> {
        self.stream = (&self.stream + delta.to_dtype(self.stream.dtype())?)?;
        self.normed = norm.forward(&self.stream)?;
        Ok(())
    }
}

/// What `sight` adds to the scores of `rows`.
fn score_bias(
    rows: HostRows<'_>,
    sight: &Sight<'_, Tensors>,
    heads: usize,
    dtype: DType,
) -> TensorResult<Option<Tensor>> {
    let (count, keys) = (rows.count(), rows.keys());
    let bias = match rows.score_bias(sight) {
        HostBias::None => return Ok(None),
        HostBias::Shared(bias) => Tensor::from_vec(bias, (count, keys), &Device::Cpu)?,
        HostBias::PerHead(bias) => Tensor::from_vec(bias, (heads, count, keys), &Device::Cpu)?,
    };
    bias.to_dtype(dtype.tensor_type()).map(Some)
}

impl Forward<Tensors> for TensorForward<'_> {
    fn embed(&mut self, table: &Tensor, norm: &Norm) {
        self.attempt(|this| {
            let tokens = Tensor::new(this.rows.tokens(), &Device::Cpu)?;
            let stream = wide(this.dtype, this.info.exceeds_f16);
            this.stream = table
                .index_select(&tokens, 0)?
                .to_dtype(stream.tensor_type())?;
            this.normed = norm.forward(&this.stream)?;
            Ok(())
        });
    }

    fn project(&mut self, linear: &Map, turn: Turn<'_, Tensors>, layer: usize) {
        self.attempt(|this| {
            let (queries, kv) = (this.info.heads.queries, this.info.heads.kv);
            let heads = split_heads(&linear.forward(&this.normed)?, queries + 2 * kv)?;
            let both = heads.narrow(0, 0, queries + kv)?;
            let turned = match turn {
                Turn::None => both,
                Turn::Rotated(rotary) => rotary.rotate(&both, &this.positions)?,
                Turn::NormedAndRotated(norms, rotary) => {
                    let queries = norms.queries.forward(&both.narrow(0, 0, queries)?)?;
                    let keys =
                        norms
                            .keys
                            .forward(&both.narrow(0, this.info.heads.queries, kv)?)?;
                    rotary.rotate(&Tensor::cat(&[queries, keys], 0)?, &this.positions)?
                }
            };
            let plane = |heads: Tensor| heads.unsqueeze(0);
            let keys = plane(turned.narrow(0, queries, kv)?)?;
            let values = plane(heads.narrow(0, queries + kv, kv)?)?;
            this.sequence.write(2 * layer, &keys)?;
            this.sequence.write(2 * layer + 1, &values)?;
            this.queries = turned.narrow(0, 0, queries)?;
            Ok(())
        });
    }

    fn project_queries(&mut self, linear: &Map) {
        self.attempt(|this| {
            let queries = linear.forward(&this.normed)?;
            this.queries = split_heads(&queries, this.info.heads.queries)?;
            Ok(())
        });
    }

    fn project_source(&mut self, linear: &Map, layer: usize) {
        self.attempt(|this| {
            let (kv, size) = (this.info.heads.kv, this.info.heads.size);
            let both = split_heads(&linear.forward(&this.normed)?, 2 * kv)?;
            let both = both.reshape((2, kv, this.rows.count(), size))?;
            this.source.write(2 * layer, &both)
        });
    }

    fn attend(&mut self, sight: Sight<'_, Tensors>, layer: usize) {
        self.attempt(|this| {
            let (rows, heads, dtype) = (this.rows, this.info.heads.queries, this.dtype);
            let make = || score_bias(rows, &sight, heads, dtype);
            let bias = match this.biases.of(sight.window(), make) {
                Ok(bias) => bias.as_ref(),
                Err(error) => return Err(TensorError::msg(error)),
            };
            let keys_values = this.sequence.keys_values(layer, rows.keys())?;
            this.attended = attend(&this.queries, &keys_values, bias)?;
            Ok(())
        });
    }

    fn attend_source(&mut self, layer: usize) {
        self.attempt(|this| {
            let keys_values = this.source.keys_values(layer, this.source.len())?;
            this.attended = attend(&this.queries, &keys_values, None)?;
            Ok(())
        });
    }

    fn add_attended(&mut self, linear: &Map, norm: &Norm) {
        self.attempt(|this| this.add(&linear.forward(&this.attended)?, norm));
    }

    fn activate(&mut self, linear: &Map, activation: Activation) {
        self.attempt(|this| {
            let inner = linear.forward(&this.normed)?;
            this.inner = if linear.gated {
                let halves = inner.chunk(2, D::Minus1)?;
                (activate(&halves[0], activation)? * &halves[1])?
            } else {
                activate(&inner, activation)?
            };
            Ok(())
        });
    }

    fn add_inner(&mut self, linear: &Map, norm: &Norm) {
        self.attempt(|this| this.add(&linear.forward(&this.inner)?, norm));
    }

    fn logits(&mut self, head: &Map, scale: Option<f64>) {
        self.attempt(|this| {
            let hidden = this
                .normed
                .narrow(0, this.rows.count() - this.wanted, this.wanted)?;
            let logits = match scale {
                None => head.forward(&hidden)?,
                Some(scale) => head.forward(&(&hidden * scale)?)?,
            };
            this.answer.logits = with_values(&logits, <[f32]>::to_vec)?;
            this.answer.hidden = with_values(&hidden, <[f32]>::to_vec)?;
            Ok(())
        });
    }
}

/// `[rows, heads * head size]` to `[heads, rows, head size]`, contiguous; free for a single row.
fn split_heads(features: &Tensor, heads: usize) -> TensorResult<Tensor> {
    let (rows, size) = features.dims2()?;
    let head_dim = size / heads;
    if rows == 1 {
        return features.reshape((heads, 1, head_dim));
    }
    features
        .reshape((rows, heads, head_dim))?
        .transpose(0, 1)?
        .contiguous()
}

/// Softmax attention without scaling of scores, the softmax in f32.
///
/// `queries` is `[heads, rows, head size]`, contiguous; `keys_values` is `[2, kv heads, keys, head
/// size]`, of any batch stride; `bias` is `[rows, keys]` or `[heads, rows, keys]`. Gives `[rows,
/// heads * head size]`.
fn attend(queries: &Tensor, keys_values: &Tensor, bias: Option<&Tensor>) -> TensorResult<Tensor> {
    let (heads, rows, head_dim) = queries.dims3()?;
    let (_, kv_heads, keys, _) = keys_values.dims4()?;
    let group_rows = heads / kv_heads * rows;
    let scores = queries
        .reshape((kv_heads, group_rows, head_dim))?
        .matmul(&keys_values.get(0)?.t()?)?
        .reshape((heads, rows, keys))?;
    let scores = match bias {
        None => scores,
        Some(bias) if bias.rank() == 3 => (scores + bias)?,
        Some(bias) => scores.broadcast_add(bias)?,
    };
    let exact = scores.to_dtype(TensorType::F32)?;
    let weights = candle_nn::ops::softmax_last_dim(&exact)?.to_dtype(scores.dtype())?;
    let mixed = weights
        .reshape((kv_heads, group_rows, keys))?
        .matmul(&keys_values.get(1)?)?
        .reshape((heads, rows, head_dim))?;
    mixed.transpose(0, 1)?.reshape((rows, heads * head_dim))
}

fn activate(input: &Tensor, activation: Activation) -> TensorResult<Tensor> {
    match activation {
        Activation::Relu => input.relu(),
        Activation::Gelu => input.gelu(),
        Activation::Silu => input.silu(),
    }
}
