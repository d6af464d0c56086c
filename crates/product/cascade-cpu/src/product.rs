//! Products with weights.

use std::sync::Arc;

use rayon::prelude::*;

use crate::activations::{Activations, Kind};
use crate::format::WIDTH;
use crate::kernels::{multiply, Sums};
use crate::{Format, Isa, Packed};

/// Bytes of weights that a thread takes at a time: few enough to stay in its cache while blocks of
/// rows are multiplied with them one after the other.
const TASK: usize = 1 << 18;

/// Whether a product is worth waking threads: from about 0.3 ms on. Reading four bytes of weights
/// takes as long as using a weight for some seven rows.
fn parallel_product(rows: usize, weights: usize, bytes: usize) -> bool {
    weights * rows + bytes / 4 * 7 >= 1 << 23
}

/// A linear map: weights in one or several parts, whose outputs lie side by side.
#[derive(Debug)]
pub struct Linear {
    parts: Vec<Arc<Packed>>,
    outputs: usize,
    /// Added to the outputs, if any.
    bias: Option<Vec<f32>>,
}

impl Linear {
    /// The map of a weight `[outputs, inputs]` in f32, which is copied.
    ///
    /// # Panics
    /// If the weight has no whole rows.
    pub fn new(weight: &[f32], inputs: usize) -> Self {
        Self::of_parts(vec![Packed::from_f32(Format::F32, weight, inputs).into()])
    }

    /// The map of weights that have the same inputs, each in its own format.
    ///
    /// # Panics
    /// If there are none, or inputs differ.
    pub fn of_parts(parts: Vec<Arc<Packed>>) -> Self {
        let inputs = parts.first().expect("a linear map has weights").inputs();
        let same = parts.iter().all(|part| part.inputs() == inputs);
        assert!(same, "parts with other inputs");
        Self {
            outputs: parts.iter().map(|part| part.outputs()).sum(),
            parts,
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

    /// Bytes of weights that a product reads, whatever the number of rows.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.bytes()).sum()
    }

    /// `[rows, inputs]` to `[rows, outputs]`, with several threads if that is worth it.
    ///
    /// # Panics
    /// If the input has no whole rows.
    pub fn forward(&self, input: &[f32]) -> Vec<f32> {
        product(Isa::current(), &self.parts, self.bias.as_deref(), input)
    }

    /// The same with the kernels of an instruction set, for comparisons.
    ///
    /// # Panics
    /// As [`forward`](Self::forward); if this process cannot use it.
    pub fn forward_with(&self, isa: Isa, input: &[f32]) -> Vec<f32> {
        assert!(isa.is_available(), "{isa} cannot be used here");
        product(isa, &self.parts, self.bias.as_deref(), input)
    }
}

/// Panels of a part, and where their sums go.
struct Task<'a> {
    part: &'a Packed,
    activations: &'a Activations,
    /// Number of the first panel.
    first: usize,
    /// Columns of each row of the product.
    columns: Vec<&'a mut [f32]>,
}

fn product(isa: Isa, parts: &[Arc<Packed>], bias: Option<&[f32]>, input: &[f32]) -> Vec<f32> {
    let inputs = parts[0].inputs();
    assert!(
        input.len().is_multiple_of(inputs),
        "an input without whole rows"
    );
    let rows = input.len() / inputs;
    let outputs: usize = parts.iter().map(|part| part.outputs()).sum();
    let bytes: usize = parts.iter().map(|part| part.bytes()).sum();
    let mut product = vec![0.0; rows * outputs];
    if rows == 0 {
        return product;
    }
    let activations = Activations::of_parts(isa, parts, input, inputs);
    let parallel =
        rayon::current_num_threads() > 1 && parallel_product(rows, inputs * outputs, bytes);
    let tasks = tasks(parts, &activations, &mut product, outputs);
    match parallel {
        true => tasks
            .into_par_iter()
            .with_max_len(1)
            .for_each(|task| task.run(isa)),
        false => tasks.into_iter().for_each(|task| task.run(isa)),
    }
    if let Some(bias) = bias {
        for row in product.chunks_exact_mut(outputs) {
            row.iter_mut()
                .zip(bias)
                .for_each(|(sum, bias)| *sum += bias);
        }
    }
    product
}

impl Activations {
    /// For each part; parts of the same kind share them.
    fn of_parts(
        isa: Isa,
        parts: &[Arc<Packed>],
        input: &[f32],
        inputs: usize,
    ) -> Vec<(Kind, Self)> {
        let mut made: Vec<(Kind, Self)> = Vec::new();
        for part in parts {
            let kind = Kind::of(part.format());
            if !made.iter().any(|(other, _)| *other == kind) {
                let most = isa.most_rows(part.format());
                made.push((kind, Self::new(isa, input, inputs, kind, most)));
            }
        }
        made
    }
}

/// Cuts a product into what threads take at a time.
fn tasks<'a>(
    parts: &'a [Arc<Packed>],
    activations: &'a [(Kind, Activations)],
    product: &'a mut [f32],
    outputs: usize,
) -> Vec<Task<'a>> {
    let mut rows: Vec<&mut [f32]> = product.chunks_exact_mut(outputs).collect();
    let mut tasks = Vec::new();
    for part in parts {
        let kind = Kind::of(part.format());
        let found = activations.iter().find(|(other, _)| *other == kind);
        let Some((_, activations)) = found else {
            continue;
        };
        let panels = part.outputs().div_ceil(WIDTH);
        let at_once = (TASK / part.panel_bytes().max(1)).clamp(1, panels.div_ceil(4).max(1));
        for first in (0..panels).step_by(at_once) {
            let end = part.outputs().min((first + at_once) * WIDTH);
            let width = end - first * WIDTH;
            let columns = rows.iter_mut().map(|row| {
                let (columns, rest) = std::mem::take(row).split_at_mut(width);
                *row = rest;
                columns
            });
            tasks.push(Task {
                part,
                activations,
                first,
                columns: columns.collect(),
            });
        }
    }
    tasks
}

impl Task<'_> {
    fn run(mut self, isa: Isa) {
        let size = self.part.panel_bytes();
        let panels = &self.part.panels()[self.first * size..];
        let mut sums: [Sums; 16] = [[0.0; WIDTH]; 16];
        let mut first = 0;
        for (block, &rows) in self.activations.blocks.iter().enumerate() {
            let (columns, sums) = (&mut self.columns[first..first + rows], &mut sums[..rows]);
            let panels_in_task = columns[0].len().div_ceil(WIDTH);
            for number in 0..panels_in_task {
                let panel = &panels[number * size..(number + 1) * size];
                multiply(
                    isa,
                    self.part.format(),
                    panel,
                    self.activations,
                    block,
                    sums,
                );
                for (columns, sums) in columns.iter_mut().zip(sums.iter()) {
                    let to = columns[number * WIDTH..].iter_mut();
                    to.zip(sums).for_each(|(to, sum)| *to = *sum);
                }
            }
            first += rows;
        }
    }
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
}
