//! Products with weights.

use std::borrow::Cow;

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use crate::side_by_side;

/// Whether a matrix product is worth waking threads: from about 0.3 ms on. Reading a weight takes
/// as long as using it for some seven rows.
fn parallel_product(rows: usize, weights: usize) -> bool {
    weights * (rows + 7) >= 1 << 23
}

/// A linear map, laid out so that a product reads its weights once, in order, and never sums
/// across a vector.
#[derive(Debug)]
pub struct Linear {
    /// `[panels, inputs, WIDTH]`: each panel holds `WIDTH` outputs, the last one padded with zeros.
    panels: Vec<f32>,
    inputs: usize,
    outputs: usize,
    /// Added to the outputs, if any.
    bias: Option<Vec<f32>>,
}

/// Outputs per panel: several vectors of any instruction set.
const WIDTH: usize = 32;

impl Linear {
    /// The map of a weight `[outputs, inputs]`, which is copied.
    ///
    /// # Panics
    /// If the weight has no whole rows.
    pub fn new(weight: &[f32], inputs: usize) -> Self {
        assert!(
            weight.len().is_multiple_of(inputs),
            "a weight without whole rows"
        );
        let outputs = weight.len() / inputs;
        let mut panels = vec![0.0; outputs.div_ceil(WIDTH) * inputs * WIDTH];
        for (output, row) in weight.chunks_exact(inputs).enumerate() {
            let start = output / WIDTH * inputs * WIDTH + output % WIDTH;
            for (value, &weight) in panels[start..].iter_mut().step_by(WIDTH).zip(row) {
                *value = weight;
            }
        }
        Self {
            panels,
            inputs,
            outputs,
            bias: None,
        }
    }

    /// The same with a bias `[outputs]`.
    ///
    /// # Panics
    /// If it has another length.
    pub fn with_bias(self, bias: Vec<f32>) -> Self {
        assert_eq!(bias.len(), self.outputs, "a bias of another length");
        Self {
            bias: Some(bias),
            ..self
        }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// `[rows, inputs]` to `[rows, outputs]`, with several threads if that is worth it.
    ///
    /// # Panics
    /// If the input has no whole rows.
    pub fn forward(&self, input: &[f32]) -> Vec<f32> {
        let mut product = self.product(input);
        if let Some(bias) = &self.bias {
            for row in product.chunks_exact_mut(self.outputs) {
                row.iter_mut()
                    .zip(bias)
                    .for_each(|(sum, bias)| *sum += bias);
            }
        }
        product
    }

    fn product(&self, input: &[f32]) -> Vec<f32> {
        let inputs = self.inputs;
        assert!(
            input.len().is_multiple_of(inputs),
            "an input without whole rows"
        );
        let rows = input.len() / inputs;
        let panel = inputs * WIDTH;
        let product = |panels| Product {
            input,
            panels,
            inputs,
        };
        let tasks = rayon::current_num_threads();
        let mut parts: Vec<Vec<f32>> = if tasks == 1 || !parallel_product(rows, self.panels.len()) {
            vec![Arch::new().dispatch(product(&self.panels))]
        } else {
            let share = (self.panels.len() / panel).div_ceil(tasks) * panel;
            let shares = self.panels.par_chunks(share);
            shares
                .map(|share| Arch::new().dispatch(product(share)))
                .collect()
        };
        // Only the last part has padding.
        if let Some(last) = parts.last_mut() {
            let width = last.len() / rows;
            let padding = self.panels.len() / inputs - self.outputs;
            trim_rows(last, width, width - padding);
        }
        side_by_side(parts, rows)
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

/// Cuts `[rows, inputs]` into blocks of at most so many rows, as even as they can be: the rows of
/// each, and its transpose `[inputs, rows]`, so that what a step of a product multiplies lies side
/// by side.
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

/// Bytes before they are read that weights are prefetched: four pages, since hardware prefetchers
/// stop at the end of one.
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
    use super::super::tests::{assert_close, random};
    use super::*;

    /// The product, summed in f64.
    fn exact(input: &[f32], weight: &[f32], inputs: usize) -> Vec<f64> {
        let dot = |row: &[f32], column: &[f32]| {
            let pairs = row.iter().zip(column);
            pairs.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
        };
        let rows = input.chunks(inputs);
        rows.flat_map(|row| weight.chunks(inputs).map(move |column| dot(row, column)))
            .collect()
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
            let (input, weight) = (random(rows * inputs), random(outputs * inputs));
            let linear = Linear::new(&weight, inputs);
            assert_eq!(linear.outputs(), outputs);
            let product = linear.forward(&input);
            // Sums of a thousand terms round differently.
            let tolerance = 2e-5 * (inputs as f64).sqrt();
            assert_close(&product, &exact(&input, &weight, inputs), tolerance);
            for (row, product) in input.chunks(inputs).zip(product.chunks(outputs)) {
                assert_eq!(linear.forward(row), product);
            }
        }
    }

    #[test]
    #[should_panic(expected = "an input without whole rows")]
    fn inputs_of_another_size_are_refused() {
        Linear::new(&random(8), 4).forward(&random(3));
    }

    #[test]
    fn biases_are_added_to_every_row() {
        let (input, weight, bias) = (random(3 * 20), random(33 * 20), random(33));
        let plain = Linear::new(&weight, 20).forward(&input);
        let biased = Linear::new(&weight, 20).with_bias(bias.clone());
        let biased = biased.forward(&input);
        for (biased, plain) in biased.chunks(33).zip(plain.chunks(33)) {
            let sums: Vec<f32> = plain.iter().zip(&bias).map(|(a, b)| a + b).collect();
            assert_eq!(biased, sums);
        }
    }

    #[test]
    fn products_with_all_instruction_sets() {
        let (rows, inputs, outputs) = (15, 21, 96);
        let (input, weight) = (random(rows * inputs), random(outputs * inputs));
        let linear = Linear::new(&weight, inputs);
        let expected = linear.forward(&input);
        let product = Product {
            input: &input,
            panels: &linear.panels,
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
