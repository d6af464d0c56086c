//! Products with weights.

use std::sync::Arc;

use rayon::prelude::*;

use crate::activations::{ActivationKind, Activations};
use crate::format::WIDTH;
use crate::kernels::{Sums, multiply};
use crate::pointwise::{gate, gate_row};
use crate::rounding::round_rows;
use crate::{Activation, Isa, Packed, threads, vectorized};

/// Bytes of weights that a thread takes at a time: few enough to stay in its cache while blocks of
/// rows are multiplied with them one after the other.
const TASK: usize = 1 << 18;

/// Nanoseconds that a product takes a thread. Reading four bytes of weights takes as long as using
/// a weight for some seven rows.
fn duration(rows: usize, weights: usize, bytes: usize) -> usize {
    (weights * rows + bytes / 4 * 7) / 28
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
    /// The map of weights that have the same inputs, each in its own format.
    ///
    /// # Panics
    /// If there are none, or inputs differ.
    pub fn of_parts(parts: Vec<Arc<Packed>>) -> Self {
        assert!(!parts.is_empty(), "a linear map has weights");
        let same = parts
            .windows(2)
            .all(|two| two[0].inputs() == two[1].inputs());
        assert!(same, "parts with other inputs");
        Self {
            outputs: parts.iter().map(|part| part.outputs()).sum(),
            parts,
            bias: None,
        }
    }

    /// Adds a bias `[outputs]`.
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

    /// `[rows, inputs]` to `[rows, outputs]`, with several threads if that is worth it.
    ///
    /// # Panics
    /// If the input has no whole rows.
    pub fn forward(&self, input: &[f32]) -> Vec<f32> {
        self.forward_with(Isa::current(), input)
    }

    /// `[rows, inputs]` to `[rows, outputs / 2]`: the first half of the outputs are gates, and each
    /// output of the second half is multiplied with the activation of its gate.
    ///
    /// # Panics
    /// If the input has no whole rows.
    pub fn forward_gated(&self, input: &[f32], activation: Activation) -> Vec<f32> {
        let isa = Isa::current();
        let product = Product::new(isa, &self.parts, input);
        let gated = match &self.bias {
            None => product.gated(activation),
            Some(_) => None,
        };
        gated.unwrap_or_else(|| {
            let sums = self.with_biases(product.sums());
            gate(&sums, self.outputs / 2, activation)
        })
    }

    /// [`forward`](Self::forward) with the kernels of an instruction set, for comparisons.
    ///
    /// # Panics
    /// As [`forward`](Self::forward); if this process cannot use it.
    pub fn forward_with(&self, isa: Isa, input: &[f32]) -> Vec<f32> {
        assert!(isa.is_available(), "{isa} cannot be used here");
        self.with_biases(Product::new(isa, &self.parts, input).sums())
    }

    /// Adds the bias, if there is one, to rows of a product.
    fn with_biases(&self, mut product: Vec<f32>) -> Vec<f32> {
        if let Some(bias) = &self.bias {
            for row in product.chunks_exact_mut(self.outputs) {
                let sums = row.iter_mut().zip(bias);
                sums.for_each(|(sum, bias)| *sum += bias);
            }
        }
        product
    }
}

/// Panels of a part that lie one after the other.
#[derive(Clone, Copy)]
struct Panels<'a> {
    part: &'a Packed,
    activations: &'a Activations,
    /// Number of the first one.
    first: usize,
}

/// What a thread takes at a time: panels, and where their sums go.
struct Task<'a> {
    panels: Panels<'a>,
    /// As many panels that are gated.
    gated: Option<(Panels<'a>, Activation)>,
    /// Columns of each row of the product.
    columns: Vec<&'a mut [f32]>,
}

/// Weights and rows that are multiplied with them.
struct Product<'a> {
    isa: Isa,
    parts: &'a [Arc<Packed>],
    /// For each kind that a part takes.
    activations: Vec<(ActivationKind, Activations)>,
    rows: usize,
}

impl<'a> Product<'a> {
    fn new(isa: Isa, parts: &'a [Arc<Packed>], input: &[f32]) -> Self {
        let inputs = parts[0].inputs();
        assert!(
            input.len().is_multiple_of(inputs),
            "an input without whole rows"
        );
        let mut activations: Vec<(ActivationKind, Activations)> = Vec::new();
        for part in parts {
            let kind = isa.kind(part.format());
            let made = activations.iter().any(|(other, _)| *other == kind);
            if !made && !input.is_empty() {
                let most = isa.most_rows(part.format());
                let made = round_rows(isa, input, inputs, kind, most);
                activations.push((kind, made));
            }
        }
        Self {
            isa,
            parts,
            activations,
            rows: input.len() / inputs,
        }
    }

    fn outputs(&self) -> usize {
        self.parts.iter().map(|part| part.outputs()).sum()
    }

    /// `[rows, outputs]`
    fn sums(&self) -> Vec<f32> {
        let outputs = self.outputs();
        let mut product = vec![0.0; self.rows * outputs];
        let mut rows: Vec<&mut [f32]> = product.chunks_exact_mut(outputs).collect();
        let mut tasks = Vec::new();
        for part in self.parts {
            let columns = take_columns(&mut rows, part.outputs());
            self.cut(part, None, columns, &mut tasks);
        }
        self.run(tasks);
        product
    }

    /// `[rows, outputs / 2]`: half of the sums, each times the activation of its gate. `None` if
    /// gates and what they gate do not lie in panels of their own.
    fn gated(&self, activation: Activation) -> Option<Vec<f32>> {
        let size = self.outputs() / 2;
        let (gate, up, first) = match self.parts {
            [both] if size.is_multiple_of(WIDTH) => (both, both, size / WIDTH),
            [gate, up] if gate.outputs() == up.outputs() => (gate, up, 0),
            _ => return None,
        };
        if self.isa.most_rows(gate.format()) != self.isa.most_rows(up.format()) {
            return None;
        }
        let mut product = vec![0.0; self.rows * size];
        if let Some(gated) = self.panels(up, first) {
            let columns = product.chunks_exact_mut(size).collect();
            let mut tasks = Vec::new();
            self.cut(gate, Some((gated, activation)), columns, &mut tasks);
            self.run(tasks);
        }
        Some(product)
    }

    /// Panels of a part, with the activations that it takes; there are none without rows.
    fn panels(&self, part: &'a Packed, first: usize) -> Option<Panels<'_>> {
        let kind = self.isa.kind(part.format());
        let mut made = self.activations.iter();
        let (_, activations) = made.find(|(other, _)| *other == kind)?;
        Some(Panels {
            part,
            activations,
            first,
        })
    }

    /// Cuts the panels of a part, as many as there are columns for, into tasks.
    fn cut<'s>(
        &'s self,
        part: &'a Packed,
        gated: Option<(Panels<'s>, Activation)>,
        mut columns: Vec<&'s mut [f32]>,
        tasks: &mut Vec<Task<'s>>,
    ) {
        let (Some(panels), Some(row)) = (self.panels(part, 0), columns.first()) else {
            return;
        };
        let outputs = row.len();
        let count = outputs.div_ceil(WIDTH);
        let bytes = match &gated {
            Some((gated, _)) => part.panel_bytes() + gated.part.panel_bytes(),
            None => part.panel_bytes(),
        };
        let at_once = (TASK / bytes.max(1)).clamp(1, count.div_ceil(4).max(1));
        for first in (0..count).step_by(at_once) {
            let end = outputs.min((first + at_once) * WIDTH);
            let behind = |panels: Panels<'s>| Panels {
                first: panels.first + first,
                ..panels
            };
            tasks.push(Task {
                panels: behind(panels),
                gated: gated.map(|(gated, activation)| (behind(gated), activation)),
                columns: take_columns(&mut columns, end - first * WIDTH),
            });
        }
    }

    /// With several threads if that is worth it.
    fn run(&self, tasks: Vec<Task<'_>>) {
        let isa = self.isa;
        let bytes: usize = self.parts.iter().map(|part| part.bytes()).sum();
        let weights = self.parts[0].inputs() * self.outputs();
        threads::run(
            duration(self.rows, weights, bytes),
            tasks,
            |tasks| tasks.into_iter().for_each(|task| task.run(isa)),
            |tasks| {
                let tasks = tasks.into_par_iter().with_max_len(1);
                tasks.for_each(|task| task.run(isa));
            },
        );
    }
}

/// Takes the first `width` columns of each row.
fn take_columns<'a>(rows: &mut [&'a mut [f32]], width: usize) -> Vec<&'a mut [f32]> {
    let of_row = |row: &mut &'a mut [f32]| {
        let (columns, rest) = std::mem::take(row).split_at_mut(width);
        *row = rest;
        columns
    };
    rows.iter_mut().map(of_row).collect()
}

impl Panels<'_> {
    /// Products of a block of rows with panel `first + number`.
    fn multiply(&self, isa: Isa, number: usize, block: usize, sums: &mut [Sums]) {
        let size = self.part.panel_bytes();
        let panel = &self.part.panels()[(self.first + number) * size..][..size];
        multiply(
            isa,
            self.part.format(),
            panel,
            self.activations,
            block,
            sums,
        );
    }
}

impl Task<'_> {
    fn run(mut self, isa: Isa) {
        let mut room: [[Sums; 16]; 2] = [[[0.0; WIDTH]; 16]; 2];
        let mut first = 0;
        for (block, &rows) in self.panels.activations.blocks.iter().enumerate() {
            let [sums, of_gated] = room.each_mut().map(|room| &mut room[..rows]);
            let columns = &mut self.columns[first..first + rows];
            for number in 0..columns[0].len().div_ceil(WIDTH) {
                self.panels.multiply(isa, number, block, sums);
                let rows = columns
                    .iter_mut()
                    .zip(sums.iter())
                    .map(|(row, sums)| (&mut row[number * WIDTH..], sums));
                match &self.gated {
                    None => rows.for_each(|(to, sums)| {
                        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = *sum);
                    }),
                    Some((gated, activation)) => {
                        gated.multiply(isa, number, block, of_gated);
                        let rows = rows.zip(of_gated.iter());
                        gate_rows(*activation, rows);
                    }
                }
            }
            first += rows;
        }
    }
}

/// Writes `activation(gate) * up` of rows of a panel.
fn gate_rows<'a>(
    activation: Activation,
    rows: impl Iterator<Item = ((&'a mut [f32], &'a Sums), &'a Sums)>,
) {
    vectorized(
        #[inline(always)]
        || {
            for ((to, gate), up) in rows {
                match to.first_chunk_mut::<WIDTH>() {
                    Some(to) => gate_row(activation, gate, up, to),
                    None => gate_row(activation, gate, up, to),
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, packed, random};
    use super::*;
    use crate::Format;

    fn linear(weight: &[f32], inputs: usize) -> Linear {
        Linear::of_parts(vec![packed(Format::F32, weight, inputs).into()])
    }

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
            let linear = linear(&weight, inputs);
            assert_eq!(linear.outputs, outputs);
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
    fn gated_sums_are_those_of_the_whole_product() {
        let part = |format, outputs: usize| {
            let weight = random(outputs * 64);
            Arc::new(packed(format, &weight, 64))
        };
        let (f32s, bytes) = (Format::F32, Format::Q8_0);
        for parts in [
            vec![part(f32s, 33), part(f32s, 33)],
            vec![part(f32s, 48), part(bytes, 48)],
            vec![part(bytes, 640)],
            vec![part(f32s, 40)],
            vec![part(f32s, 7), part(f32s, 17)],
        ] {
            let linear = Linear::of_parts(parts.clone());
            let bias = random(linear.outputs);
            for linear in [linear, Linear::of_parts(parts).with_bias(bias)] {
                for rows in [0, 1, 3, 16, 33] {
                    let input = random(rows * 64);
                    let size = linear.outputs / 2;
                    for activation in [Activation::Silu, Activation::Gelu, Activation::Relu] {
                        let expected = gate(&linear.forward(&input), size, activation);
                        assert_eq!(linear.forward_gated(&input, activation), expected);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "an input without whole rows")]
    fn inputs_of_another_size_are_refused() {
        linear(&random(8), 4).forward(&random(3));
    }

    #[test]
    fn biases_are_added_to_every_row() {
        let (input, weight, bias) = (random(3 * 20), random(33 * 20), random(33));
        let plain = linear(&weight, 20).forward(&input);
        let biased = linear(&weight, 20).with_bias(bias.clone());
        let biased = biased.forward(&input);
        for (biased, plain) in biased.chunks(33).zip(plain.chunks(33)) {
            let sums: Vec<f32> = plain.iter().zip(&bias).map(|(a, b)| a + b).collect();
            assert_eq!(biased, sums);
        }
    }
}
