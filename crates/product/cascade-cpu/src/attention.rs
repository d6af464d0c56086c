//! Softmax attention of few rows.

use cascade_core::exp::exp_clamped as exp;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::{arch, side_by_side};

/// Products of queries and keys from which on attention is worth waking threads.
const PARALLEL_ATTENTION: usize = 1 << 21;

/// Dot products of a row with some columns of the same length. Each is summed in the same order,
/// however many are computed together.
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

/// Keys and values of the heads of one layer, `[heads, count, head_dim]` each.
#[derive(Clone, Copy, Debug)]
pub struct KeysValues<'a> {
    /// What queries are compared with.
    pub keys: &'a [f32],
    /// What is mixed.
    pub values: &'a [f32],
    /// Number of heads.
    pub heads: usize,
    /// Keys of each head.
    pub count: usize,
    /// Elements from head to head.
    pub head_stride: usize,
}

/// What is added to the scores of rows and keys; −∞ hides a key from a row.
#[derive(Clone, Copy, Debug)]
pub enum ScoreBias<'a> {
    /// Nothing.
    None,
    /// `[rows, keys]`, the same for all heads.
    Shared(&'a [f32]),
    /// `[heads, rows, keys]`.
    PerHead(&'a [f32]),
}

/// Softmax attention without scaling of scores, with several threads if that is worth it.
///
/// `queries` is `[heads, rows, head_dim]`; each head of keys and values serves as many consecutive
/// heads of queries. Gives `[rows, heads * head_dim]`.
pub fn attend(
    queries: &[f32],
    heads: usize,
    head_dim: usize,
    keys_values: KeysValues<'_>,
    bias: ScoreBias<'_>,
) -> Vec<f32> {
    let (rows, keys) = (queries.len() / (heads * head_dim), keys_values.count);
    let (bias, bias_step) = match bias {
        ScoreBias::None => (&[][..], 0),
        ScoreBias::Shared(bias) => (bias, 0),
        ScoreBias::PerHead(bias) => (bias, rows * keys),
    };
    let attention = Attention {
        queries,
        keys: keys_values.keys,
        values: keys_values.values,
        bias,
        bias_step,
        heads: (0, heads),
        shape: AttentionShape {
            group: heads / keys_values.heads,
            rows,
            head_dim,
            keys,
            head_stride: keys_values.head_stride,
        },
    };
    attention.run()
}

#[derive(Clone, Copy)]
struct AttentionShape {
    /// Query heads per head of keys.
    group: usize,
    rows: usize,
    head_dim: usize,
    keys: usize,
    /// From head to head, in keys and values alike.
    head_stride: usize,
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
            return arch().dispatch(self);
        }
        let share = heads.div_ceil(tasks);
        let parts: Vec<Vec<f32>> = (0..heads.div_ceil(share))
            .into_par_iter()
            .map(|part| (part * share, heads.min((part + 1) * share)))
            .map(|heads| arch().dispatch(Attention { heads, ..self }))
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
    let dim = shape.head_dim;
    let column = |key: usize| &keys[key * dim..(key + 1) * dim];
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

/// The mean of a head's values, weighted by `weights`, of which hidden keys have none. Summed key
/// by key. A weight that is NaN makes the mean NaN.
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
        stride: shape.head_dim,
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
    /// From the first element on that has not been mixed yet.
    values: &'a [f32],
    stride: usize,
}

impl Mix<'_> {
    /// Mixes as many elements as groups of `N` vectors hold, whose sums stay in registers, and
    /// gives what is left.
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
    use super::super::tests::{assert_close, random};
    use super::*;

    /// The same in f64, straight from the definition.
    fn exact(
        queries: &[f32],
        (heads, dim): (usize, usize),
        kv: KeysValues<'_>,
        bias: ScoreBias<'_>,
    ) -> Vec<f64> {
        let rows = queries.len() / (heads * dim);
        let of_head = |values: &[f32], head: usize, key: usize, i: usize| {
            let head = head / (heads / kv.heads);
            f64::from(values[head * kv.head_stride + key * dim + i])
        };
        let mut out = vec![0.0; rows * heads * dim];
        for (head, row) in (0..heads).flat_map(|head| (0..rows).map(move |row| (head, row))) {
            let query = &queries[(head * rows + row) * dim..][..dim];
            let weight = |key: usize| {
                let added = match bias {
                    ScoreBias::None => 0.0,
                    ScoreBias::Shared(bias) => bias[row * kv.count + key],
                    ScoreBias::PerHead(bias) => bias[(head * rows + row) * kv.count + key],
                };
                let products =
                    (0..dim).map(|i| f64::from(query[i]) * of_head(kv.keys, head, key, i));
                (products.sum::<f64>() + f64::from(added)).exp()
            };
            let weights: Vec<f64> = (0..kv.count).map(weight).collect();
            let all: f64 = weights.iter().sum();
            for i in 0..dim {
                let values =
                    (0..kv.count).map(|key| weights[key] * of_head(kv.values, head, key, i));
                out[(row * heads + head) * dim + i] = values.sum::<f64>() / all;
            }
        }
        out
    }

    #[test]
    fn attention_of_all_shapes() {
        for (heads, kv_heads, rows, count, dim) in [
            (1, 1, 1, 1, 1),
            (4, 2, 3, 9, 6),
            (6, 6, 2, 14, 32),
            (5, 5, 130, 100, 40),
        ] {
            let queries = random(heads * rows * dim);
            // Heads with room for more keys than there are.
            let head_stride = (count + 5) * dim;
            let (keys, values) = (
                random(kv_heads * head_stride),
                random(kv_heads * head_stride + 1),
            );
            let kv = KeysValues {
                keys: &keys,
                values: &values[1..],
                heads: kv_heads,
                count,
                head_stride,
            };
            let hide = |mut bias: Vec<f32>| {
                for row in bias.chunks_mut(count) {
                    row[0] = 0.0;
                    let hidden = row.iter_mut().filter(|bias| **bias < -0.5);
                    hidden.for_each(|bias| *bias = f32::NEG_INFINITY);
                }
                bias
            };
            let (shared, own) = (
                hide(random(rows * count)),
                hide(random(heads * rows * count)),
            );
            for bias in [
                ScoreBias::None,
                ScoreBias::Shared(&shared),
                ScoreBias::PerHead(&own),
            ] {
                let found = attend(&queries, heads, dim, kv, bias);
                assert_close(&found, &exact(&queries, (heads, dim), kv, bias), 5e-5);
            }
        }
    }

    #[test]
    fn hidden_keys_leave_no_trace() {
        let (queries, keys, values) = (random(20), random(2 * 120), random(2 * 120 + 1));
        let kv = |count| KeysValues {
            keys: &keys,
            values: &values[1..],
            heads: 2,
            count,
            head_stride: 120,
        };
        let mut mask = [0.0; 12];
        mask[7..].fill(f32::NEG_INFINITY);
        let masked = attend(&queries, 2, 10, kv(12), ScoreBias::Shared(&mask));
        assert_eq!(masked, attend(&queries, 2, 10, kv(7), ScoreBias::None));
    }
}
