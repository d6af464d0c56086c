//! Serialisation of tables.

use cascade_core::TokenId;

use super::{tensor, BigramMetadata};
use crate::container::{self, Tensor};

/// The content of a table in CSR form; see [`BigramTable`](super::BigramTable).
pub(super) struct Csr {
    pub(super) offsets: Vec<u64>,
    pub(super) successors: Vec<TokenId>,
    pub(super) counts: Vec<u64>,
    pub(super) unigram_counts: Vec<u64>,
}

impl Csr {
    /// Rows that are sorted already.
    pub(super) fn new(rows: &[Vec<(TokenId, u64)>], unigram_counts: Vec<u64>) -> Self {
        let mut offsets = vec![0];
        let mut pairs = 0;
        for row in rows {
            pairs += row.len() as u64;
            offsets.push(pairs);
        }
        Self {
            offsets,
            successors: rows.iter().flatten().map(|pair| pair.0).collect(),
            counts: rows.iter().flatten().map(|pair| pair.1).collect(),
            unigram_counts,
        }
    }
}

/// The safetensors file of a table.
pub(super) fn encode(metadata: &BigramMetadata, csr: &Csr) -> Vec<u8> {
    // Wider types first, so that all are aligned; then by name, as the safetensors crate does.
    let tensors = vec![
        Tensor::u64(tensor::COUNTS, &csr.counts),
        Tensor::u64(tensor::OFFSETS, &csr.offsets),
        Tensor::u64(tensor::UNIGRAM_COUNTS, &csr.unigram_counts),
        Tensor::u32(tensor::SUCCESSORS, &csr.successors),
    ];
    container::encode(metadata.to_entries(), tensors)
}
