//! Softmax attention of few rows.
//!
//! Keys and values are read some at a time, for all rows of all heads that see them, so that they
//! come from memory once, and are widened once if they are held in 16 bits.

use cascade_core::exp::exp_clamped as exp;
use pulp::{Simd, WithSimd};

use crate::cache::{KeysValues, KvPart, PAGE_SLOTS};
use crate::kernels::Wide;
use crate::threads::map;
use crate::{Isa, arch, side_by_side, threads};

/// Keys, and later values, that are read at a time: few enough to stay in the first cache.
const KEYS: usize = 64;

// They lie in one page.
const _: () = assert!(PAGE_SLOTS.is_multiple_of(KEYS));

/// Queries that are compared with them at a time: many, for which they are read once, or, if keys
/// and values of a head stay in the second cache, so few that scores stay in the first.
const QUERIES: usize = 64;
const FEW_QUERIES: usize = 24;

/// Bytes of keys and values that stay there.
const IN_CACHE: usize = 1 << 18;

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

/// Queries of one text, and what they attend to.
#[derive(Clone, Copy, Debug)]
pub struct TextAttention<'a> {
    /// `[heads, rows, head_dim]`.
    pub queries: &'a [f32],
    /// Each head of keys and values serves as many consecutive heads of queries.
    pub keys_values: KeysValues<'a>,
    /// What is added to scores.
    pub bias: ScoreBias<'a>,
}

/// Softmax attention of texts without scaling of scores, each to its own keys and values: threads
/// share the work of all of them if that is worth it. Gives
/// `[rows of all texts, heads * head_dim]`, text after text, with the bits that each has alone.
pub fn attend_texts(texts: Vec<TextAttention<'_>>, heads: usize, head_dim: usize) -> Vec<f32> {
    let texts: Vec<_> = texts
        .into_iter()
        .map(|text| Attention::new(text, heads, head_dim))
        .collect();
    let all = texts.iter().map(Attention::duration).sum();
    let threads = threads::waiting_threads(all);
    let pieces: Vec<Attention<'_>> = texts
        .iter()
        .flat_map(|text| text.pieces(threads, all))
        .collect();
    let mut done = map(threads, pieces, |piece| arch().dispatch(piece)).into_iter();
    joined(texts.iter().map(|text| {
        let pieces = done.by_ref().take(text.pieces(threads, all).len());
        side_by_side(pieces.collect(), text.rows)
    }))
}

/// Rows of texts, one after the other; of a single one without a copy.
fn joined(mut texts: impl Iterator<Item = Vec<f32>>) -> Vec<f32> {
    let mut rows = texts.next().unwrap_or_default();
    texts.for_each(|more| rows.extend(more));
    rows
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
    /// Query heads per head of keys.
    group: usize,
    rows: usize,
    head_dim: usize,
    wide: Option<Wide>,
}

impl<'a> Attention<'a> {
    fn new(text: TextAttention<'a>, heads: usize, head_dim: usize) -> Self {
        let TextAttention {
            queries,
            keys_values,
            bias,
        } = text;
        let (rows, keys) = (queries.len() / (heads * head_dim), keys_values.count);
        let (bias, bias_step) = match bias {
            ScoreBias::None => (&[][..], 0),
            ScoreBias::Shared(bias) => (bias, 0),
            ScoreBias::PerHead(bias) => (bias, rows * keys),
        };
        Self {
            queries,
            keys_values,
            bias,
            bias_step,
            heads: (0, heads),
            group: heads / keys_values.heads(),
            rows,
            head_dim,
            wide: Wide::of(Isa::current()).filter(|_| head_dim.is_multiple_of(16)),
        }
    }

    /// Estimated single-thread time in ns: of a nanosecond, 20 products of a query's element with a
    /// key's, or 3 elements of keys and values that come from memory.
    fn duration(&self) -> usize {
        let keys = self.keys_values.count;
        let elements = 2 * self.keys_values.heads() * keys * self.head_dim;
        self.queries.len() * keys / 20 + elements / 3
    }

    /// The heads of a text in pieces that threads take one at a time, where the attention of all
    /// texts takes `all` ns.
    fn pieces(self, threads: usize, all: usize) -> impl ExactSizeIterator<Item = Self> {
        let (_, heads) = self.heads;
        let share = if threads > 1 {
            self.share(threads, all)
        } else {
            heads
        };
        (0..heads.div_ceil(share)).map(move |piece| Self {
            heads: (piece * share, heads.min((piece + 1) * share)),
            ..self
        })
    }

    /// How many heads a thread takes at a time: few, so that one that is busy with something else
    /// holds up few; those that share a head of keys stay together if threads then have as many as
    /// each other.
    fn share(&self, threads: usize, all: usize) -> usize {
        let (_, heads) = self.heads;
        let pieces = (4 * threads * self.duration()).div_ceil(all.max(1)).max(1);
        let of_keys = self.keys_values.heads();
        if of_keys.is_multiple_of(threads.min(pieces)) || of_keys >= 4 * threads {
            heads.div_ceil(pieces).next_multiple_of(self.group)
        } else {
            heads.div_ceil(threads)
        }
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
        let dim = self.head_dim;
        let bias = self.bias_of(head, row);
        // The last keys are often hidden: of a chunk of a prompt, from all rows but the last.
        let visible = bias.iter().rposition(|&bias| bias != f32::NEG_INFINITY);
        Query {
            values: &self.queries[(head * self.rows + row) * dim..][..dim],
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
    /// Where the answer of the query begins.
    to: usize,
}

impl WithSimd for Attention<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        let Self {
            group,
            rows,
            head_dim,
            ..
        } = self;
        let (first, end) = self.heads;
        let mut mixed = vec![0.0; rows * (end - first) * head_dim];
        let mut room = Room::default();
        let at_once = match 2 * self.keys_values.count * head_dim * size_of::<f32>() {
            0..=IN_CACHE => FEW_QUERIES,
            _ => QUERIES,
        };
        let mut start = first;
        while start < end {
            // Heads of queries that share one of keys.
            let stop = end.min((start / group + 1) * group);
            let queries: Vec<_> = (start..stop)
                .flat_map(|head| (0..rows).map(move |row| (head, row)))
                .map(|(head, row)| self.query(head, row))
                .collect();
            for queries in queries.chunks(at_once) {
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
        let (dim, keys) = (self.head_dim, self.keys_values.count);
        room.reserve(queries.len() * keys);
        let Room { widened, scores } = room;
        let most = queries.iter().map(|query| query.visible).max().unwrap_or(0);
        for first in (0..most).step_by(KEYS) {
            let slots = first..most.min(first + KEYS);
            let scored = Scored {
                queries,
                keys: self.keys_values.widened(KvPart::Keys, head, slots, widened),
                first,
                width: keys,
            };
            scored.score(simd, self.wide, scores);
        }
        for (query, scores) in queries.iter().zip(scores.chunks_exact_mut(keys)) {
            let (scores, hidden) = scores[..most].split_at_mut(query.visible);
            if !query.bias.is_empty() {
                add_to(scores, &query.bias[..query.visible]);
            }
            exponentials(scores);
            hidden.fill(0.0);
        }
        let mut sums = [0.0; QUERIES];
        for first in (0..most).step_by(KEYS) {
            let slots = first..most.min(first + KEYS);
            let weighted = Weighted {
                queries,
                weights: scores,
                values: self
                    .keys_values
                    .widened(KvPart::Values, head, slots, widened),
                first,
                width: keys,
                dim,
            };
            weighted.mix(simd, &mut sums, mixed);
        }
        for (query, sum) in queries.iter().zip(sums) {
            let scale = 1.0 / sum;
            for out in &mut mixed[query.to..query.to + dim] {
                *out *= scale;
            }
        }
    }
}

/// Queries and some keys that they are compared with.
struct Scored<'a> {
    queries: &'a [Query<'a>],
    keys: &'a [f32],
    /// The number of the first of these keys.
    first: usize,
    /// Scores from query to query.
    width: usize,
}

impl Scored<'_> {
    /// Dot products of each query with the keys that it sees. Scores of others may be anything.
    #[inline(always)]
    fn score<S: Simd>(&self, simd: S, wide: Option<Wide>, scores: &mut [f32]) {
        let together = if wide.is_some() { 4 } else { 2 };
        let rows = scores.chunks_mut(together * self.width);
        for (queries, scores) in self.queries.chunks(together).zip(rows) {
            let done = match (wide, queries) {
                (Some(wide), [a, b, c, d]) => self.score_four(wide, [a, b, c, d], scores),
                (None, [a, b]) => self.score_two(simd, [a, b], scores),
                _ => 0,
            };
            for (query, scores) in queries.iter().zip(scores.chunks_mut(self.width)) {
                let seen = self.seen(query);
                if done < seen {
                    let keys = &self.keys[done * query.values.len()..];
                    let scores = &mut scores[self.first..][done..seen];
                    score_keys(simd, wide, query.values, keys, scores);
                }
            }
        }
    }

    /// How many of the keys a query sees, from the first one.
    #[inline(always)]
    fn seen(&self, query: &Query<'_>) -> usize {
        let here = self.keys.len() / query.values.len();
        query.visible.saturating_sub(self.first).min(here)
    }

    /// Compares four queries with as many of the keys as one of them sees, but for at most three,
    /// and says with how many.
    #[inline(always)]
    fn score_four(&self, wide: Wide, queries: [&Query<'_>; 4], scores: &mut [f32]) -> usize {
        let seen = queries.map(
            #[inline(always)]
            |query| self.seen(query),
        );
        let count = seen.into_iter().max().unwrap_or(0) / 4 * 4;
        let queries = queries.map(
            #[inline(always)]
            |query| query.values,
        );
        let keys = &self.keys[..count * queries[0].len()];
        wide.scores_of_four(queries, keys, &mut scores[self.first..], self.width);
        count
    }

    /// Scores of two queries, without instructions of their own.
    #[inline(always)]
    fn score_two<S: Simd>(&self, simd: S, queries: [&Query<'_>; 2], scores: &mut [f32]) -> usize {
        let [a, b] = queries;
        let dim = a.values.len();
        let (of_a, of_b) = scores.split_at_mut(self.width);
        let count = self.seen(a).max(self.seen(b)) / 4 * 4;
        let (of_a, of_b) = (
            &mut of_a[self.first..][..count],
            &mut of_b[self.first..][..count],
        );
        let both = of_a
            .as_chunks_mut::<4>()
            .0
            .iter_mut()
            .zip(of_b.as_chunks_mut::<4>().0);
        for (keys, (of_a, of_b)) in self.keys.chunks_exact(4 * dim).zip(both) {
            let keys = std::array::from_fn(
                #[inline(always)]
                |i| &keys[i * dim..(i + 1) * dim],
            );
            [*of_a, *of_b] = dots::<S, 2, 4>(simd, [a.values, b.values], keys);
        }
        count
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
        [*scores] = dots(simd, [query], columns);
        done += TOGETHER;
    }
    for (key, score) in (done..).zip(rest) {
        [[*score]] = dots(simd, [query], [column(key)]);
    }
}

/// Keys whose dot products are under way at the same time.
const TOGETHER: usize = 8;

/// Dot products of some rows with some columns, all of the same length. Each is summed in the same
/// order, however many are computed together.
#[inline(always)]
fn dots<S: Simd, const R: usize, const C: usize>(
    simd: S,
    rows: [&[f32]; R],
    columns: [&[f32]; C],
) -> [[f32; C]; R] {
    let steps = S::as_simd_f32s(rows[0]).0.len();
    let row_heads = rows.map(
        #[inline(always)]
        |row| &S::as_simd_f32s(row).0[..steps],
    );
    let column_heads = columns.map(
        #[inline(always)]
        |column| &S::as_simd_f32s(column).0[..steps],
    );
    let mut sums = [[simd.splat_f32s(0.0); C]; R];
    for step in 0..steps {
        for (sums, row) in sums.iter_mut().zip(row_heads) {
            for (sum, column) in sums.iter_mut().zip(column_heads) {
                *sum = simd.mul_add_e_f32s(row[step], column[step], *sum);
            }
        }
    }
    let mut dots = [[0.0; C]; R];
    for ((dots, sums), row) in dots.iter_mut().zip(sums).zip(rows) {
        for ((dot, sum), column) in dots.iter_mut().zip(sums).zip(columns) {
            *dot = simd.reduce_sum_f32s(sum);
            for i in steps * S::F32_LANES..row.len() {
                *dot += row[i] * column[i];
            }
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

/// Queries and the values of some keys, which each weighs in its own way.
struct Weighted<'a> {
    queries: &'a [Query<'a>],
    /// `[queries, width]`.
    weights: &'a [f32],
    /// `[keys, dim]`.
    values: &'a [f32],
    /// The number of the first of these keys.
    first: usize,
    width: usize,
    dim: usize,
}

impl Weighted<'_> {
    /// Adds weighted values to the answers of all queries, and weights to their `sums`.
    #[inline(always)]
    fn mix<S: Simd>(&self, simd: S, sums: &mut [f32; QUERIES], mixed: &mut [f32]) {
        // Sums of four queries take registers that not all CPUs have.
        let (fours, rest) = if S::REGISTER_COUNT > 16 {
            self.queries.as_chunks::<4>()
        } else {
            (&[][..], self.queries)
        };
        let (sums_of_fours, sums) = sums.split_at_mut(4 * fours.len());
        let sums_of_fours = sums_of_fours.as_chunks_mut().0;
        for (i, (queries, sums)) in fours.iter().zip(sums_of_fours).enumerate() {
            self.mix_some(4 * i, queries).add(simd, sums, mixed);
        }
        let sums = sums.as_chunks_mut().0;
        for (i, (query, sum)) in rest.as_chunks().0.iter().zip(sums).enumerate() {
            self.mix_some::<1>(4 * fours.len() + i, query)
                .add(simd, sum, mixed);
        }
    }

    /// `Q` queries from number `at` on.
    #[inline(always)]
    fn mix_some<const Q: usize>(&self, at: usize, queries: &[Query<'_>; Q]) -> Mix<'_, Q> {
        let count = self.values.len() / self.dim;
        Mix {
            weights: std::array::from_fn(
                #[inline(always)]
                |i| &self.weights[(at + i) * self.width + self.first..][..count],
            ),
            values: self.values,
            dim: self.dim,
            to: queries.map(
                #[inline(always)]
                |query| query.to,
            ),
        }
    }
}

/// Values of some keys on their way into the answers of `Q` queries, which read them together.
struct Mix<'a, const Q: usize> {
    /// Weights of each query, one for each key; 0 for hidden keys.
    weights: [&'a [f32]; Q],
    /// `[keys, dim]`.
    values: &'a [f32],
    dim: usize,
    /// Where the answer of each query begins.
    to: [usize; Q],
}

impl<const Q: usize> Mix<'_, Q> {
    /// Adds weighted values to the answers, and weights to their `sums`; hidden keys are passed
    /// over. Summed key by key. A weight that is NaN makes all of its query NaN.
    #[inline(always)]
    fn add<S: Simd>(&self, simd: S, sums: &mut [f32; Q], mixed: &mut [f32]) {
        let before = *sums;
        let mut at = 0;
        // As many sums as registers hold beside values and weights.
        if Q == 1 {
            self.vectors::<S, 8>(simd, &mut at, before, sums, mixed);
        }
        self.vectors::<S, 4>(simd, &mut at, before, sums, mixed);
        self.vectors::<S, 2>(simd, &mut at, before, sums, mixed);
        self.vectors::<S, 1>(simd, &mut at, before, sums, mixed);
        for i in at..self.dim {
            for query in 0..Q {
                sums[query] = before[query];
                let out = &mut mixed[self.to[query] + i];
                for (key, &weight) in self.weights[query].iter().enumerate() {
                    if weight != 0.0 {
                        sums[query] += weight;
                        *out += weight * self.values[key * self.dim + i];
                    }
                }
            }
        }
    }

    /// Adds elements from `at` on, as many as groups of `N` vectors hold, whose sums stay in
    /// registers. Weights are added up again for each group: by itself it would take as long as all
    /// of this.
    #[inline(always)]
    fn vectors<S: Simd, const N: usize>(
        &self,
        simd: S,
        at: &mut usize,
        before: [f32; Q],
        sums: &mut [f32; Q],
        mixed: &mut [f32],
    ) {
        let width = N * S::F32_LANES;
        while *at + width <= self.dim {
            let mut group = [[simd.splat_f32s(0.0); N]; Q];
            for (group, to) in group.iter_mut().zip(self.to) {
                let out = S::as_simd_f32s(&mixed[to + *at..][..width]).0;
                group.iter_mut().zip(out).for_each(
                    #[inline(always)]
                    |(sum, out)| *sum = *out,
                );
            }
            *sums = self.weigh::<S, N>(simd, *at, before, &mut group);
            for (group, to) in group.iter().zip(self.to) {
                let out = S::as_mut_simd_f32s(&mut mixed[to + *at..][..width]).0;
                out.iter_mut().zip(group).for_each(
                    #[inline(always)]
                    |(out, sum)| *out = *sum,
                );
            }
            *at += width;
        }
    }

    /// Adds weighted vectors of each key to those of the queries, and gives `sums` and all weights.
    #[inline(always)]
    fn weigh<S: Simd, const N: usize>(
        &self,
        simd: S,
        at: usize,
        mut sums: [f32; Q],
        group: &mut [[S::f32s; N]; Q],
    ) -> [f32; Q] {
        let width = N * S::F32_LANES;
        let mut in_registers = *group;
        for (key, values) in self.values.chunks_exact(self.dim).enumerate() {
            let values = S::as_simd_f32s(&values[at..at + width]).0;
            let weights: [f32; Q] = std::array::from_fn(
                #[inline(always)]
                |query| self.weights[query][key],
            );
            let all = weights.iter().all(
                #[inline(always)]
                |weight| weight.to_bits() != 0,
            );
            for query in 0..Q {
                if all || weights[query] != 0.0 {
                    sums[query] += weights[query];
                    let weight = simd.splat_f32s(weights[query]);
                    for i in 0..N {
                        let sum = &mut in_registers[query][i];
                        *sum = simd.mul_add_e_f32s(weight, values[i], *sum);
                    }
                }
            }
        }
        *group = in_registers;
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, random};
    use super::*;
    use crate::{Cache, CacheMemory, CacheShape, CacheType};

    /// Attention in f64, straight from the definition.
    fn exact(
        queries: &[f32],
        (heads, dim): (usize, usize),
        kv: KeysValues<'_>,
        bias: ScoreBias<'_>,
    ) -> Vec<f64> {
        let rows = queries.len() / (heads * dim);
        let of_head = |part, head: usize, key: usize, i: usize| {
            let head = head / (heads / kv.heads());
            f64::from(kv.widened(part, head, key..key + 1, &mut Vec::new())[i])
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
                    (0..dim).map(|i| f64::from(query[i]) * of_head(KvPart::Keys, head, key, i));
                (products.sum::<f64>() + f64::from(added)).exp()
            };
            let weights: Vec<f64> = (0..kv.count).map(weight).collect();
            let all: f64 = weights.iter().sum();
            for i in 0..dim {
                let values =
                    (0..kv.count).map(|key| weights[key] * of_head(KvPart::Values, head, key, i));
                out[(row * heads + head) * dim + i] = values.sum::<f64>() / all;
            }
        }
        out
    }

    /// Attention of one text.
    fn attend(
        queries: &[f32],
        heads: usize,
        head_dim: usize,
        keys_values: KeysValues<'_>,
        bias: ScoreBias<'_>,
    ) -> Vec<f32> {
        let text = TextAttention {
            queries,
            keys_values,
            bias,
        };
        attend_texts(vec![text], heads, head_dim)
    }

    /// A cache of one layer of `count` random keys and values.
    fn cache(cache_type: CacheType, kv_heads: usize, count: usize, head_dim: usize) -> Cache {
        let shape = CacheShape {
            layers: 1,
            kv_heads,
            head_dim,
        };
        let size = kv_heads * count * head_dim;
        let mut cache = Cache::new(shape, cache_type, CacheMemory::default());
        cache.reserve(count);
        for (part, values) in [
            (KvPart::Keys, random(size)),
            (KvPart::Values, random(size + 1)),
        ] {
            for (number, values) in values
                .chunks_exact(head_dim)
                .take(kv_heads * count)
                .enumerate()
            {
                cache.write(0, part, number / count, number % count, values);
            }
        }
        cache.commit(count);
        cache
    }

    #[test]
    fn rows_do_not_see_each_other() {
        for (heads, kv_heads, rows, count, dim) in [(8, 2, 70, 200, 64), (3, 3, 19, 131, 24)] {
            let queries = random(heads * rows * dim);
            let mut bias = random(rows * count);
            for (row, bias) in bias.chunks_exact_mut(count).enumerate() {
                bias[count - rows + row + 1..].fill(f32::NEG_INFINITY);
            }
            for cache_type in CacheType::ALL {
                let cache = cache(cache_type, kv_heads, count, dim);
                let kv = cache.keys_values(0, count);
                let all = attend(&queries, heads, dim, kv, ScoreBias::Shared(&bias));
                for (row, all) in all.chunks_exact(heads * dim).enumerate() {
                    let of_row = |head: usize| &queries[(head * rows + row) * dim..][..dim];
                    let query: Vec<f32> = (0..heads).flat_map(of_row).copied().collect();
                    let count = count - rows + row + 1;
                    let bias = &bias[row * kv.count..][..count];
                    let kv = cache.keys_values(0, count);
                    let alone = attend(&query, heads, dim, kv, ScoreBias::Shared(bias));
                    assert_eq!(all, alone, "row {row}");
                }
            }
        }
    }

    /// A dot product by itself.
    fn dot(query: &[f32], key: &[f32]) -> f32 {
        struct One<'a>(&'a [f32], &'a [f32]);
        impl WithSimd for One<'_> {
            type Output = f32;
            fn with_simd<S: Simd>(self, simd: S) -> f32 {
                let [[dot]] = dots(simd, [self.0], [self.1]);
                dot
            }
        }
        arch().dispatch(One(query, key))
    }

    #[test]
    fn products_computed_together_have_the_bits_of_one() {
        let Some(wide) = Wide::of(Isa::current()) else {
            return;
        };
        for dim in [16, 64, 80, 128] {
            let (queries, keys) = (random(4 * dim), random(16 * dim));
            let queries: [&[f32]; 4] = std::array::from_fn(|i| &queries[i * dim..][..dim]);
            let mut of_one = [0.0; 16];
            wide.scores(queries[0], &keys, &mut of_one);
            let mut of_four = vec![0.0; 4 * 20];
            wide.scores_of_four(queries, &keys, &mut of_four, 20);
            for (number, key) in keys.chunks_exact(dim).enumerate() {
                assert_eq!(of_one[number], dot(queries[0], key));
                for (query, found) in queries.iter().zip(of_four.chunks_exact(20)) {
                    assert_eq!(found[number], dot(query, key));
                }
            }
            assert!(of_four.chunks_exact(20).all(|row| row[16..] == [0.0; 4]));
        }
    }

    #[test]
    fn threads_leave_no_trace() {
        for (heads, kv_heads, rows) in [(32, 4, 3), (8, 1, 13), (12, 12, 7), (7, 7, 16)] {
            let (count, dim) = (300, 64);
            let queries = random(heads * rows * dim);
            let cache = cache(CacheType::F32, kv_heads, count, dim);
            let kv = cache.keys_values(0, count);
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let attended = || attend(&queries, heads, dim, kv, ScoreBias::None);
                pool.build().unwrap().install(attended)
            };
            let alone = run(1);
            assert!([2, 3, 5].map(run).iter().all(|shared| *shared == alone));
        }
    }

    /// Texts of other lengths and numbers of rows, which threads share in other pieces.
    #[test]
    fn texts_do_not_see_each_other() {
        let (heads, kv_heads, dim) = (12, 3, 32);
        let shapes = [(1, 700), (5, 9), (40, 60), (1, 1), (16, 300), (2, 1500)];
        let made: Vec<_> = shapes
            .iter()
            .map(|&(rows, count)| {
                let mut bias = random(rows * count);
                bias.iter_mut()
                    .skip(1)
                    .step_by(3)
                    .for_each(|bias| *bias = f32::NEG_INFINITY);
                let cache = cache(CacheType::F32, kv_heads, count, dim);
                (random(heads * rows * dim), cache, bias)
            })
            .collect();
        let texts: Vec<_> = made
            .iter()
            .zip(shapes)
            .map(|((queries, cache, bias), (_, count))| TextAttention {
                queries,
                keys_values: cache.keys_values(0, count),
                bias: ScoreBias::Shared(bias),
            })
            .collect();
        let alone: Vec<f32> = texts
            .iter()
            .flat_map(|text| attend_texts(vec![*text], heads, dim))
            .collect();
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let together = || attend_texts(texts.clone(), heads, dim);
            let together = pool.build().unwrap().install(together);
            assert!(together == alone, "{threads} threads");
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
            let caches = CacheType::ALL.map(|cache_type| cache(cache_type, kv_heads, count, dim));
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
                for cache in &caches {
                    let kv = cache.keys_values(0, count);
                    let found = attend(&queries, heads, dim, kv, bias);
                    assert_close(&found, &exact(&queries, (heads, dim), kv, bias), 5e-5);
                }
            }
        }
    }

    #[test]
    fn hidden_keys_leave_no_trace() {
        let queries = random(20);
        let cache = cache(CacheType::F32, 2, 12, 10);
        let kv = |count| cache.keys_values(0, count);
        let mut mask = [0.0; 12];
        mask[7..].fill(f32::NEG_INFINITY);
        let masked = attend(&queries, 2, 10, kv(12), ScoreBias::Shared(&mask));
        assert_eq!(masked, attend(&queries, 2, 10, kv(7), ScoreBias::None));
    }
}
