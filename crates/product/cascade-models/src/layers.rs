//! What T5 and LLaMA have in common: linear maps, norms, heads, attention, feed-forward.
//!
//! Activations are `[rows, features]`; what is split into heads is `[heads, rows, head_dim]`.

use std::cell::Cell;
use std::rc::Rc;

use candle_core::{DType, Device, Result, Shape, Tensor, D};
use candle_nn::VarBuilder;

use crate::cpu;

/// A place in a checkpoint that tensors are loaded from, counting the parameters.
#[derive(Clone)]
pub(crate) struct Weights<'a> {
    vb: VarBuilder<'a>,
    parameters: Rc<Cell<usize>>,
}

impl<'a> Weights<'a> {
    pub(crate) fn new(vb: VarBuilder<'a>) -> Self {
        Self {
            vb,
            parameters: Rc::default(),
        }
    }

    /// The place `name` below this one.
    pub(crate) fn pp(&self, name: impl ToString) -> Self {
        Self {
            vb: self.vb.pp(name),
            parameters: Rc::clone(&self.parameters),
        }
    }

    /// The same place, loading in another type.
    pub(crate) fn with_dtype(&self, dtype: DType) -> Self {
        Self {
            vb: self.vb.to_dtype(dtype),
            parameters: Rc::clone(&self.parameters),
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        self.vb.dtype()
    }

    pub(crate) fn device(&self) -> &Device {
        self.vb.device()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.vb.contains_tensor(name)
    }

    /// Parameters loaded so far, from this place and all others of the checkpoint.
    pub(crate) fn parameters(&self) -> usize {
        self.parameters.get()
    }

    pub(crate) fn get(&self, shape: impl Into<Shape>, name: &str) -> Result<Tensor> {
        let tensor = self.vb.get(shape, name)?;
        self.parameters
            .set(self.parameters.get() + tensor.elem_count());
        Ok(tensor)
    }

    /// The linear map `name` from `inputs` to `outputs` features.
    pub(crate) fn linear(&self, inputs: usize, outputs: usize, name: &str) -> Result<Linear> {
        self.fused(inputs, &[(name, outputs)])
    }

    /// Several linear maps of the same input as one, outputs side by side.
    pub(crate) fn fused(&self, inputs: usize, parts: &[(&str, usize)]) -> Result<Linear> {
        let weights = parts
            .iter()
            .map(|&(name, outputs)| self.pp(name).get((outputs, inputs), "weight"))
            .collect::<Result<Vec<_>>>()?;
        let weight = match weights.as_slice() {
            [weight] => weight.clone(),
            weights => Tensor::cat(weights, 0)?,
        };
        Linear::new(weight)
    }

    /// The norm `name`, whose input is of type `stream`; its output is of this place's type.
    pub(crate) fn norm(&self, size: usize, eps: f64, stream: DType, name: &str) -> Result<Norm> {
        Ok(Norm {
            weight: self.pp(name).with_dtype(stream).get(size, "weight")?,
            eps: eps as f32,
            output: self.dtype(),
        })
    }
}

/// A linear map without bias.
#[derive(Debug)]
pub(crate) enum Linear {
    /// A weight `[outputs, inputs]` of any type on any device.
    Plain(Tensor),
    /// The same in f32 on the CPU.
    Panels(cpu::Panels),
}

impl Linear {
    /// The map of a weight `[outputs, inputs]`. On the CPU in f32, this copies the weight.
    pub(crate) fn new(weight: Tensor) -> Result<Self> {
        if cpu::applies(&weight) {
            return Ok(Self::Panels(cpu::Panels::new(&weight)?));
        }
        Ok(Self::Plain(weight))
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        match self {
            Self::Plain(weight) => input.to_dtype(weight.dtype())?.matmul(&weight.t()?),
            Self::Panels(panels) => panels.forward(&input.to_dtype(DType::F32)?),
        }
    }
}

/// Root-mean-square norm, computed in f32.
#[derive(Debug)]
pub(crate) struct Norm {
    weight: Tensor,
    eps: f32,
    output: DType,
}

impl Norm {
    /// `[rows, size]` in the type of the residual stream to the same in the model's type.
    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        if cpu::applies(input) {
            return cpu::rms_norm(input, &self.weight, self.eps)?.to_dtype(self.output);
        }
        candle_nn::ops::rms_norm(&input.contiguous()?, &self.weight, self.eps)?
            .to_dtype(self.output)
    }
}

/// Adds the output of a sublayer to the residual stream, in the stream's type.
pub(crate) fn add(stream: &Tensor, delta: &Tensor) -> Result<Tensor> {
    stream + delta.to_dtype(stream.dtype())?
}

/// `[rows, heads * head_dim]` to `[heads, rows, head_dim]`, contiguous; free for a single row.
pub(crate) fn split_heads(features: &Tensor, heads: usize) -> Result<Tensor> {
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

/// `[heads, rows, head_dim]` to `[rows, heads * head_dim]`; free for a single row.
fn merge_heads(heads: &Tensor) -> Result<Tensor> {
    let (count, rows, head_dim) = heads.dims3()?;
    heads.transpose(0, 1)?.reshape((rows, count * head_dim))
}

/// Rotates `[1, heads, rows, head_dim]` (contiguous) by the cosines and sines `[rows, head_dim / 2]`, halves of a head
/// being the coordinates.
pub(crate) fn rope(heads: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    if cpu::applies(heads) {
        return cpu::rope(heads, cos, sin);
    }
    candle_nn::rotary_emb::rope(heads, cos, sin)
}

/// Softmax attention without scaling of scores, the softmax in f32.
///
/// `queries` is `[heads, rows, head_dim]`, contiguous; `keys_values` is `[2, kv_heads, keys, head_dim]`, of any batch
/// stride, and each of its heads serves `heads / kv_heads` consecutive query heads; `bias` is `[rows, keys]` or
/// `[heads, rows, keys]`, added to the scores. Gives `[rows, heads * head_dim]`.
pub(crate) fn attend(
    queries: &Tensor,
    keys_values: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    if cpu::applies(queries) {
        return cpu::attend(queries, keys_values, bias);
    }
    attend_in_any_type(queries, keys_values, bias)
}

pub(crate) fn attend_in_any_type(
    queries: &Tensor,
    keys_values: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
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
    let mixed = softmax(&scores)?
        .reshape((kv_heads, group_rows, keys))?
        .matmul(&keys_values.get(1)?)?
        .reshape((heads, rows, head_dim))?;
    merge_heads(&mixed)
}

/// Softmax over the last dimension with sums in f32.
fn softmax(scores: &Tensor) -> Result<Tensor> {
    let exact = scores.to_dtype(DType::F32)?;
    candle_nn::ops::softmax_last_dim(&exact)?.to_dtype(scores.dtype())
}

/// The nonlinearity of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Relu,
    /// The tanh form.
    Gelu,
    Silu,
}

impl Activation {
    fn forward(self, input: &Tensor) -> Result<Tensor> {
        match self {
            Self::Relu => input.relu(),
            Self::Gelu => input.gelu(),
            Self::Silu => input.silu(),
        }
    }

    /// `[rows, 2 * size]`, the gate's half first, to `activation(gate) * up`: `[rows, size]`.
    fn gated(self, gate_up: &Tensor) -> Result<Tensor> {
        if cpu::applies(gate_up) {
            return cpu::gated(gate_up, self);
        }
        self.gated_in_any_type(gate_up)
    }

    pub(crate) fn gated_in_any_type(self, gate_up: &Tensor) -> Result<Tensor> {
        let halves = gate_up.chunk(2, D::Minus1)?;
        self.forward(&halves[0])? * &halves[1]
    }
}

/// A feed-forward layer, gated or not.
#[derive(Debug)]
pub(crate) struct FeedForward {
    /// Gate and up projection side by side if `gated`.
    input: Linear,
    output: Linear,
    activation: Activation,
    gated: bool,
}

impl FeedForward {
    pub(crate) fn plain(input: Linear, activation: Activation, output: Linear) -> Self {
        Self {
            input,
            output,
            activation,
            gated: false,
        }
    }

    pub(crate) fn gated(gate_up: Linear, activation: Activation, output: Linear) -> Self {
        Self {
            gated: true,
            ..Self::plain(gate_up, activation, output)
        }
    }

    /// `[rows, size]` to `[rows, size]`, in the type of the output weights.
    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let inner = self.input.forward(input)?;
        let inner = if self.gated {
            self.activation.gated(&inner)?
        } else {
            self.activation.forward(&inner)?
        };
        self.output.forward(&inner)
    }
}
