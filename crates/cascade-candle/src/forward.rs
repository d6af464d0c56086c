//! Rows on their way through layers.

use std::num::NonZeroUsize;

use candle_core::{Tensor, D};

use crate::{Cache, DType, Device, Linear, Matrix, Norm, RelativeBias, Result, Rotary};

/// What attention's heads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Heads of queries.
    pub queries: usize,
    /// Heads of keys and values, each of which serves as many heads of queries.
    pub kv: usize,
    /// Elements of a head.
    pub size: usize,
}

/// What the inner layer of a feed-forward goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// The tanh form of GELU.
    Gelu,
    /// The exact form of GELU.
    GeluErf,
    /// x · sigmoid(x).
    Silu,
}

/// Norms of heads of queries and keys.
pub type HeadNorms<'a> = [&'a Norm; 2];

/// What is added to attention's scores: −∞ where a row does not see a key.
#[derive(Clone, Debug)]
pub enum Bias {
    /// Nothing.
    None,
    /// `[rows, keys]`, the same for all heads.
    Shared(Tensor),
    /// `[heads, rows, keys]`.
    PerHead(Tensor),
}

/// One forward over the rows of one text. Keys and values are written behind the committed slots of
/// `cache`, which has room for them.
#[derive(Debug)]
pub struct Forward<'a> {
    device: &'a Device,
    heads: Heads,
    dtype: DType,
    rows: usize,
    tokens: Tensor,
    positions: Tensor,
    cache: &'a mut Cache,
    source: &'a mut Cache,
    /// Angles of the rotations that were asked for last.
    angles: Option<(*const Rotary, [Tensor; 2])>,
    stream: Tensor,
    normed: Tensor,
    /// `[heads, rows, head size]`.
    queries: Tensor,
    /// `[rows, heads * head size]`.
    attended: Tensor,
    inner: Tensor,
}

impl<'a> Forward<'a> {
    /// A forward over rows of these tokens at these positions. `source` is what cross-attention
    /// reads, and where [`project_source`](Self::project_source) writes.
    ///
    /// # Errors
    /// No memory.
    pub fn new(
        device: &'a Device,
        (heads, dtype): (Heads, DType),
        (tokens, positions): (&[u32], &[u32]),
        cache: &'a mut Cache,
        source: &'a mut Cache,
    ) -> Result<Self> {
        let nothing = Tensor::zeros(0, dtype.of_candle(), &candle_core::Device::Cpu)?;
        Ok(Self {
            device,
            heads,
            dtype,
            rows: tokens.len(),
            tokens: Tensor::new(tokens, &device.inner)?,
            positions: Tensor::new(positions, &device.inner)?,
            cache,
            source,
            angles: None,
            stream: nothing.clone(),
            normed: nothing.clone(),
            queries: nothing.clone(),
            attended: nothing.clone(),
            inner: nothing,
        })
    }

    /// What is added to scores: a table `[rows, keys]` of 0 and −∞.
    ///
    /// # Errors
    /// No memory.
    pub fn mask(&self, table: Vec<f32>) -> Result<Bias> {
        let keys = table.len() / self.rows;
        let mask = Tensor::from_vec(table, (self.rows, keys), &self.device.inner)?;
        Ok(Bias::Shared(mask.to_dtype(self.dtype.of_candle())?))
    }

    /// The same for a mask of the rows among themselves, `[rows, rows]`: all see the `past` keys
    /// before them.
    ///
    /// # Errors
    /// No memory.
    pub fn mask_of_rows(&self, past: usize, table: Vec<f32>) -> Result<Bias> {
        let Bias::Shared(mask) = self.mask(table)? else {
            return Ok(Bias::None);
        };
        Ok(Bias::Shared(mask.pad_with_zeros(1, past, 0)?))
    }

    /// Biases by distance: `entries` of `bias`, `[rows, keys]`.
    ///
    /// # Errors
    /// No memory.
    pub fn relative(&self, bias: &RelativeBias, entries: Vec<u32>) -> Result<Bias> {
        let keys = entries.len() / self.rows;
        let entries = Tensor::from_vec(entries, (self.rows, keys), &self.device.inner)?;
        bias.look_up(&entries).map(Bias::PerHead)
    }

    /// Tokens to the residual stream, and that to its norm.
    ///
    /// # Errors
    /// As all operations: what candle fails with.
    pub fn embed(&mut self, table: &Matrix, norm: &Norm) -> Result<()> {
        self.stream = table.rows(&self.tokens, self.dtype)?;
        self.normed = norm.forward(&self.stream)?;
        Ok(())
    }

    /// The residual stream, `[rows, size]`.
    pub fn stream(&self) -> Tensor {
        self.stream.clone()
    }

    /// Its norm.
    pub fn normed(&self) -> Tensor {
        self.normed.clone()
    }

    /// Some of the heads of `[rows, heads * head size]`, as `[heads, rows, head size]`.
    fn by_head(&self, features: &Tensor, heads: std::ops::Range<usize>) -> Result<Tensor> {
        let split = features.reshape((self.rows, (), self.heads.size))?;
        let some = split.narrow(1, heads.start, heads.len())?;
        Ok(some.transpose(0, 1)?.contiguous()?)
    }

    fn rotate(&mut self, heads: &Tensor, rotary: &Rotary) -> Result<Tensor> {
        let known = self
            .angles
            .as_ref()
            .filter(|(of, _)| std::ptr::eq(*of, rotary));
        let angles = match known {
            Some((_, angles)) => angles.clone(),
            None => {
                let angles = rotary.at(&self.positions)?;
                self.angles = Some((rotary, angles.clone()));
                angles
            }
        };
        let [cosines, sines] = &angles;
        let rotated = candle_nn::rotary_emb::rope(&heads.unsqueeze(0)?, cosines, sines)?;
        Ok(rotated.squeeze(0)?)
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

    /// Norm to queries, and keys and values of `layer`; queries and keys are normed by head and
    /// rotated by position if it is asked for.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn project(
        &mut self,
        linear: &Linear,
        norms: Option<HeadNorms<'_>>,
        rotary: Option<&Rotary>,
        layer: usize,
    ) -> Result<()> {
        let Heads { queries, kv, .. } = self.heads;
        let features = linear.forward(&self.normed)?;
        let heads = self.by_head(&features, 0..queries)?;
        self.queries = self.transformed(heads, norms.map(|norms| norms[0]), rotary)?;
        let keys = self.by_head(&features, queries..queries + kv)?;
        let keys = self.transformed(keys, norms.map(|norms| norms[1]), rotary)?;
        let values = self.by_head(&features, queries + kv..queries + 2 * kv)?;
        self.cache.write(layer, &keys, &values)
    }

    /// Norm to queries.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn project_queries(&mut self, linear: &Linear) -> Result<()> {
        let features = linear.forward(&self.normed)?;
        self.queries = self.by_head(&features, 0..self.heads.queries)?;
        Ok(())
    }

    /// Norm to keys and values of `layer` of the source.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn project_source(&mut self, linear: &Linear, layer: usize) -> Result<()> {
        let kv = self.heads.kv;
        let features = linear.forward(&self.normed)?;
        let keys = self.by_head(&features, 0..kv)?;
        let values = self.by_head(&features, kv..2 * kv)?;
        self.source.write(layer, &keys, &values)
    }

    /// Queries to attention to the committed slots of `layer` and the rows themselves.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn attend(&mut self, layer: usize, bias: &Bias) -> Result<()> {
        let keys_values = self.cache.read(layer, self.cache.len() + self.rows)?;
        self.attended = self.attention(&keys_values, bias)?;
        Ok(())
    }

    /// Queries to attention to the whole source.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn attend_source(&mut self, layer: usize) -> Result<()> {
        let keys_values = self.source.read(layer, self.source.len())?;
        self.attended = self.attention(&keys_values, &Bias::None)?;
        Ok(())
    }

    /// Heads of queries that share keys and values are rows of one product.
    fn attention(&self, [keys, values]: &[Tensor; 2], bias: &Bias) -> Result<Tensor> {
        let Heads { queries, kv, size } = self.heads;
        let (group, rows, slots) = (queries / kv, self.rows, keys.dim(1)?);
        let grouped = self.queries.reshape((kv, group * rows, size))?;
        let scores = grouped.matmul(&keys.transpose(1, 2)?)?;
        let by_head = (kv, group, rows, slots);
        let scores = match bias {
            Bias::None => scores,
            Bias::Shared(mask) => scores.reshape(by_head)?.broadcast_add(mask)?,
            Bias::PerHead(bias) => (scores.reshape(by_head)? + bias.reshape(by_head)?)?,
        };
        let probabilities =
            candle_nn::ops::softmax_last_dim(&scores)?.reshape((kv, group * rows, slots))?;
        let attended = probabilities
            .matmul(values)?
            .reshape((queries, rows, size))?
            .transpose(0, 1)?
            .contiguous()?;
        Ok(attended.reshape((rows, queries * size))?)
    }

    fn add(&mut self, delta: &Tensor, norm: &Norm) -> Result<()> {
        self.stream = (&self.stream + delta)?;
        self.normed = norm.forward(&self.stream)?;
        Ok(())
    }

    /// Adds a linear map of what attention gave to the residual stream, and that to its norm.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn add_attended(&mut self, linear: &Linear, norm: &Norm) -> Result<()> {
        let delta = linear.forward(&self.attended)?;
        self.add(&delta, norm)
    }

    /// Norm to the inner layer of a feed-forward; a gated one if `linear` is.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn activate(&mut self, linear: &Linear, activation: Activation) -> Result<()> {
        let features = linear.forward(&self.normed)?;
        let active = |features: &Tensor| match activation {
            Activation::Relu => features.relu(),
            Activation::Gelu => features.gelu(),
            Activation::GeluErf => features.gelu_erf(),
            Activation::Silu => features.silu(),
        };
        self.inner = if linear.gated {
            let inner = features.dim(D::Minus1)? / 2;
            let gate = active(&features.narrow(1, 0, inner)?)?;
            (gate * features.narrow(1, inner, inner)?)?
        } else {
            active(&features)?
        };
        Ok(())
    }

    /// Adds a linear map of the inner layer to the residual stream, and that to its norm.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn add_inner(&mut self, linear: &Linear, norm: &Norm) -> Result<()> {
        let delta = linear.forward(&self.inner)?;
        self.add(&delta, norm)
    }

    /// Norm of the last `wanted` rows, times `scale`, to logits.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn logits(
        &self,
        head: &Linear,
        wanted: NonZeroUsize,
        scale: Option<f64>,
    ) -> Result<Tensor> {
        let wanted = wanted.get();
        let mut rows = self.normed.narrow(0, self.rows - wanted, wanted)?;
        if let Some(scale) = scale {
            rows = (rows * scale)?;
        }
        head.forward(&rows)
    }

    /// The last `wanted` rows of a tensor in f32, row-major, to be copied to the host later.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn last_rows(rows: &Tensor, wanted: usize) -> Result<Tensor> {
        let all = rows.dim(0)?;
        let rows = rows.narrow(0, all - wanted, wanted)?;
        Ok(rows.to_dtype(candle_core::DType::F32)?.flatten_all()?)
    }

    /// [Rows](Self::last_rows) on the host: one copy of all, the only one that waits for the
    /// device.
    ///
    /// # Errors
    /// What candle fails with.
    pub fn on_host(parts: &[Tensor]) -> Result<Vec<Vec<f32>>> {
        if let [] | [_] = parts {
            let parts = parts.iter().map(Tensor::to_vec1);
            return Ok(parts.collect::<candle_core::Result<_>>()?);
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
}
