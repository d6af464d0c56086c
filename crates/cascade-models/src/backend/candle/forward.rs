//! Rows of one text on their way through the layers, in candle's tensors.

use candle_core::{D, DType, Device, Error, Result, Tensor};
use cascade_core::HiddenLayer;

use super::Candle;
use super::cache::CandleCache;
use super::weights::{Linear, Matrix, Norm, Rotary};
use crate::backend::host::{HostRows, PerWindow};
use crate::backend::network::Wanted;
use crate::backend::{Activation, AttentionSpan, Forward, QkTransform};
use crate::info::Heads;

/// Logits and hidden states of the wanted rows, row-major, on the host.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pub(super) hidden: Vec<(HiddenLayer, Vec<f32>)>,
    pub(super) logits: Vec<f32>,
}

/// One forward over the rows of one text. Keys and values are written behind the committed slots of
/// the caches, which have room for them. After the first operation that fails, nothing is done.
pub(super) struct CandleForward<'a> {
    device: &'a Device,
    dtype: DType,
    heads: Heads,
    rows: HostRows<'a>,
    tokens: Tensor,
    positions: Tensor,
    cache: &'a mut CandleCache,
    source: &'a mut CandleCache,
    /// What is added to the scores of self-attention, by window, once a layer has asked for it.
    biases: PerWindow<Option<Tensor>>,
    /// The rotations that were asked for last, and their angles at the rows' positions.
    angles: Option<(*const Rotary, [Tensor; 2])>,
    stream: Tensor,
    normed: Tensor,
    /// `[heads, rows, head size]`.
    queries: Tensor,
    /// `[rows, heads * head size]`.
    attended: Tensor,
    inner: Tensor,
    wanted: Wanted,
    /// Tensors to be read in the end: hidden states of these layers, then logits if any are wanted.
    layers: Vec<HiddenLayer>,
    read: Vec<Tensor>,
    failed: Option<Error>,
}

impl<'a> CandleForward<'a> {
    /// A forward over some rows. `source` is what cross-attention reads, and where an encoder's
    /// last layer writes keys and values.
    pub(super) fn new(
        (backend, heads): (&'a Candle, Heads),
        rows: HostRows<'a>,
        [cache, source]: [&'a mut CandleCache; 2],
        wanted: Wanted,
    ) -> Result<Self> {
        let (device, dtype) = (&backend.device.inner, backend.dtype);
        let nothing = Tensor::zeros(0, dtype, &Device::Cpu)?;
        Ok(Self {
            device,
            dtype,
            heads,
            tokens: Tensor::new(&rows.tokens()[..], device)?,
            positions: Tensor::new(&rows.positions()[..], device)?,
            rows,
            cache,
            source,
            biases: PerWindow::default(),
            angles: None,
            stream: nothing.clone(),
            normed: nothing.clone(),
            queries: nothing.clone(),
            attended: nothing.clone(),
            inner: nothing,
            wanted,
            layers: Vec::new(),
            read: Vec::new(),
            failed: None,
        })
    }

    /// Copies what is wanted to the host: one copy of all, the only one that waits for the device.
    pub(super) fn outputs(self) -> Result<Outputs> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let mut read = on_host(&self.read)?.into_iter();
        Ok(Outputs {
            hidden: self.layers.into_iter().zip(read.by_ref()).collect(),
            logits: read.next().unwrap_or_default(),
        })
    }

    fn try_to(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) {
        if self.failed.is_none() {
            self.failed = run(self).err();
        }
    }

    fn count(&self) -> Result<usize> {
        self.tokens.dim(0)
    }

    fn keep_hidden(&mut self, layer: HiddenLayer) -> Result<()> {
        let Wanted {
            hidden,
            hidden_rows,
            ..
        } = self.wanted;
        if hidden.contains(layer) && hidden_rows > 0 {
            let states = match layer {
                HiddenLayer::Last => &self.normed,
                HiddenLayer::Entering(_) => &self.stream,
            };
            let states = last_rows(states, hidden_rows)?;
            self.layers.push(layer);
            self.read.push(states);
        }
        Ok(())
    }

    /// Some of the heads of `[rows, heads * head size]`, as `[heads, rows, head size]`.
    fn by_head(&self, features: &Tensor, heads: std::ops::Range<usize>) -> Result<Tensor> {
        let split = features.reshape((features.dim(0)?, (), self.heads.size))?;
        let some = split.narrow(1, heads.start, heads.len())?;
        some.transpose(0, 1)?.contiguous()
    }

    fn rotate(&mut self, heads: &Tensor, rotary: &Rotary) -> Result<Tensor> {
        let angles = match &self.angles {
            Some((of, angles)) if std::ptr::eq(*of, rotary) => angles.clone(),
            _ => {
                let angles = rotary.at(&self.positions)?;
                self.angles = Some((rotary, angles.clone()));
                angles
            }
        };
        let [cosines, sines] = &angles;
        let rotated = candle_nn::rotary_emb::rope(&heads.unsqueeze(0)?, cosines, sines)?;
        rotated.squeeze(0)
    }

    fn transformed(
        &mut self,
        heads: Tensor,
        norm: Option<&Norm>,
        rotary: Option<&Rotary>,
    ) -> Result<Tensor> {
        let heads = match norm {
            Some(norm) => norm.forward(&heads)?,
            None => heads,
        };
        match rotary {
            Some(rotary) => self.rotate(&heads, rotary),
            None => Ok(heads),
        }
    }

    /// What is added to scores of self-attention: a mask `[rows, keys]`, or biases
    /// `[heads, rows, keys]`.
    fn bias(&self, span: &AttentionSpan<'_, Candle>) -> Result<Option<Tensor>> {
        let count = self.count()?;
        if let Some(bias) = span.bias {
            let entries = self.rows.entries(&bias.entries).into_iter();
            let entries: Vec<u32> = entries.map(|entry| entry as u32).collect();
            let entries = Tensor::new(&entries[..], self.device)?;
            let values = bias.values.index_select(&entries, 1)?;
            return values.reshape((values.dim(0)?, count, ())).map(Some);
        }
        let Some(table) = self.rows.mask(span.window) else {
            return Ok(None);
        };
        let (keys, past) = (self.rows.keys(), self.rows.past());
        let mask = |table: Vec<f32>, keys| {
            Tensor::from_vec(table, (count, keys), self.device)?.to_dtype(self.dtype)
        };
        if span.window.is_some() {
            return mask(table, keys).map(Some);
        }
        // All rows see what the cache holds, so that need not be copied to the device.
        let new = table.chunks_exact(keys).flat_map(|row| &row[past..]);
        let new = mask(new.copied().collect(), keys - past)?;
        new.pad_with_zeros(1, past, 0).map(Some)
    }

    /// Attention of the queries. Heads of queries that share keys and values are rows of one
    /// product.
    fn attention(&self, [keys, values]: &[Tensor; 2], bias: Option<&Tensor>) -> Result<Tensor> {
        let Heads { queries, kv, size } = self.heads;
        let (group, rows, slots) = (queries / kv, self.count()?, keys.dim(1)?);
        let grouped = self.queries.reshape((kv, group * rows, size))?;
        let mut scores = grouped.matmul(&keys.transpose(1, 2)?)?;
        if let Some(bias) = bias {
            let by_head = (kv, group, rows, slots);
            let by_head_scores = scores.reshape(by_head)?;
            scores = match bias.rank() {
                2 => by_head_scores.broadcast_add(bias)?,
                _ => (by_head_scores + bias.reshape(by_head)?)?,
            };
        }
        let probabilities = candle_nn::ops::softmax_last_dim(&scores)?;
        let attended = probabilities
            .reshape((kv, group * rows, slots))?
            .matmul(values)?
            .reshape((queries, rows, size))?
            .transpose(0, 1)?;
        attended.contiguous()?.reshape((rows, queries * size))
    }

    fn add(&mut self, delta: &Tensor, norm: &Norm) -> Result<()> {
        self.stream = (&self.stream + delta)?;
        self.normed = norm.forward(&self.stream)?;
        Ok(())
    }
}

/// The last `wanted` rows of a tensor in f32, row-major, to be copied to the host later.
fn last_rows(rows: &Tensor, wanted: usize) -> Result<Tensor> {
    let rows = rows.narrow(0, rows.dim(0)? - wanted, wanted)?;
    rows.to_dtype(DType::F32)?.flatten_all()
}

/// [Rows](last_rows) on the host.
fn on_host(parts: &[Tensor]) -> Result<Vec<Vec<f32>>> {
    if let [] | [_] = parts {
        return parts.iter().map(Tensor::to_vec1).collect();
    }
    let all = Tensor::cat(parts, 0)?.to_vec1::<f32>()?;
    let mut rest = &all[..];
    let mut next = |part: &Tensor| {
        let (numbers, others) = rest.split_at(part.elem_count());
        rest = others;
        numbers.to_vec()
    };
    Ok(parts.iter().map(&mut next).collect())
}

fn activated(features: &Tensor, activation: Activation) -> Result<Tensor> {
    match activation {
        Activation::Relu => features.relu(),
        Activation::Gelu => features.gelu(),
        Activation::GeluErf => features.gelu_erf(),
        Activation::Silu => features.silu(),
    }
}

impl Forward<Candle> for CandleForward<'_> {
    fn embed(&mut self, table: &Matrix, norm: &Norm) {
        self.try_to(|this| {
            this.stream = table.rows(&this.tokens, this.dtype)?;
            this.normed = norm.forward(&this.stream)?;
            Ok(())
        });
    }

    fn enter(&mut self, layer: usize) {
        self.try_to(|this| this.keep_hidden(HiddenLayer::Entering(layer)));
    }

    fn project(
        &mut self,
        linear: &Linear,
        transform: Option<QkTransform<'_, Candle>>,
        layer: usize,
    ) {
        let transform = transform.as_ref();
        let norms = transform.and_then(|transform| transform.norms);
        let rotary = transform.map(|transform| transform.rotary);
        self.try_to(|this| {
            let Heads { queries, kv, .. } = this.heads;
            let features = linear.forward(&this.normed)?;
            let heads = this.by_head(&features, 0..queries)?;
            this.queries = this.transformed(heads, norms.map(|norms| &norms[0]), rotary)?;
            let keys = this.by_head(&features, queries..queries + kv)?;
            let keys = this.transformed(keys, norms.map(|norms| &norms[1]), rotary)?;
            let values = this.by_head(&features, queries + kv..queries + 2 * kv)?;
            this.cache.write(layer, &keys, &values)
        });
    }

    fn project_queries(&mut self, linear: &Linear) {
        self.try_to(|this| {
            let features = linear.forward(&this.normed)?;
            this.queries = this.by_head(&features, 0..this.heads.queries)?;
            Ok(())
        });
    }

    fn project_source(&mut self, linear: &Linear, layer: usize) {
        self.try_to(|this| {
            let kv = this.heads.kv;
            let features = linear.forward(&this.normed)?;
            let keys = this.by_head(&features, 0..kv)?;
            let values = this.by_head(&features, kv..2 * kv)?;
            this.source.write(layer, &keys, &values)
        });
    }

    fn attend(&mut self, span: AttentionSpan<'_, Candle>, layer: usize) {
        self.try_to(|this| {
            let mut biases = std::mem::take(&mut this.biases);
            let bias = biases.try_of(span.window, || this.bias(&span))?;
            let keys_values = this.cache.read(layer, this.cache.len() + this.count()?)?;
            this.attended = this.attention(&keys_values, bias.as_ref())?;
            this.biases = biases;
            Ok(())
        });
    }

    fn attend_source(&mut self, layer: usize) {
        self.try_to(|this| {
            let keys_values = this.source.read(layer, this.source.len())?;
            this.attended = this.attention(&keys_values, None)?;
            Ok(())
        });
    }

    fn add_attended(&mut self, linear: &Linear, norm: &Norm) {
        self.try_to(|this| this.add(&linear.forward(&this.attended)?, norm));
    }

    fn activate(&mut self, linear: &Linear, activation: Activation) {
        self.try_to(|this| {
            let features = linear.forward(&this.normed)?;
            this.inner = if linear.gated {
                let inner = features.dim(D::Minus1)? / 2;
                let gate = activated(&features.narrow(1, 0, inner)?, activation)?;
                (gate * features.narrow(1, inner, inner)?)?
            } else {
                activated(&features, activation)?
            };
            Ok(())
        });
    }

    fn add_inner(&mut self, linear: &Linear, norm: &Norm) {
        self.try_to(|this| this.add(&linear.forward(&this.inner)?, norm));
    }

    fn logits(&mut self, head: &Linear, scale: Option<f64>) {
        self.try_to(|this| {
            this.keep_hidden(HiddenLayer::Last)?;
            let wanted = this.wanted.logits;
            if wanted > 0 {
                let mut rows = this.normed.narrow(0, this.count()? - wanted, wanted)?;
                if let Some(scale) = scale {
                    rows = (rows * scale)?;
                }
                this.read.push(last_rows(&head.forward(&rows)?, wanted)?);
            }
            Ok(())
        });
    }
}
