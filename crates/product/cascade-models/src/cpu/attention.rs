//! Softmax attention of few rows.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{exp, side_by_side, values};
use crate::readout::with_values;

/// Products of queries and keys from which on attention is worth waking threads.
const PARALLEL_ATTENTION: usize = 1 << 21;

/// Dot products of a row with some columns of the same length. Each is summed in the same order, however many are computed
/// together.
#[inline(always)]
fn dots<S: Simd, const C: usize>(simd: S, row: &[f32], columns: [&[f32]; C]) -> [f32; C] {
    let (row_head, _) = S::as_simd_f32s(row);
    let mut heads: [&[S::f32s]; C] = [&[]; C];
    for (head, column) in heads.iter_mut().zip(columns) {
        *head = &S::as_simd_f32s(column).0[..row_head.len()];
    }
    let mut sums = [simd.splat_f32s(0.0); C];
    for (step, row) in row_head.iter().enumerate() {
        for (sum, head) in sums.iter_mut().zip(heads) {
            *sum = simd.mul_add_e_f32s(*row, head[step], *sum);
        }
    }
    let mut dots = [0.0; C];
    for ((dot, sum), column) in dots.iter_mut().zip(sums).zip(columns) {
        *dot = simd.reduce_sum_f32s(sum);
        for i in row_head.len() * S::F32_LANES..row.len() {
            *dot += row[i] * column[i];
        }
    }
    dots
}

/// Softmax attention, as [`layers::attend`](crate::layers::attend) describes it.
pub(crate) fn attend(
    queries: &Tensor,
    keys_values: &Tensor,
    bias: Option<&Tensor>,
) -> Result<Tensor> {
    queries.apply_op2_no_bwd(keys_values, &AttendOp { bias })
}

struct AttendOp<'a> {
    bias: Option<&'a Tensor>,
}

impl CustomOp2 for AttendOp<'_> {
    fn name(&self) -> &'static str {
        "few-rows-attention"
    }

    fn cpu_fwd(
        &self,
        queries: &CpuStorage,
        queries_layout: &Layout,
        keys_values: &CpuStorage,
        layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (heads, rows, head_dim) = queries_layout.shape().dims3()?;
        let (_, kv_heads, keys, kv_dim) = layout.shape().dims4()?;
        let [plane_stride, head_stride, key_stride, 1] = *layout.stride() else {
            candle_core::bail!("heads of keys and values are not contiguous")
        };
        if head_dim != kv_dim || !heads.is_multiple_of(kv_heads) {
            candle_core::bail!("{heads} heads of {head_dim} do not fit {kv_heads} of {kv_dim}")
        }
        let queries = values(queries, queries_layout)?;
        let stored = &keys_values.as_slice::<f32>()?[layout.start_offset()..];
        let unbiased = Attention {
            queries,
            keys: stored,
            values: &stored[plane_stride..],
            bias: &[],
            bias_step: 0,
            heads: (0, heads),
            shape: AttentionShape {
                group: heads / kv_heads,
                rows,
                head_dim,
                keys,
                head_stride,
                key_stride,
            },
        };
        let mixed = match self.bias {
            None => unbiased.run(),
            Some(bias) => {
                // A bias without heads serves all of them.
                let bias_step = if bias.rank() == 3 { rows * keys } else { 0 };
                with_values(bias, |bias| {
                    let biased = Attention {
                        bias,
                        bias_step,
                        ..unbiased
                    };
                    biased.run()
                })?
            }
        };
        Ok((CpuStorage::F32(mixed), (rows, heads * head_dim).into()))
    }
}

#[derive(Clone, Copy)]
struct AttentionShape {
    /// Query heads per head of keys.
    group: usize,
    rows: usize,
    head_dim: usize,
    keys: usize,
    /// From head to head, and from key to key, in keys and values alike.
    head_stride: usize,
    key_stride: usize,
}

#[derive(Clone, Copy)]
struct Attention<'a> {
    /// `[heads, rows, head_dim]`.
    queries: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    /// `[rows, keys]` for each head, or empty.
    bias: &'a [f32],
    /// From one head's bias to the next.
    bias_step: usize,
    /// Query heads to compute: first and end.
    heads: (usize, usize),
    shape: AttentionShape,
}

impl Attention<'_> {
    /// `[rows, heads * head_dim]`, with several threads if that is worth it.
    fn run(self) -> Vec<f32> {
        let (AttentionShape { rows, keys, .. }, (_, heads)) = (self.shape, self.heads);
        let tasks = rayon::current_num_threads();
        if tasks == 1 || self.queries.len() * keys < PARALLEL_ATTENTION {
            return Arch::new().dispatch(self);
        }
        let share = heads.div_ceil(tasks);
        let parts: Vec<Vec<f32>> = (0..heads.div_ceil(share))
            .into_par_iter()
            .map(|part| (part * share, heads.min((part + 1) * share)))
            .map(|heads| Arch::new().dispatch(Attention { heads, ..self }))
            .collect();
        side_by_side(parts, rows)
    }
}

impl WithSimd for Attention<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let shape = self.shape;
        let (rows, keys, head_dim) = (shape.rows, shape.keys, shape.head_dim);
        let (first, end) = self.heads;
        let mut mixed = vec![0.0; rows * (end - first) * head_dim];
        let mut scores = vec![0.0; keys];
        for head in first..end {
            let kv_start = head / shape.group * shape.head_stride;
            for row in 0..rows {
                let query = (head * rows + row) * head_dim;
                let query = &self.queries[query..query + head_dim];
                score_keys(simd, query, &self.keys[kv_start..], shape, &mut scores);
                if !self.bias.is_empty() {
                    let bias = head * self.bias_step + row * keys;
                    add_to(&mut scores, &self.bias[bias..bias + keys]);
                }
                exponentials(&mut scores);
                let out = (row * (end - first) + head - first) * head_dim;
                let out = &mut mixed[out..out + head_dim];
                mix_values(simd, &scores, &self.values[kv_start..], shape, out);
            }
        }
        mixed
    }
}

/// Dot products of a query with all keys of a head.
#[inline(always)]
fn score_keys<S: Simd>(
    simd: S,
    query: &[f32],
    keys: &[f32],
    shape: AttentionShape,
    scores: &mut [f32],
) {
    let (stride, dim) = (shape.key_stride, query.len());
    let column = |key: usize| &keys[key * stride..key * stride + dim];
    let (chunks, rest) = scores.as_chunks_mut::<TOGETHER>();
    let done = chunks.len() * TOGETHER;
    for (chunk, scores) in chunks.iter_mut().enumerate() {
        let columns = std::array::from_fn(
            #[inline(always)]
            |i| column(chunk * TOGETHER + i),
        );
        *scores = dots(simd, query, columns);
    }
    for (key, score) in (done..).zip(rest) {
        [*score] = dots(simd, query, [column(key)]);
    }
}

/// Keys whose dot products are under way at the same time.
const TOGETHER: usize = 8;

#[inline(always)]
fn add_to(sums: &mut [f32], terms: &[f32]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += term;
    }
}

/// Replaces each score by its exponential, relative to the greatest.
#[inline(always)]
fn exponentials(scores: &mut [f32]) {
    let mut greatest = [f32::NEG_INFINITY; 16];
    let (chunks, rest) = scores.as_chunks::<16>();
    for scores in chunks {
        for (greatest, &score) in greatest.iter_mut().zip(scores) {
            *greatest = if score > *greatest { score } else { *greatest };
        }
    }
    for (greatest, &score) in greatest.iter_mut().zip(rest) {
        *greatest = if score > *greatest { score } else { *greatest };
    }
    let greatest = greatest.into_iter().fold(f32::NEG_INFINITY, f32::max);
    for score in scores {
        *score = exp(*score - greatest);
    }
}

/// The mean of a head's values, weighted by `weights`, of which hidden keys have none. Summed key by key. A weight that
/// is not a number makes a mean that is none, rather than none of the mean.
#[inline(always)]
fn mix_values<S: Simd>(
    simd: S,
    weights: &[f32],
    values: &[f32],
    shape: AttentionShape,
    out: &mut [f32],
) {
    let mut mix = Mix {
        weights,
        values,
        stride: shape.key_stride,
    };
    let (mut vectors, rest) = S::as_mut_simd_f32s(out);
    vectors = mix.vectors::<S, 8>(simd, vectors);
    vectors = mix.vectors::<S, 4>(simd, vectors);
    vectors = mix.vectors::<S, 2>(simd, vectors);
    mix.vectors::<S, 1>(simd, vectors);
    for (i, out) in rest.iter_mut().enumerate() {
        let (mut mixed, mut all) = (0.0, 0.0);
        for (key, &weight) in weights.iter().enumerate() {
            if weight != 0.0 {
                all += weight;
                mixed += weight * mix.values[key * mix.stride + i];
            }
        }
        *out = mixed * (1.0 / all);
    }
}

/// Values of a head's keys on their way into a mean.
struct Mix<'a> {
    weights: &'a [f32],
    /// From the first number on that has not been mixed yet.
    values: &'a [f32],
    stride: usize,
}

impl Mix<'_> {
    /// Mixes as many numbers as groups of `N` vectors hold, whose sums stay in registers, and gives what is left.
    #[inline(always)]
    fn vectors<'o, S: Simd, const N: usize>(
        &mut self,
        simd: S,
        out: &'o mut [S::f32s],
    ) -> &'o mut [S::f32s] {
        let (groups, rest) = out.as_chunks_mut::<N>();
        for group in groups {
            let mut sums = [simd.splat_f32s(0.0); N];
            // Added up here, each time: by itself it would take as long as all of this.
            let mut all = 0.0;
            for (key, &weight) in self.weights.iter().enumerate() {
                if weight != 0.0 {
                    all += weight;
                    let weight = simd.splat_f32s(weight);
                    let start = key * self.stride;
                    let values = &self.values[start..start + N * S::F32_LANES];
                    for (sum, value) in sums.iter_mut().zip(S::as_simd_f32s(values).0) {
                        *sum = simd.add_f32s(*sum, simd.mul_f32s(weight, *value));
                    }
                }
            }
            let scale = simd.splat_f32s(1.0 / all);
            for (out, sum) in group.iter_mut().zip(sums) {
                *out = simd.mul_f32s(sum, scale);
            }
            self.values = &self.values[N * S::F32_LANES..];
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, D};

    use super::super::tests::{assert_close, flat, random};
    use super::*;
    use crate::layers::attend_in_any_type;

    #[test]
    fn attention_of_all_shapes() {
        for (heads, kv_heads, rows, keys, dim) in [
            (1, 1, 1, 1, 1),
            (4, 2, 3, 9, 6),
            (6, 6, 2, 14, 32),
            (5, 5, 130, 100, 40),
        ] {
            let queries = random((heads, rows, dim));
            let store = random((4, kv_heads, keys + 5, dim));
            let keys_values = store.narrow(0, 2, 2).unwrap().narrow(2, 0, keys).unwrap();
            let hide = |bias: Tensor| {
                let hidden = Tensor::full(f32::NEG_INFINITY, bias.dims(), &Device::Cpu).unwrap();
                let visible = bias.ge(-0.5).unwrap();
                let bias = visible.where_cond(&bias, &hidden).unwrap();
                let first = bias.narrow(D::Minus1, 0, 1).unwrap().zeros_like().unwrap();
                let rest = bias.narrow(D::Minus1, 1, keys - 1).unwrap();
                Tensor::cat(&[first, rest], D::Minus1).unwrap()
            };
            for bias in [
                None,
                Some(hide(random((rows, keys)))),
                Some(hide(random((heads, rows, keys)))),
            ] {
                let found = attend(&queries, &keys_values, bias.as_ref()).unwrap();
                let expected = attend_in_any_type(&queries, &keys_values, bias.as_ref()).unwrap();
                assert_close(&found, &expected);
            }
        }
    }

    #[test]
    fn hidden_keys_leave_no_trace() {
        let (queries, keys_values) = (random((2, 1, 10)), random((2, 2, 12, 10)));
        let mask: Vec<f32> = (0..12)
            .map(|i| if i < 7 { 0.0 } else { f32::NEG_INFINITY })
            .collect();
        let mask = Tensor::from_vec(mask, (1, 12), &Device::Cpu).unwrap();
        let masked = attend(&queries, &keys_values, Some(&mask)).unwrap();
        let seen = keys_values.narrow(2, 0, 7).unwrap();
        assert_eq!(flat(&masked), flat(&attend(&queries, &seen, None).unwrap()));
    }
}
