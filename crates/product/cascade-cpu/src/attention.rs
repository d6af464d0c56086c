//! Softmax attention of few rows.
//!
//! Keys and values are read some at a time, for all rows of all heads that see them, so that they
//! come from memory once, and are widened once if they are held in 16 bits.

use cascade_core::exp::exp_clamped as exp;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::kernels::Wide;
use crate::{arch, side_by_side, Isa};

/// Products of queries and keys from which on attention is worth waking threads.
const PARALLEL_ATTENTION: usize = 1 << 21;

/// Keys, and later values, that are read at a time: few enough to stay in the first cache.
const KEYS: usize = 64;

/// Queries that are compared with them at a time.
const QUERIES: usize = 64;

/// Keys or values, in one of the types that caches hold.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// As they were computed.
    F32(&'a [f32]),
    /// Rounded to bf16.
    BF16(&'a [bf16]),
    /// Rounded to f16.
    F16(&'a [f16]),
}

impl<'a> Elements<'a> {
    /// Some of them, where they lie or widened into `room`.
    #[inline(always)]
    pub(crate) fn some<'s>(self, start: usize, count: usize, room: &'s mut Vec<f32>) -> &'s [f32]
    where
        'a: 's,
    {
        match self {
            Self::F32(all) => &all[start..start + count],
            Self::BF16(all) => {
                let widened = all[start..start + count].iter().map(
                    #[inline(always)]
                    |value| f32::from_bits(u32::from(value.to_bits()) << 16),
                );
                room.clear();
                room.extend(widened);
                room
            }
            Self::F16(all) => {
                room.resize(count, 0.0);
                all[start..start + count].convert_to_f32_slice(room);
                room
            }
        }
    }
}

/// Keys and values of the heads of one layer, `[heads, count, head_dim]` each.
#[derive(Clone, Copy, Debug)]
pub struct KeysValues<'a> {
    /// What queries are compared with.
    pub keys: Elements<'a>,
    /// What is mixed.
    pub values: Elements<'a>,
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
        keys_values,
        bias,
        bias_step,
        heads: (0, heads),
        shape: AttentionShape {
            group: heads / keys_values.heads,
            rows,
            head_dim,
        },
        wide: Wide::of(Isa::current()).filter(|_| head_dim.is_multiple_of(16)),
    };
    attention.run()
}

#[derive(Clone, Copy)]
struct AttentionShape {
    /// Query heads per head of keys.
    group: usize,
    rows: usize,
    head_dim: usize,
}

#[derive(Clone, Copy)]
struct Attention<'a> {
    /// `[heads, rows, head_dim]`.
    queries: &'a [f32],
    keys_values: KeysValues<'a>,
    /// `[rows, keys]` for each head, or empty.
    bias: &'a [f32],
    /// From one head's bias to the next.
    bias_step: usize,
    /// Query heads to compute: first and end.
    heads: (usize, usize),
    shape: AttentionShape,
    wide: Option<Wide>,
}

impl<'a> Attention<'a> {
    /// `[rows, heads * head_dim]`, with several threads if that is worth it.
    fn run(self) -> Vec<f32> {
        let (rows, keys, (_, heads)) = (self.shape.rows, self.keys_values.count, self.heads);
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

    /// What is added to the scores of a query; nothing at all if it is empty.
    fn bias_of(&self, head: usize, row: usize) -> &'a [f32] {
        let keys = self.keys_values.count;
        match self.bias {
            [] => &[],
            bias => &bias[head * self.bias_step + row * keys..][..keys],
        }
    }

    fn query(&self, head: usize, row: usize) -> Query<'a> {
        let dim = self.shape.head_dim;
        let bias = self.bias_of(head, row);
        // The last keys are often hidden: of a chunk of a prompt, from all rows but the last.
        let visible = bias.iter().rposition(|&bias| bias != f32::NEG_INFINITY);
        Query {
            values: &self.queries[(head * self.shape.rows + row) * dim..][..dim],
            visible: visible.map_or(self.keys_values.count, |last| last + 1),
            bias,
            to: (row * (self.heads.1 - self.heads.0) + head - self.heads.0) * dim,
        }
    }
}

/// A row of a head.
#[derive(Clone, Copy)]
struct Query<'a> {
    values: &'a [f32],
    /// No key from here on is seen; all, if none is.
    visible: usize,
    bias: &'a [f32],
    /// Where its answer begins.
    to: usize,
}

impl WithSimd for Attention<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let AttentionShape {
            group,
            rows,
            head_dim,
        } = self.shape;
        let (first, end) = self.heads;
        let mut mixed = vec![0.0; rows * (end - first) * head_dim];
        let mut room = Room::default();
        let mut start = first;
        while start < end {
            // Heads of queries that share one of keys.
            let stop = end.min((start / group + 1) * group);
            let queries = (start..stop).flat_map(|head| (0..rows).map(move |row| (head, row)));
            let queries: Vec<_> = queries.map(|(head, row)| self.query(head, row)).collect();
            for queries in queries.chunks(QUERIES) {
                self.block(simd, start / group, queries, &mut room, &mut mixed);
            }
            start = stop;
        }
        mixed
    }
}

/// Memory that blocks use one after the other.
#[derive(Default)]
struct Room {
    widened: Vec<f32>,
    /// `[queries, keys]`.
    scores: Vec<f32>,
}

impl Room {
    /// With room for the scores of a block, which may be anything.
    fn reserve(&mut self, scores: usize) {
        if self.scores.len() < scores {
            self.scores.resize(scores, 0.0);
        }
    }
}

impl Attention<'_> {
    /// Answers queries that see the same head of keys.
    #[inline(always)]
    fn block<S: Simd>(
        &self,
        simd: S,
        head: usize,
        queries: &[Query<'_>],
        room: &mut Room,
        mixed: &mut [f32],
    ) {
        let (dim, keys) = (self.shape.head_dim, self.keys_values.count);
        room.reserve(queries.len() * keys);
        let Room { widened, scores } = room;
        let most = queries.iter().map(|query| query.visible).max().unwrap_or(0);
        let start = head * self.keys_values.head_stride;
        for first in (0..most).step_by(KEYS) {
            let count = KEYS.min(most - first);
            let elements = self.keys_values.keys;
            let keys_here = elements.some(start + first * dim, count * dim, widened);
            for (query, scores) in queries.iter().zip(scores.chunks_exact_mut(keys)) {
                let end = query.visible.clamp(first, first + count);
                score_keys(
                    simd,
                    self.wide,
                    query.values,
                    keys_here,
                    &mut scores[first..end],
                );
            }
        }
        for (query, scores) in queries.iter().zip(scores.chunks_exact_mut(keys)) {
            let scores = &mut scores[..query.visible];
            if !query.bias.is_empty() {
                add_to(scores, &query.bias[..query.visible]);
            }
            exponentials(scores);
        }
        let mut weights = [0.0; QUERIES];
        for first in (0..most).step_by(KEYS) {
            let count = KEYS.min(most - first);
            let elements = self.keys_values.values;
            let values = elements.some(start + first * dim, count * dim, widened);
            let scores = scores.chunks_exact(keys).zip(weights.iter_mut());
            for (query, (scores, sum)) in queries.iter().zip(scores) {
                let end = query.visible.clamp(first, first + count);
                let out = &mut mixed[query.to..query.to + dim];
                *sum = mix_values(simd, &scores[first..end], values, *sum, out);
            }
        }
        for (query, sum) in queries.iter().zip(weights) {
            let scale = 1.0 / sum;
            for out in &mut mixed[query.to..query.to + dim] {
                *out *= scale;
            }
        }
    }
}

/// Dot products of a query with as many keys as there are scores.
#[inline(always)]
fn score_keys<S: Simd>(
    simd: S,
    wide: Option<Wide>,
    query: &[f32],
    keys: &[f32],
    scores: &mut [f32],
) {
    let dim = query.len();
    let mut done = 0;
    if let Some(wide) = wide {
        for scores in scores.as_chunks_mut::<16>().0 {
            wide.scores(query, &keys[done * dim..], scores);
            done += 16;
        }
    }
    let column = |key: usize| &keys[key * dim..(key + 1) * dim];
    let (chunks, rest) = scores[done..].as_chunks_mut::<TOGETHER>();
    for scores in chunks {
        let columns = std::array::from_fn(
            #[inline(always)]
            |i| column(done + i),
        );
        *scores = dots(simd, query, columns);
        done += TOGETHER;
    }
    for (key, score) in (done..).zip(rest) {
        [*score] = dots(simd, query, [column(key)]);
    }
}

/// Keys whose dot products are under way at the same time.
const TOGETHER: usize = 8;

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

/// Adds values, weighted by as many `weights`, to `out`; hidden keys have no weight. Summed key by
/// key. Gives `sum` and all weights. One that is NaN makes all of it NaN.
#[inline(always)]
fn mix_values<S: Simd>(simd: S, weights: &[f32], values: &[f32], sum: f32, out: &mut [f32]) -> f32 {
    let mut mix = Mix {
        weights,
        values,
        stride: out.len(),
        before: sum,
        after: sum,
    };
    let (mut vectors, rest) = S::as_mut_simd_f32s(out);
    vectors = mix.vectors::<S, 8>(simd, vectors);
    vectors = mix.vectors::<S, 4>(simd, vectors);
    vectors = mix.vectors::<S, 2>(simd, vectors);
    mix.vectors::<S, 1>(simd, vectors);
    for (i, out) in rest.iter_mut().enumerate() {
        mix.after = mix.before;
        for (key, &weight) in weights.iter().enumerate() {
            if weight != 0.0 {
                mix.after += weight;
                *out += weight * mix.values[key * mix.stride + i];
            }
        }
    }
    mix.after
}

/// Values of a head's keys on their way into a mean.
struct Mix<'a> {
    weights: &'a [f32],
    /// From the first element on that has not been mixed yet.
    values: &'a [f32],
    stride: usize,
    /// The sum of the weights of earlier keys.
    before: f32,
    /// That, and these. Added up again for each group of vectors: by itself it would take as long
    /// as all of this.
    after: f32,
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
            let mut sums = *group;
            let mut all = self.before;
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
            *group = sums;
            self.after = all;
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
        let of_head = |values: Elements<'_>, head: usize, key: usize, i: usize| {
            let at = head / (heads / kv.heads) * kv.head_stride + key * dim + i;
            f64::from(values.some(at, 1, &mut Vec::new())[0])
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

    fn rounded<T>(values: &[f32], round: fn(f32) -> T) -> Vec<T> {
        values.iter().map(|&value| round(value)).collect()
    }

    #[test]
    fn rows_do_not_see_each_other() {
        for (heads, kv_heads, rows, count, dim) in [(8, 2, 70, 200, 64), (3, 3, 19, 131, 24)] {
            let queries = random(heads * rows * dim);
            let (keys, values) = (
                random(kv_heads * count * dim),
                random(kv_heads * count * dim + 1),
            );
            let mut bias = random(rows * count);
            for (row, bias) in bias.chunks_exact_mut(count).enumerate() {
                bias[count - rows + row + 1..].fill(f32::NEG_INFINITY);
            }
            let halves = (
                rounded(&keys, bf16::from_f32),
                rounded(&values[1..], bf16::from_f32),
            );
            for (keys, values) in [
                (Elements::F32(&keys), Elements::F32(&values[1..])),
                (Elements::BF16(&halves.0), Elements::BF16(&halves.1)),
            ] {
                let kv = KeysValues {
                    keys,
                    values,
                    heads: kv_heads,
                    count,
                    head_stride: count * dim,
                };
                let all = attend(&queries, heads, dim, kv, ScoreBias::Shared(&bias));
                for (row, all) in all.chunks_exact(heads * dim).enumerate() {
                    let of_row = |head: usize| &queries[(head * rows + row) * dim..][..dim];
                    let query: Vec<f32> = (0..heads).flat_map(of_row).copied().collect();
                    let count = count - rows + row + 1;
                    let bias = &bias[row * kv.count..][..count];
                    let kv = KeysValues { count, ..kv };
                    let alone = attend(&query, heads, dim, kv, ScoreBias::Shared(bias));
                    assert_eq!(all, alone, "row {row}");
                }
            }
        }
    }

    #[test]
    fn sixteen_keys_have_the_bits_of_one() {
        let Some(wide) = Wide::of(Isa::current()) else {
            return;
        };
        for dim in [16, 64, 80, 128] {
            let (query, keys) = (random(dim), random(16 * dim));
            let mut found = [0.0; 16];
            wide.scores(&query, &keys, &mut found);
            for (key, found) in keys.chunks_exact(dim).zip(found) {
                struct One<'a>(&'a [f32], &'a [f32]);
                impl WithSimd for One<'_> {
                    type Output = f32;
                    fn with_simd<S: Simd>(self, simd: S) -> f32 {
                        let [dot] = dots(simd, self.0, [self.1]);
                        dot
                    }
                }
                assert_eq!(arch().dispatch(One(&query, key)), found);
            }
        }
    }

    #[test]
    fn attention_of_all_shapes() {
        for (heads, kv_heads, rows, count, dim) in [
            (1, 1, 1, 1, 1),
            (4, 2, 3, 9, 6),
            (6, 6, 2, 14, 32),
            (5, 5, 130, 100, 40),
            (4, 1, 20, 150, 64),
            (2, 2, 3, 67, 80),
        ] {
            let queries = random(heads * rows * dim);
            // Heads with room for more keys than there are.
            let head_stride = (count + 5) * dim;
            let (keys, values) = (
                random(kv_heads * head_stride),
                random(kv_heads * head_stride + 1),
            );
            let kv = KeysValues {
                keys: Elements::F32(&keys),
                values: Elements::F32(&values[1..]),
                heads: kv_heads,
                count,
                head_stride,
            };
            let bf16s = (
                rounded(&keys, bf16::from_f32),
                rounded(&values[1..], bf16::from_f32),
            );
            let f16s = (
                rounded(&keys, f16::from_f32),
                rounded(&values[1..], f16::from_f32),
            );
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
                for (keys, values) in [
                    (Elements::BF16(&bf16s.0), Elements::BF16(&bf16s.1)),
                    (Elements::F16(&f16s.0), Elements::F16(&f16s.1)),
                ] {
                    let kv = KeysValues { keys, values, ..kv };
                    let found = attend(&queries, heads, dim, kv, bias);
                    assert_close(&found, &exact(&queries, (heads, dim), kv, bias), 5e-5);
                }
            }
        }
    }

    #[test]
    fn hidden_keys_leave_no_trace() {
        let (queries, keys, values) = (random(20), random(2 * 120), random(2 * 120 + 1));
        let kv = |count| KeysValues {
            keys: Elements::F32(&keys),
            values: Elements::F32(&values[1..]),
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
