//! Products with weights.

use std::ops::Range;
use std::sync::Arc;

use crate::activations::{ActivationKind, Activations};
use crate::format::WIDTH;
use crate::kernels::{Sums, multiply};
use crate::pointwise::{gate, gate_row};
use crate::rounding::round_rows;
use crate::threads::share;
use crate::{Activation, Isa, Packed, threads, vectorized};

/// Bytes of weights that a thread takes at a time: few enough to stay in its cache while blocks of
/// rows are multiplied with them one after the other, and to wait little for who has the last.
const TASK: usize = 1 << 16;

/// Pieces of a part that each thread has at least.
const PIECES: usize = 4;

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
            Some(_) => Err(product.sums()),
        };
        gated.unwrap_or_else(|sums| gate(&self.with_biases(sums), self.outputs / 2, activation))
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

/// What a thread takes at a time: panels of a part that lie one after the other.
struct Piece {
    part: usize,
    /// The first panel.
    first: usize,
    /// Where the panels are that these gate: a part, and the first one.
    gated: Option<(usize, usize)>,
    /// Where their sums go in each row of the product.
    columns: Range<usize>,
}

/// Weights and rows that are multiplied with them.
struct Product {
    isa: Isa,
    parts: Vec<Arc<Packed>>,
    /// For each kind that a part takes.
    activations: Vec<(ActivationKind, Activations)>,
    rows: usize,
    pieces: Vec<Piece>,
    /// What is done to gates, if the product is gated.
    activation: Option<Activation>,
}

impl Product {
    fn new(isa: Isa, parts: &[Arc<Packed>], input: &[f32]) -> Self {
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
            parts: parts.to_vec(),
            activations,
            rows: input.len() / inputs,
            pieces: Vec::new(),
            activation: None,
        }
    }

    fn outputs(&self) -> usize {
        self.parts.iter().map(|part| part.outputs()).sum()
    }

    /// `[rows, outputs]`
    fn sums(mut self) -> Vec<f32> {
        let threads = self.threads();
        let mut first = 0;
        for part in 0..self.parts.len() {
            let end = first + self.parts[part].outputs();
            self.cut(part, None, first..end, threads);
            first = end;
        }
        self.run(first, threads)
    }

    /// `[rows, outputs / 2]`: half of the sums, each times the activation of its gate. Without
    /// this, all sums, if gates and what they gate do not lie in panels of their own.
    fn gated(mut self, activation: Activation) -> Result<Vec<f32>, Vec<f32>> {
        let size = self.outputs() / 2;
        let gated = match &self.parts[..] {
            [_] if size.is_multiple_of(WIDTH) => (0, size / WIDTH),
            [gate, up] if gate.outputs() == up.outputs() => (1, 0),
            _ => return Err(self.sums()),
        };
        let most = |part: usize| self.isa.most_rows(self.parts[part].format());
        if most(0) != most(gated.0) {
            return Err(self.sums());
        }
        let threads = self.threads();
        self.activation = Some(activation);
        self.cut(0, Some(gated), 0..size, threads);
        Ok(self.run(size, threads))
    }

    /// As many as the product is worth.
    fn threads(&self) -> usize {
        let bytes: usize = self.parts.iter().map(|part| part.bytes()).sum();
        let weights = self.parts[0].inputs() * self.outputs();
        threads::threads(duration(self.rows, weights, bytes))
    }

    /// Cuts the panels of a part, as many as there are columns for, into pieces.
    fn cut(
        &mut self,
        part: usize,
        gated: Option<(usize, usize)>,
        columns: Range<usize>,
        threads: usize,
    ) {
        let count = columns.len().div_ceil(WIDTH);
        let bytes = gated.map_or(0, |(part, _)| self.parts[part].panel_bytes());
        let bytes = bytes + self.parts[part].panel_bytes();
        let least = count.div_ceil(PIECES * threads).max(1);
        let at_once = (TASK / bytes.max(1)).clamp(1, least);
        let pieces = (0..count).step_by(at_once).map(|first| Piece {
            part,
            first,
            gated: gated.map(|(part, before)| (part, before + first)),
            columns: columns.start + first * WIDTH
                ..columns.end.min(columns.start + (first + at_once) * WIDTH),
        });
        self.pieces.extend(pieces);
    }

    /// `[rows, width]`: all pieces, by so many threads.
    fn run(self, width: usize, threads: usize) -> Vec<f32> {
        let mut product = vec![0.0; self.rows * width];
        if product.is_empty() {
            return product;
        }
        let of_piece = |product: &Self, piece: usize| {
            let columns = product.pieces[piece].columns.len();
            let mut sums = vec![0.0; product.rows * columns];
            product.multiply(piece, &mut sums, columns, 0);
            sums
        };
        let lead = |this: &Self, piece: usize, done: Option<Vec<f32>>| {
            let columns = this.pieces[piece].columns.clone();
            match done {
                None => this.multiply(piece, &mut product, width, columns.start),
                Some(done) => {
                    let rows = product.chunks_exact_mut(width);
                    let done = done.chunks_exact(columns.len());
                    rows.zip(done).for_each(|(row, done)| {
                        row[columns.clone()].copy_from_slice(done);
                    });
                }
            }
        };
        share(threads, self.pieces.len(), self, of_piece, lead);
        product
    }

    /// Writes the sums of a piece to rows of `width`, from a column on.
    fn multiply(&self, piece: usize, to: &mut [f32], width: usize, column: usize) {
        let piece = &self.pieces[piece];
        let mut room: [[Sums; 16]; 2] = [[[0.0; WIDTH]; 16]; 2];
        let mut to = to;
        for (block, &rows) in self.activations_of(piece.part).blocks.iter().enumerate() {
            let [sums, of_gated] = room.each_mut().map(|room| &mut room[..rows]);
            let (here, rest) = to.split_at_mut(rows * width);
            for (number, from) in (0..piece.columns.len()).step_by(WIDTH).enumerate() {
                self.multiply_panel((piece.part, piece.first + number), block, sums);
                let columns = column + from..column + piece.columns.len().min(from + WIDTH);
                let here = here.chunks_exact_mut(width);
                let rows = here.map(|row| &mut row[columns.clone()]).zip(sums.iter());
                match (piece.gated, self.activation) {
                    (Some((part, first)), Some(activation)) => {
                        self.multiply_panel((part, first + number), block, of_gated);
                        gate_rows(activation, rows.zip(of_gated.iter()));
                    }
                    _ => rows.for_each(|(to, sums)| {
                        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = *sum);
                    }),
                }
            }
            to = rest;
        }
    }

    /// What a part is multiplied with.
    fn activations_of(&self, part: usize) -> &Activations {
        let kind = self.isa.kind(self.parts[part].format());
        let mut made = self.activations.iter();
        let found = made.find(|(other, _)| *other == kind);
        // They are made for all parts if there are rows, and without rows nothing is multiplied.
        &found.unwrap_or(&self.activations[0]).1
    }

    /// Products of a block of rows with a panel of a part.
    fn multiply_panel(&self, (part, panel): (usize, usize), block: usize, sums: &mut [Sums]) {
        let (activations, part) = (self.activations_of(part), &self.parts[part]);
        let size = part.panel_bytes();
        let panel = &part.panels()[panel * size..][..size];
        multiply(self.isa, part.format(), panel, activations, block, sums);
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
