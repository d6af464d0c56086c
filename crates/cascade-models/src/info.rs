//! What is known of a model without running it.

use cascade_core::{Architecture, TokenId};
use cascade_cpu::CacheShape;

/// What attention's heads are, the same in all layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heads {
    /// Heads of queries.
    pub(crate) queries: usize,
    /// Heads of keys and values, each of which serves as many heads of queries.
    pub(crate) kv: usize,
    /// Elements of a head.
    pub(crate) size: usize,
}

/// What is known of a model without running it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelInfo {
    pub(crate) architecture: Architecture,
    pub(crate) vocab_size: usize,
    /// Elements of a row of the residual stream.
    pub(crate) size: usize,
    /// What norms add to the mean square.
    pub(crate) epsilon: f64,
    pub(crate) heads: Heads,
    /// The decoder's.
    pub(crate) layers: usize,
    pub(crate) parameters: usize,
    /// Parameters that every forward reads, whatever its rows.
    pub(crate) parameters_of_all_rows: usize,
    pub(crate) max_context: Option<usize>,
    pub(crate) start: Option<TokenId>,
}

impl ModelInfo {
    /// Bytes that attention of `rows` rows to each other takes on the CPU, where it takes most:
    /// who sees whom, and for T5 a bias for each head.
    pub(crate) fn attention_bytes(&self, rows: usize) -> usize {
        let of_a_pair = match self.architecture {
            Architecture::EncoderDecoder => {
                size_of::<usize>() + self.heads.queries * size_of::<f32>()
            }
            Architecture::DecoderOnly => size_of::<f32>(),
        };
        rows.saturating_mul(rows).saturating_mul(of_a_pair)
    }

    /// Parameters that a forward of a number of rows reads: no layer that is described here routes
    /// rows to parameters of their own.
    pub(crate) fn parameters_per_forward(&self, _rows: usize) -> usize {
        self.parameters_of_all_rows
    }

    /// Operations that encoding `tokens` tokens takes: two for each parameter and token, and four
    /// for each element of a head and pair of tokens in each layer.
    pub(crate) fn encoding_operations(&self, tokens: usize) -> f64 {
        let table = self.vocab_size * self.size;
        let parameters = self
            .parameters
            .saturating_sub(self.parameters_of_all_rows + table);
        let width = self.heads.queries * self.heads.size * self.layers;
        let tokens = tokens as f64;
        tokens * (2.0 * parameters as f64 + 4.0 * width as f64 * tokens)
    }

    /// Keys and values that decoding leaves behind.
    pub(crate) fn cache_shape(&self) -> CacheShape {
        CacheShape {
            layers: self.layers,
            kv_heads: self.heads.kv,
            head_dim: self.heads.size,
        }
    }
}
