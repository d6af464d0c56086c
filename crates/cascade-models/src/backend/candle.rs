//! candle's tensors, on its devices: an engine that runs where ours do not, and that ours are
//! compared with. Rows are not bit-invariant.

mod sequence;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cascade_candle::{
    Bias, BlockFormat, Cache, DType as ComputeType, Device, Heads, Linear, Matrix, Norm, Rotary,
    Tensor,
};
use cascade_core::{HiddenLayer, HiddenLayers, Result as CoreResult, Scores};
use cascade_cpu::Format;

use self::sequence::CandleSequence;
use super::host::{HostRows, PerWindow, RelativeBias};
use super::{
    Activation, AttentionSpan, Backend, BackendNetwork, BiasTable, CacheShape, Forward, LinearSpec,
    Loader, ModelInfo, NewRows, Outputs, QkTransform,
};
use crate::weights::{Provider, Role};
use crate::{DType, Result};

#[derive(Debug)]
pub(super) struct Candle {
    device: Device,
    /// Of activations, keys and values.
    dtype: ComputeType,
    /// Matrices that were loaded: weights, and bytes.
    held: (usize, usize),
    /// How many matrices are held in another way than was asked for, by what is said of them.
    notes: BTreeMap<String, usize>,
}

/// A bias by distance: which entry, and the entries.
#[derive(Debug)]
pub(super) struct Relative {
    entries: RelativeBias,
    values: cascade_candle::RelativeBias,
}

impl Candle {
    fn cache(&self, shape: CacheShape) -> Cache {
        let shape = cascade_candle::CacheShape {
            layers: shape.layers,
            kv_heads: shape.kv_heads,
            head_dim: shape.head_dim,
        };
        Cache::new(&self.device, shape, self.dtype)
    }
}

impl Backend for Candle {
    type Table = Matrix;
    type Norm = Norm;
    type Linear = Linear;
    type Rotary = Rotary;
    type RelativeBias = Relative;
    type Activation = cascade_candle::Activation;
    type Sequence = CandleSequence;

    const GATHERS: bool = false;
    const ROW_INVARIANT: bool = false;

    fn weight_bytes(&self, weights: usize) -> usize {
        let (all, bytes) = self.held;
        (weights as f64 * bytes as f64 / all.max(1) as f64) as usize
    }

    fn bytes_per_slot(&self, shape: CacheShape) -> usize {
        shape.elements_per_slot() * self.dtype.bytes()
    }

    fn notes(&self) -> Vec<String> {
        let notes = self.notes.iter();
        notes
            .map(|(note, count)| format!("{count} of its matrices of weights are held in {note}"))
            .collect()
    }

    fn hidden(&self, layers: usize) -> HiddenLayers {
        HiddenLayers::up_to(layers)
    }

    fn sequence(model: Arc<BackendNetwork<Self>>) -> CandleSequence {
        CandleSequence::new(model)
    }

    fn forward(
        _model: &BackendNetwork<Self>,
        texts: Vec<NewRows<'_, CandleSequence>>,
    ) -> Vec<CoreResult<Scores>> {
        let texts = texts.into_iter();
        texts
            .map(|text| text.sequence.append(&text.plan, text.read))
            .collect()
    }
}

/// Loads weights onto a device of candle's.
pub(super) struct CandleLoader<'a> {
    info: ModelInfo,
    weights: &'a dyn Provider,
    /// What was asked for.
    dtype: DType,
    loaded: Candle,
}

impl<'a> CandleLoader<'a> {
    /// Refuses types that the device does not compute in.
    pub(super) fn new(
        device: &Device,
        info: ModelInfo,
        weights: &'a dyn Provider,
        dtype: DType,
    ) -> Result<Self> {
        let compute = match dtype {
            DType::BF16 => ComputeType::BF16,
            DType::F16 => ComputeType::F16,
            // Products with blocks are computed in f32.
            DType::F32 | DType::Q8_0 | DType::Q4_0 | DType::Stored => ComputeType::F32,
            _ => ComputeType::F32,
        };
        device.check(compute)?;
        Ok(Self {
            info,
            weights,
            dtype,
            loaded: Candle {
                device: device.clone(),
                dtype: compute,
                held: (0, 0),
                notes: BTreeMap::new(),
            },
        })
    }

    /// What carries out forwards, once everything is loaded.
    pub(super) fn backend(self) -> Candle {
        self.loaded
    }

    fn matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<Matrix> {
        let name = format!("{name}.weight");
        let blocks = self.weights.blocks(&name, shape, self.dtype)?;
        let Candle {
            device,
            dtype,
            notes,
            ..
        } = &mut self.loaded;
        let known = blocks.and_then(|blocks| Some((of_candle(blocks.format)?, blocks.bytes)));
        let matrix = match known {
            Some((format, bytes)) => Matrix::blocks(device, &bytes, shape, format)?,
            None => {
                let values = self.weights.read(&name, &shape, Role::Matrix)?;
                if matches!(self.dtype, DType::Q8_0 | DType::Q4_0) {
                    let note = format!("f32 instead of {}: rows are no whole blocks", self.dtype);
                    *notes.entry(note).or_default() += 1;
                }
                Matrix::dense(device, values, shape, *dtype)?
            }
        };
        self.loaded.held.0 += shape[0] * shape[1];
        self.loaded.held.1 += matrix.bytes();
        Ok(matrix)
    }

    fn norm_of(&self, name: &str, size: usize) -> Result<Norm> {
        let weight = self
            .weights
            .read(&format!("{name}.weight"), &[size], Role::Norm)?;
        let Candle { device, dtype, .. } = &self.loaded;
        Ok(Norm::new(device, weight, self.info.epsilon as f32, *dtype)?)
    }
}

fn of_candle(format: Format) -> Option<BlockFormat> {
    match format {
        Format::Q8_0 => Some(BlockFormat::Q8_0),
        Format::Q4_0 => Some(BlockFormat::Q4_0),
        Format::Q4K => Some(BlockFormat::Q4K),
        Format::Q5K => Some(BlockFormat::Q5K),
        Format::Q6K => Some(BlockFormat::Q6K),
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
        let linear = Linear::new(parts, spec.outputs == Outputs::Gated)?;
        let Candle { device, dtype, .. } = &self.loaded;
        Ok(if spec.bias {
            linear.with_bias(device, bias, *dtype)?
        } else {
            linear
        })
    }

    fn head(&mut self, name: &str, tied: Option<&Matrix>) -> Result<Linear> {
        let weight = match tied {
            Some(table) => table.clone(),
            None => self.matrix(name, [self.info.vocab_size, self.info.size])?,
        };
        Ok(Linear::new(vec![weight], false)?)
    }

    fn rotary(&mut self, cosines: Vec<f32>, sines: Vec<f32>) -> Result<Rotary> {
        let Candle { device, dtype, .. } = &self.loaded;
        let half = self.info.heads.size / 2;
        Ok(Rotary::new(device, [cosines, sines], half, *dtype)?)
    }

    fn relative_bias(&mut self, table: BiasTable<'_>) -> Result<Relative> {
        let Candle { device, dtype, .. } = &self.loaded;
        let (entries, heads) = (RelativeBias::new(table), self.info.heads.queries);
        let values = entries.values().to_vec();
        Ok(Relative {
            entries,
            values: cascade_candle::RelativeBias::new(device, values, heads, *dtype)?,
        })
    }

    fn activation(&self, activation: Activation) -> Result<cascade_candle::Activation> {
        Ok(match activation {
            Activation::Relu => cascade_candle::Activation::Relu,
            Activation::Gelu => cascade_candle::Activation::Gelu,
            Activation::GeluErf => cascade_candle::Activation::GeluErf,
            Activation::Silu => cascade_candle::Activation::Silu,
        })
    }

    fn on_host(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.weights
            .read(&format!("{name}.weight"), shape, Role::Matrix)
    }
}

/// A forward, and what is wanted of it. After the first operation that fails, nothing is done.
struct CandleForward<'a> {
    forward: cascade_candle::Forward<'a>,
    rows: HostRows<'a>,
    /// Of self-attention, once a layer has asked for it.
    biases: PerWindow<Option<Bias>>,
    wanted: usize,
    hidden: HiddenLayers,
    hidden_rows: usize,
    /// What is read in the end: hidden states of these layers, then logits if any are wanted.
    layers: Vec<HiddenLayer>,
    read: Vec<Tensor>,
    failed: Option<cascade_candle::Error>,
}

/// What is read of a forward.
#[derive(Debug, Default)]
struct Answer {
    hidden: Vec<(HiddenLayer, Vec<f32>)>,
    logits: Vec<f32>,
}

impl<'a> CandleForward<'a> {
    fn try_to(&mut self, run: impl FnOnce(&mut Self) -> cascade_candle::Result<()>) {
        if self.failed.is_none() {
            self.failed = run(self).err();
        }
    }

    fn bias(&mut self, span: &AttentionSpan<'_, Candle>) -> cascade_candle::Result<Bias> {
        let (forward, rows) = (&self.forward, &self.rows);
        let mut failed = None;
        let made = self.biases.of(span.window(), || {
            bias(forward, rows, span)
                .map_err(|error| failed = Some(error))
                .ok()
        });
        match (made, failed) {
            (_, Some(error)) => Err(error),
            (made, None) => Ok(made.clone().unwrap_or(Bias::None)),
        }
    }

    fn answered(self) -> cascade_candle::Result<Answer> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut read = cascade_candle::Forward::on_host(&self.read)?.into_iter();
        Ok(Answer {
            hidden: self.layers.into_iter().zip(read.by_ref()).collect(),
            logits: read.next().unwrap_or_default(),
        })
    }

    fn keep_hidden(&mut self, layer: HiddenLayer) -> cascade_candle::Result<()> {
        if self.hidden.contains(layer) && self.hidden_rows > 0 {
            let states = match layer {
                HiddenLayer::Last => self.forward.normed(),
                HiddenLayer::Entering(_) => self.forward.stream(),
            };
            let states = cascade_candle::Forward::last_rows(&states, self.hidden_rows)?;
            self.layers.push(layer);
            self.read.push(states);
        }
        Ok(())
    }
}

/// What is added to scores of self-attention.
fn bias(
    forward: &cascade_candle::Forward<'_>,
    rows: &HostRows<'_>,
    span: &AttentionSpan<'_, Candle>,
) -> cascade_candle::Result<Bias> {
    if let AttentionSpan::Biased(bias) = span {
        let entries = rows
            .entries(&bias.entries)
            .into_iter()
            .map(|entry| entry as u32)
            .collect();
        return forward.relative(&bias.values, entries);
    }
    match (rows.mask(span.window()), span.window()) {
        (None, _) => Ok(Bias::None),
        (Some(table), Some(_)) => forward.mask(table),
        (Some(table), None) => {
            // What the cache holds is seen by all rows, and need not be said.
            let (keys, past) = (rows.keys(), rows.past());
            let new = table.chunks_exact(keys).flat_map(|row| &row[past..]);
            forward.mask_of_rows(past, new.copied().collect())
        }
    }
}

impl Forward<Candle> for CandleForward<'_> {
    fn embed(&mut self, table: &Matrix, norm: &Norm) {
        self.try_to(|this| this.forward.embed(table, norm));
    }

    fn enter(&mut self, layer: usize) {
        self.try_to(|this| this.keep_hidden(HiddenLayer::Entering(layer)));
    }

    fn project(&mut self, linear: &Linear, transform: QkTransform<'_, Candle>, layer: usize) {
        let (norms, rotary) = match transform {
            QkTransform::None => (None, None),
            QkTransform::Rotated(rotary) => (None, Some(rotary)),
            QkTransform::NormedAndRotated(norms, rotary) => {
                (Some([&norms.queries, &norms.keys]), Some(rotary))
            }
        };
        self.try_to(|this| this.forward.project(linear, norms, rotary, layer));
    }

    fn project_queries(&mut self, linear: &Linear) {
        self.try_to(|this| this.forward.project_queries(linear));
    }

    fn project_source(&mut self, linear: &Linear, layer: usize) {
        self.try_to(|this| this.forward.project_source(linear, layer));
    }

    fn attend(&mut self, span: AttentionSpan<'_, Candle>, layer: usize) {
        self.try_to(|this| {
            let bias = this.bias(&span)?;
            this.forward.attend(layer, &bias)
        });
    }

    fn attend_source(&mut self, layer: usize) {
        self.try_to(|this| this.forward.attend_source(layer));
    }

    fn add_attended(&mut self, linear: &Linear, norm: &Norm) {
        self.try_to(|this| this.forward.add_attended(linear, norm));
    }

    fn activate(&mut self, linear: &Linear, activation: cascade_candle::Activation) {
        self.try_to(|this| this.forward.activate(linear, activation));
    }

    fn add_inner(&mut self, linear: &Linear, norm: &Norm) {
        self.try_to(|this| this.forward.add_inner(linear, norm));
    }

    fn logits(&mut self, head: &Linear, scale: Option<f64>) {
        self.try_to(|this| {
            this.keep_hidden(HiddenLayer::Last)?;
            if let Some(wanted) = NonZeroUsize::new(this.wanted) {
                let logits = this.forward.logits(head, wanted, scale)?;
                let logits = cascade_candle::Forward::last_rows(&logits, wanted.get())?;
                this.read.push(logits);
            }
            Ok(())
        });
    }
}
