//! The layer of a head of EAGLE, over the rows of several texts at once.
//!
//! A text's rows of the first step read states of the target; row r of step s reads what row r gave
//! in step s − 1, beside the token behind that. So it attends to the rows of the first step up to
//! r, and to the rows r of the steps between.

use candle_core::{D, Device, Result, Tensor};

use super::tensors::{linear, rms_norm, rotated, softmax};

/// What a layer is besides its weights.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerShape {
    pub(super) size: usize,
    pub(super) inner: usize,
    pub(super) queries: usize,
    pub(super) kv: usize,
    /// Elements of a head.
    pub(super) head: usize,
    pub(super) epsilon: f64,
}

/// θ of rotations.
pub(super) const THETA: f64 = 10_000.0;

/// What stands for the logarithm of nothing.
const NOTHING: f32 = -1e9;

/// The rows of a step in one text: consecutive ones from `first` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// Which text of a batch.
    pub(super) text: usize,
    pub(super) first: usize,
    pub(super) rows: usize,
}

/// Keys and values of a step in one text.
struct KeysValues {
    span: Span,
    /// `[rows, kv heads, head]`.
    keys: Tensor,
    values: Tensor,
}

/// A layer in the middle of a batch: what later steps attend to.
pub(super) struct Layer<'p> {
    shape: LayerShape,
    /// In the order of [`LayerShape::parts`].
    parts: &'p [Tensor],
    steps: Vec<Vec<KeysValues>>,
}

impl LayerShape {
    /// Names and shapes of the weights of a head.
    pub(super) fn parts(&self) -> Vec<(&'static str, Vec<usize>)> {
        let (size, inner) = (self.size, self.inner);
        let (queries, kv) = (self.queries * self.head, self.kv * self.head);
        vec![
            ("fc.weight", vec![size, 2 * size]),
            ("fc.bias", vec![size]),
            ("layers.0.self_attn.q_proj.weight", vec![queries, size]),
            ("layers.0.self_attn.k_proj.weight", vec![kv, size]),
            ("layers.0.self_attn.v_proj.weight", vec![kv, size]),
            ("layers.0.self_attn.o_proj.weight", vec![size, queries]),
            ("layers.0.post_attention_layernorm.weight", vec![size]),
            ("layers.0.mlp.gate_proj.weight", vec![inner, size]),
            ("layers.0.mlp.up_proj.weight", vec![inner, size]),
            ("layers.0.mlp.down_proj.weight", vec![size, inner]),
        ]
    }

    /// Cosines and sines of the rows of spans in step `step`, from 0, in their order.
    fn rotation(&self, spans: &[Span], step: usize) -> Result<(Tensor, Tensor)> {
        let half = self.head / 2;
        let positions = spans
            .iter()
            .flat_map(|span| span.first..span.first + span.rows);
        let angles: Vec<f32> = positions
            .flat_map(|row| {
                let angle = move |i: usize| {
                    let power = -(i as f64) / half as f64;
                    ((row + step) as f64 * THETA.powf(power)) as f32
                };
                (0..half).map(angle)
            })
            .collect();
        let rows = angles.len() / half.max(1);
        let angles = Tensor::from_vec(angles, (rows, 1, half), &Device::Cpu)?;
        Ok((angles.cos()?, angles.sin()?))
    }
}

impl<'p> Layer<'p> {
    pub(super) fn new(shape: LayerShape, parts: &'p [Tensor]) -> Self {
        Self {
            shape,
            parts,
            steps: Vec::new(),
        }
    }

    /// The states that the next step's rows give. `embedded` and `states` are those of all spans,
    /// one below the other.
    pub(super) fn step(
        &mut self,
        spans: &[Span],
        embedded: &Tensor,
        states: &Tensor,
    ) -> Result<Tensor> {
        let (shape, p) = (self.shape, self.parts);
        let joined = Tensor::cat(&[embedded, states], D::Minus1)?;
        let stream = linear(&joined, &p[0])?.broadcast_add(&p[1])?;
        let heads = |matrix: &Tensor, heads: usize| {
            let rows = linear(&stream, matrix)?;
            rows.reshape((rows.dim(0)?, heads, shape.head))
        };
        let rotation = shape.rotation(spans, self.steps.len())?;
        let queries = rotated(&heads(&p[2], shape.queries)?, &rotation)?;
        let keys = rotated(&heads(&p[3], shape.kv)?, &rotation)?;
        let values = heads(&p[4], shape.kv)?;
        self.keep(spans, &keys, &values)?;
        let mut attended = Vec::with_capacity(spans.len());
        let mut at = 0;
        for span in spans {
            attended.push(self.attend(span, &queries.narrow(0, at, span.rows)?)?);
            at += span.rows;
        }
        let attended = Tensor::cat(&attended, 0)?;
        let stream = (stream + linear(&attended, &p[5])?)?;
        let normed = rms_norm(&stream, &p[6], shape.epsilon)?;
        let gate = linear(&normed, &p[7])?.silu()?;
        let inner = (gate * linear(&normed, &p[8])?)?;
        stream + linear(&inner, &p[9])?
    }

    /// Keeps keys and values of a step for those behind it.
    fn keep(&mut self, spans: &[Span], keys: &Tensor, values: &Tensor) -> Result<()> {
        let mut at = 0;
        let mut kept = Vec::with_capacity(spans.len());
        for &span in spans {
            kept.push(KeysValues {
                span,
                keys: keys.narrow(0, at, span.rows)?,
                values: values.narrow(0, at, span.rows)?,
            });
            at += span.rows;
        }
        self.steps.push(kept);
        Ok(())
    }

    /// What the rows of a span read, `[rows, heads · head]`.
    fn attend(&self, span: &Span, queries: &Tensor) -> Result<Tensor> {
        let Span { first, rows, .. } = *span;
        let scale = 1.0 / (self.shape.head as f64).sqrt();
        let seen = first + rows;
        let mut of_text = self
            .steps
            .iter()
            .filter_map(|step| step.iter().find(|kept| kept.span.text == span.text));
        // The first step has the text's rows from 0 on.
        let Some(text) = of_text.next() else {
            return queries.flatten_from(1);
        };
        let by_head = |rows: &Tensor| self.repeated(rows)?.transpose(0, 1)?.contiguous();
        let keys = by_head(&text.keys.narrow(0, 0, seen)?)?;
        let values = by_head(&text.values.narrow(0, 0, seen)?)?;
        let by_query = queries.transpose(0, 1)?.contiguous()?;
        let scores = (by_query.matmul(&keys.transpose(1, 2)?)? * scale)?;
        let mut scores = vec![scores.broadcast_add(&mask(first, rows)?)?];
        let mut own = Vec::new();
        for step in of_text {
            let at = first - step.span.first;
            let keys = by_head(&step.keys.narrow(0, at, rows)?)?;
            scores.push(((&by_query * keys)?.sum_keepdim(D::Minus1)? * scale)?);
            own.push(by_head(&step.values.narrow(0, at, rows)?)?);
        }
        let shares = softmax(&Tensor::cat(&scores, D::Minus1)?)?;
        let mut read = shares
            .narrow(D::Minus1, 0, seen)?
            .contiguous()?
            .matmul(&values)?;
        for (i, values) in own.iter().enumerate() {
            let share = shares.narrow(D::Minus1, seen + i, 1)?;
            read = (read + values.broadcast_mul(&share)?)?;
        }
        read.transpose(0, 1)?.contiguous()?.flatten_from(1)
    }

    /// Heads of keys and values for each head of queries.
    fn repeated(&self, rows: &Tensor) -> Result<Tensor> {
        let LayerShape {
            queries, kv, head, ..
        } = self.shape;
        if queries == kv {
            return Ok(rows.clone());
        }
        let count = rows.dim(0)?;
        let repeated = rows
            .unsqueeze(2)?
            .broadcast_as((count, kv, queries / kv, head))?;
        repeated.contiguous()?.reshape((count, queries, head))
    }
}

/// Which rows of the first step the rows from `first` on see: those up to their own.
fn mask(first: usize, rows: usize) -> Result<Tensor> {
    let seen = first + rows;
    let of = |row: usize| (0..seen).map(move |key| if key > first + row { NOTHING } else { 0.0 });
    let mask: Vec<f32> = (0..rows).flat_map(of).collect();
    Tensor::from_vec(mask, (rows, seen), &Device::Cpu)
}
