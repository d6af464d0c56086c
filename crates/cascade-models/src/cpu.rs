//! Kernels for f32 on the CPU.
//!
//! A forward that drafts or checks a few tokens of a small model is over in a fraction of a millisecond, of which general
//! tensor operations spend most on waking threads, packing matrices, copying views and allocating. These kernels take
//! strided views as they are, keep weights in the order in which they are read, and use several threads only for what
//! is worth it.
//!
//! They are row-invariant: the bits of a row depend neither on how many rows are computed with it, nor on keys that are
//! hidden from it. So checking a draft gives the very numbers that plain decoding gives.

use std::borrow::Cow;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::layers::Activation;
use crate::readout::with_values;

/// Products of queries and keys from which on attention is worth waking threads.
const PARALLEL_ATTENTION: usize = 1 << 21;

/// Whether a matrix product is worth waking threads: from about 0.3 ms on. Reading a weight takes as long as using it for
/// some seven rows.
fn parallel_product(rows: usize, weights: usize) -> bool {
    weights * (rows + 7) >= 1 << 23
}

/// Whether the kernels take `tensor` as their first input.
pub(crate) fn applies(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.dtype() == candle_core::DType::F32 && tensor.is_contiguous()
}

/// The values of a contiguous f32 tensor.
fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle_core::bail!("a CPU kernel was given a strided view")
    };
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// Calls the closure with the widest vector instructions that this processor has.
pub(crate) fn vectorized<T>(run: impl pulp::NullaryFnOnce<Output = T>) -> T {
    Arch::new().dispatch(run)
}

/// The weights of a linear map, laid out so that a product reads them once, in order, and never sums across a vector.
#[derive(Debug)]
pub(crate) struct Panels {
    /// `[panels, inputs, WIDTH]`: each panel holds `WIDTH` outputs, the last one padded with zeros.
    values: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

/// Outputs per panel: several vectors of any instruction set.
const WIDTH: usize = 32;

impl Panels {
    /// Lays out a weight `[outputs, inputs]`.
    pub(crate) fn new(weight: &Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        let mut values = vec![0.0; outputs.div_ceil(WIDTH) * inputs * WIDTH];
        with_values(weight, |weight| {
            for (output, row) in weight.chunks_exact(inputs).enumerate() {
                let start = output / WIDTH * inputs * WIDTH + output % WIDTH;
                for (value, &weight) in values[start..].iter_mut().step_by(WIDTH).zip(row) {
                    *value = weight;
                }
            }
        })?;
        Ok(Self {
            values,
            inputs,
            outputs,
        })
    }

    /// `[rows, inputs]` to `[rows, outputs]`.
    pub(crate) fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.contiguous()?.apply_op1_no_bwd(self)
    }
}

impl CustomOp1 for Panels {
    fn name(&self) -> &'static str {
        "row-invariant-linear"
    }

    fn cpu_fwd(&self, input: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, inputs) = layout.shape().dims2()?;
        if inputs != self.inputs {
            candle_core::bail!("{inputs} features do not fit weights for {}", self.inputs)
        }
        let input = values(input, layout)?;
        let panel = inputs * WIDTH;
        let product = |panels| Product {
            input,
            panels,
            inputs,
        };
        let tasks = rayon::current_num_threads();
        let mut parts: Vec<Vec<f32>> = if tasks == 1 || !parallel_product(rows, self.values.len()) {
            vec![Arch::new().dispatch(product(&self.values))]
        } else {
            let share = (self.values.len() / panel).div_ceil(tasks) * panel;
            let shares = self.values.par_chunks(share);
            shares
                .map(|share| Arch::new().dispatch(product(share)))
                .collect()
        };
        // Only the last part has padding.
        if let Some(last) = parts.last_mut() {
            let width = last.len() / rows;
            trim_rows(
                last,
                width,
                width - (self.values.len() / inputs - self.outputs),
            );
        }
        let product = side_by_side(parts, rows);
        Ok((CpuStorage::F32(product), (rows, self.outputs).into()))
    }
}

/// Cuts every row of `width` values down to the first `kept`.
fn trim_rows(matrix: &mut Vec<f32>, width: usize, kept: usize) {
    if kept == width {
        return;
    }
    let rows = matrix.len() / width;
    for row in 1..rows {
        matrix.copy_within(row * width..row * width + kept, row * kept);
    }
    matrix.truncate(rows * kept);
}

/// Joins matrices of `rows` rows into one.
fn side_by_side(mut parts: Vec<Vec<f32>>, rows: usize) -> Vec<f32> {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let mut joined = Vec::with_capacity(parts.iter().map(Vec::len).sum());
    for row in 0..rows {
        for part in &parts {
            let width = part.len() / rows;
            joined.extend_from_slice(&part[row * width..(row + 1) * width]);
        }
    }
    joined
}

/// A matrix product on one thread: `[rows, inputs]` to `[rows, WIDTH * panels]`.
#[derive(Clone, Copy)]
struct Product<'a> {
    input: &'a [f32],
    panels: &'a [f32],
    inputs: usize,
}

impl WithSimd for Product<'_> {
    type Output = Vec<f32>;

    /// Chooses how many vectors make a panel, and how many rows of those the registers hold.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<f32> {
        match S::F32_LANES {
            16 => self.run::<S, 2>(simd, 12),
            8 => self.run::<S, 4>(simd, 2),
            4 => self.run::<S, 8>(simd, 1),
            2 => self.run::<S, 16>(simd, 1),
            _ => self.run::<S, 32>(simd, 1),
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn run<S: Simd, const VECTORS: usize>(self, simd: S, most: usize) -> Vec<f32> {
        let inputs = self.inputs;
        let rows = self.input.len() / inputs;
        let blocks = row_blocks(self.input, inputs, most);
        let panels = self.panels.chunks_exact(inputs * WIDTH);
        let width = panels.len() * WIDTH;
        let mut product = vec![0.0; rows * width];
        for (panel, weights) in panels.enumerate() {
            let mut out = PanelOutput {
                weights: S::as_simd_f32s(weights).0,
                product: &mut product,
                width,
                at: panel * WIDTH,
            };
            for (rows, input) in &blocks {
                match rows {
                    12 => out.block::<S, VECTORS, 12>(simd, input),
                    11 => out.block::<S, VECTORS, 11>(simd, input),
                    10 => out.block::<S, VECTORS, 10>(simd, input),
                    9 => out.block::<S, VECTORS, 9>(simd, input),
                    8 => out.block::<S, VECTORS, 8>(simd, input),
                    7 => out.block::<S, VECTORS, 7>(simd, input),
                    6 => out.block::<S, VECTORS, 6>(simd, input),
                    5 => out.block::<S, VECTORS, 5>(simd, input),
                    4 => out.block::<S, VECTORS, 4>(simd, input),
                    3 => out.block::<S, VECTORS, 3>(simd, input),
                    2 => out.block::<S, VECTORS, 2>(simd, input),
                    _ => out.block::<S, VECTORS, 1>(simd, input),
                }
            }
        }
        product
    }
}

/// Cuts `[rows, inputs]` into blocks of at most so many rows, as even as they can be: the rows of each, and its transpose
/// `[inputs, rows]`, so that what a step of a product multiplies lies side by side.
fn row_blocks(input: &[f32], inputs: usize, most: usize) -> Vec<(usize, Cow<'_, [f32]>)> {
    let rows = input.len() / inputs;
    let count = rows.div_ceil(most).max(1);
    let mut rest = input;
    let blocks = (0..count).map(|block| {
        let rows = rows * (block + 1) / count - rows * block / count;
        let (block, after) = rest.split_at(rows * inputs);
        rest = after;
        if rows == 1 {
            return (rows, Cow::Borrowed(block));
        }
        let mut transposed = vec![0.0; block.len()];
        for (row, values) in block.chunks_exact(inputs).enumerate() {
            for (to, value) in transposed[row..].iter_mut().step_by(rows).zip(values) {
                *to = *value;
            }
        }
        (rows, Cow::Owned(transposed))
    });
    blocks.collect()
}

/// The columns of a product that one panel makes.
struct PanelOutput<'a, V> {
    weights: &'a [V],
    product: &'a mut [f32],
    /// Columns of the product.
    width: usize,
    /// Where the next row's columns begin.
    at: usize,
}

impl<V: Copy> PanelOutput<'_, V> {
    /// Computes the next `ROWS` rows.
    #[inline(always)]
    fn block<S: Simd<f32s = V>, const VECTORS: usize, const ROWS: usize>(
        &mut self,
        simd: S,
        input: &[f32],
    ) {
        for sums in &sums::<S, VECTORS, ROWS>(simd, input, self.weights) {
            let columns = &mut self.product[self.at..self.at + WIDTH];
            for (out, sum) in S::as_mut_simd_f32s(columns).0.iter_mut().zip(sums) {
                *out = *sum;
            }
            self.at += self.width;
        }
    }
}

/// Products of some rows, transposed, with one panel, each summed input by input.
#[inline(always)]
fn sums<S: Simd, const VECTORS: usize, const ROWS: usize>(
    simd: S,
    input: &[f32],
    weights: &[S::f32s],
) -> [[S::f32s; VECTORS]; ROWS] {
    let (weights, values) = (
        weights.as_chunks::<VECTORS>().0,
        input.as_chunks::<ROWS>().0,
    );
    let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    for (weights, values) in weights.iter().zip(values) {
        prefetch_after(weights);
        for (sums, value) in sums.iter_mut().zip(values) {
            let value = simd.splat_f32s(*value);
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = simd.mul_add_e_f32s(value, *weight, *sum);
            }
        }
    }
    sums
}

/// Bytes before they are read that weights are asked for: four pages, since processors stop looking ahead at the end of one.
const AHEAD: usize = 1 << 14;

/// Asks for the memory that is [`AHEAD`] of `read`, if there is any.
#[inline(always)]
fn prefetch_after<T>(read: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..size_of_val(read)).step_by(64) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let address = read.as_ptr().cast::<i8>().wrapping_add(AHEAD + line);
        // SAFETY: a hint. It reads nothing, and never faults, wherever the address is.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (read, AHEAD);
}

/// All dot products of some rows with some columns of the same length. Each is summed in the same order, however many
/// are computed together.
#[inline(always)]
fn dots<S: Simd, const R: usize, const C: usize>(
    simd: S,
    rows: [&[f32]; R],
    columns: [&[f32]; C],
) -> [[f32; C]; R] {
    let zero = simd.splat_f32s(0.0);
    let len = rows[0].len();
    let steps = len / S::F32_LANES;
    let mut row_heads: [&[S::f32s]; R] = [&[]; R];
    let mut column_heads: [&[S::f32s]; C] = [&[]; C];
    for (head, row) in row_heads.iter_mut().zip(rows) {
        *head = &S::as_simd_f32s(row).0[..steps];
    }
    for (head, column) in column_heads.iter_mut().zip(columns) {
        *head = &S::as_simd_f32s(column).0[..steps];
    }
    let mut sums = [[zero; C]; R];
    for step in 0..steps {
        let mut column = [zero; C];
        for (value, head) in column.iter_mut().zip(column_heads) {
            *value = head[step];
        }
        for (sums, head) in sums.iter_mut().zip(row_heads) {
            let row = head[step];
            for (sum, column) in sums.iter_mut().zip(column) {
                *sum = simd.mul_add_e_f32s(row, column, *sum);
            }
        }
    }
    let mut dots = [[0.0; C]; R];
    for ((dots, sums), row) in dots.iter_mut().zip(sums).zip(rows) {
        for ((dot, sum), column) in dots.iter_mut().zip(sums).zip(columns) {
            *dot = simd.reduce_sum_f32s(sum);
            for i in steps * S::F32_LANES..len {
                *dot += row[i] * column[i];
            }
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
        [*scores] = dots(simd, [query], columns);
    }
    for (key, score) in (done..).zip(rest) {
        [[*score]] = dots(simd, [query], [column(key)]);
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

/// e^x to 2 units in the last place, 0 below -87: the libm function does not vectorize, this does.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.0, 88.0);
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clamped - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        5e-1,
    ] {
        p = p * r + coefficient;
    }
    let p = p * r * r + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    let power = f32::from_bits(exponent.wrapping_add(127) << 23);
    if x < -87.0 {
        0.0
    } else {
        p * power
    }
}

/// Root-mean-square norm of `[rows, size]`.
pub(crate) fn rms_norm(input: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    input.apply_op2_no_bwd(weight, &NormOp { eps })
}

struct NormOp {
    eps: f32,
}

impl CustomOp2 for NormOp {
    fn name(&self) -> &'static str {
        "row-invariant-rms-norm"
    }

    fn cpu_fwd(
        &self,
        input: &CpuStorage,
        input_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let weight = values(weight, weight_layout)?;
        let mut normed = values(input, input_layout)?.to_vec();
        for row in normed.chunks_exact_mut(weight.len()) {
            let mean = sum_of_squares(row) / weight.len() as f32;
            let scale = 1.0 / (mean + self.eps).sqrt();
            for (value, weight) in row.iter_mut().zip(weight) {
                *value = *value * scale * weight;
            }
        }
        Ok((CpuStorage::F32(normed), input_layout.shape().clone()))
    }
}

fn sum_of_squares(row: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    for values in row.chunks(16) {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value * value;
        }
    }
    sums.iter().sum()
}

/// `activation(gate) * up` of `[rows, 2 * size]`, the gate's half first.
pub(crate) fn gated(gate_up: &Tensor, activation: Activation) -> Result<Tensor> {
    gate_up.apply_op1_no_bwd(&GatedOp { activation })
}

struct GatedOp {
    activation: Activation,
}

impl CustomOp1 for GatedOp {
    fn name(&self) -> &'static str {
        "gated-activation"
    }

    fn cpu_fwd(&self, gate_up: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, both) = layout.shape().dims2()?;
        let size = both / 2;
        let gate_up = values(gate_up, layout)?;
        let mut out = vec![0.0; rows * size];
        let rows_of = gate_up.chunks_exact(both).zip(out.chunks_exact_mut(size));
        vectorized(
            #[inline(always)]
            || {
                for (row, out) in rows_of {
                    let (gate, up) = row.split_at(size);
                    gate_row(self.activation, gate, up, out);
                }
            },
        );
        Ok((CpuStorage::F32(out), (rows, size).into()))
    }
}

#[inline(always)]
fn gate_row(activation: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
    let triples = out.iter_mut().zip(gate.iter().zip(up));
    match activation {
        Activation::Relu => triples.for_each(
            #[inline(always)]
            |(out, (gate, up))| *out = gate.max(0.0) * up,
        ),
        Activation::Silu => triples.for_each(
            #[inline(always)]
            |(out, (gate, up))| *out = gate * sigmoid(*gate) * up,
        ),
        Activation::Gelu => triples.for_each(
            #[inline(always)]
            |(out, (gate, up))| *out = gelu(*gate) * up,
        ),
    }
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The tanh form, by way of (1 + tanh u) / 2 = sigmoid(2u).
#[inline(always)]
fn gelu(x: f32) -> f32 {
    const TWICE_ROOT_TWO_OVER_PI: f32 = 1.595_769;
    x * sigmoid(TWICE_ROOT_TWO_OVER_PI * (x + 0.044_715 * x * x * x))
}

/// Half-split rotation of `[1, heads, rows, head_dim]` by cosines and sines `[rows, head_dim / 2]`.
pub(crate) fn rope(heads: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    heads.apply_op3_no_bwd(cos, sin, &RopeOp)
}

struct RopeOp;

impl CustomOp3 for RopeOp {
    fn name(&self) -> &'static str {
        "one-thread-rope"
    }

    fn cpu_fwd(
        &self,
        heads: &CpuStorage,
        layout: &Layout,
        cos: &CpuStorage,
        cos_layout: &Layout,
        sin: &CpuStorage,
        sin_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (cos, sin) = (values(cos, cos_layout)?, values(sin, sin_layout)?);
        let (_, _, rows, head_dim) = layout.shape().dims4()?;
        let half = head_dim / 2;
        if cos.len() != rows * half || sin.len() != cos.len() {
            candle_core::bail!("{rows} rows of {head_dim} need other angles")
        }
        let mut turned = values(heads, layout)?.to_vec();
        for head in turned.chunks_exact_mut(rows * head_dim) {
            let angles = cos.chunks_exact(half).zip(sin.chunks_exact(half));
            for (row, (cos, sin)) in head.chunks_exact_mut(head_dim).zip(angles) {
                let (x, y) = row.split_at_mut(half);
                for ((x, y), (cos, sin)) in x.iter_mut().zip(y).zip(cos.iter().zip(sin)) {
                    (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
                }
            }
        }
        Ok((CpuStorage::F32(turned), layout.shape().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layers::attend_in_any_type;
    use candle_core::{Device, D};

    fn random(shape: impl Into<Shape>) -> Tensor {
        Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap()
    }

    fn flat(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    fn assert_close(found: &Tensor, expected: &Tensor) {
        assert_eq!(found.dims(), expected.dims());
        for (a, b) in flat(found).iter().zip(flat(expected)) {
            assert!((a - b).abs() < 2e-5 * (1.0 + b.abs()), "{a} instead of {b}");
        }
    }

    #[test]
    fn exp_is_close_everywhere() {
        for i in -87_000..88_000 {
            let x = i as f32 / 1000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.5e-7, "exp({x}) is off by {error:e}");
        }
        assert_eq!(
            (exp(f32::NEG_INFINITY), exp(-1e9), exp(0.0)),
            (0.0, 0.0, 1.0)
        );
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn products_of_all_shapes() {
        for (rows, inputs, outputs) in [
            (1, 1, 1),
            (1, 33, 7),
            (2, 8, 4),
            (5, 19, 10),
            (19, 8, 64),
            (7, 40, 33),
            (11, 40, 33),
            (12, 40, 64),
            (13, 24, 40),
            (25, 16, 96),
            (3, 1024, 1031),
        ] {
            let (input, weight) = (random((rows, inputs)), random((outputs, inputs)));
            let panels = Panels::new(&weight).unwrap();
            let product = panels.forward(&input).unwrap();
            let expected = input.matmul(&weight.t().unwrap()).unwrap();
            // Sums of a thousand terms round differently.
            let scale = 1.0 / (inputs as f64).sqrt();
            assert_close(&(&product * scale).unwrap(), &(&expected * scale).unwrap());
            for row in 0..rows {
                let alone = panels.forward(&input.narrow(0, row, 1).unwrap()).unwrap();
                assert_eq!(flat(&alone), flat(&product.narrow(0, row, 1).unwrap()));
            }
        }
        let panels = Panels::new(&random((2, 4))).unwrap();
        assert!(panels.forward(&random((1, 3))).is_err());
    }

    #[test]
    fn products_with_all_instruction_sets() {
        let (rows, inputs, outputs) = (15, 21, 96);
        let (input, weight) = (random((rows, inputs)), random((outputs, inputs)));
        let panels = Panels::new(&weight).unwrap();
        let expected = flat(&panels.forward(&input).unwrap());
        let input = flat(&input);
        let product = Product {
            input: &input,
            panels: &panels.values,
            inputs,
        };
        let plain = pulp::Scalar::new().vectorize(product);
        for (a, b) in plain.iter().zip(&expected) {
            assert!((a - b).abs() < 2e-5 * (1.0 + b.abs()), "{a} instead of {b}");
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = pulp::x86::V3::try_new() {
            assert_eq!(Simd::vectorize(simd, product), expected);
        }
    }

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

    #[test]
    fn gates_of_all_kinds() {
        let gate_up = (random((3, 38)) * 5.0).unwrap();
        for activation in [Activation::Relu, Activation::Gelu, Activation::Silu] {
            let expected = activation.gated_in_any_type(&gate_up).unwrap();
            assert_close(&gated(&gate_up, activation).unwrap(), &expected);
        }
    }

    #[test]
    fn norms_and_rotations() {
        let (input, weight) = (random((3, 37)), random(37));
        let expected = candle_nn::ops::rms_norm(&input, &weight, 1e-5).unwrap();
        assert_close(&rms_norm(&input, &weight, 1e-5).unwrap(), &expected);

        let (heads, cos, sin) = (random((1, 3, 4, 10)), random((4, 5)), random((4, 5)));
        let expected = candle_nn::rotary_emb::rope(&heads, &cos, &sin).unwrap();
        assert_close(&rope(&heads, &cos, &sin).unwrap(), &expected);
        assert!(rope(&heads, &random((3, 5)), &sin).is_err());
    }
}
