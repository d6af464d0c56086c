//! What a head of a model shares with it, in numbers: what heads are trained with.

use cascade_core::TokenId;

use crate::{Error, Model, Result};

/// What heads share with a model, and what they are shaped after.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeadBasis {
    /// Elements of a hidden state.
    pub size: usize,
    /// Tokens.
    pub vocab_size: usize,
    /// `[vocab_size, size]`: the embedding.
    pub embedding: Vec<f32>,
    /// `[vocab_size, size]`: the matrix that makes logits of the last hidden state.
    pub output: Vec<f32>,
    /// Heads of queries in the model's layers, and of keys and values.
    pub attention_heads: (usize, usize),
    /// Elements of each of these heads.
    pub head_size: usize,
    /// What norms add to the mean square.
    pub epsilon: f64,
    /// Positions of a context, if there is a limit.
    pub max_context: Option<usize>,
    /// The token that a decoder beside an encoder begins with: heads read it before the text.
    pub start: Option<TokenId>,
}

impl Model {
    /// What heads of this model share with it, in f32 whatever its weights are held in: twice the
    /// embedding's memory.
    ///
    /// # Errors
    /// [`Error::Config`] for a model that heads cannot read, since it does not compute on the CPU
    /// with our kernels.
    pub fn head_basis(&self) -> Result<HeadBasis> {
        let info = self.described();
        let network = self.on_cpu().ok_or_else(|| {
            let problem = "it computes elsewhere than on the CPU with our kernels";
            Error::config("the target", problem, "give it `device: cpu`")
        })?;
        let vocabulary = network.vocabulary();
        let (size, vocab_size) = (info.size, info.vocab_size);
        let mut embedding = vec![0.0; vocab_size * size];
        for (token, row) in embedding.chunks_exact_mut(size).enumerate() {
            vocabulary.table.read_row(token, row);
        }
        Ok(HeadBasis {
            size,
            vocab_size,
            embedding,
            output: matrix(size, vocab_size, |state| vocabulary.logits(state)),
            attention_heads: (info.heads.queries, info.heads.kv),
            head_size: info.heads.size,
            epsilon: info.epsilon,
            max_context: info.max_context,
            start: info.start,
        })
    }
}

/// Unit vectors that go through a map at a time.
const UNITS: usize = 64;

/// The matrix of a linear map of `inputs` elements, row by row: what it makes of each unit vector
/// is a column. So it is known whatever the weights are held in.
fn matrix(inputs: usize, outputs: usize, map: impl Fn(&[f32]) -> Vec<f32>) -> Vec<f32> {
    let mut matrix = vec![0.0; outputs * inputs];
    for first in (0..inputs).step_by(UNITS) {
        let columns = first..inputs.min(first + UNITS);
        let mut units = vec![0.0; columns.len() * inputs];
        for (row, column) in columns.clone().enumerate() {
            units[row * inputs + column] = 1.0;
        }
        let mapped = map(&units);
        for (column, values) in columns.zip(mapped.chunks_exact(outputs)) {
            for (row, &x) in values.iter().enumerate() {
                matrix[row * inputs + column] = x;
            }
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_found_from_its_map() {
        let (inputs, outputs) = (UNITS + 3, 5);
        let known: Vec<f32> = (0..inputs * outputs).map(|x| x as f32).collect();
        let map = |rows: &[f32]| {
            let rows = rows.chunks_exact(inputs);
            let of = |row: &[f32], weights: &[f32]| -> f32 {
                row.iter().zip(weights).map(|(x, w)| x * w).sum()
            };
            rows.flat_map(|row| {
                known
                    .chunks_exact(inputs)
                    .map(move |weights| of(row, weights))
            })
            .collect()
        };
        assert_eq!(matrix(inputs, outputs, map), known);
    }
}
