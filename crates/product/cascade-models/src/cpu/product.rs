//! Products with weights.

use std::borrow::Cow;

use candle_core::{CpuStorage, CustomOp1, Layout, Result, Shape, Tensor};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::{side_by_side, values};
use crate::readout::with_values;

/// Whether a matrix product is worth waking threads: from about 0.3 ms on. Reading a weight takes as long as using it for
/// some seven rows.
fn parallel_product(rows: usize, weights: usize) -> bool {
    weights * (rows + 7) >= 1 << 23
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

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, flat, random};
    use super::*;

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
}
