//! Serialisation of tables.

use serde_json::{json, Map, Value};

use super::{tensor, BigramMetadata};
use cascade_core::TokenId;

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

/// The safetensors file of a table. Equal content gives equal bytes: the order of everything in the
/// header is fixed, which the safetensors crate does not promise for metadata.
pub(super) fn encode(metadata: &BigramMetadata, csr: &Csr) -> Vec<u8> {
    // Wider types first, so that all are aligned; then by name, as the safetensors crate does.
    let mut data = Vec::new();
    let mut header = Map::new();
    let entries: Map<String, Value> = metadata
        .to_entries()
        .into_iter()
        .map(|(key, value)| (key.to_owned(), Value::from(value)))
        .collect();
    header.insert("__metadata__".to_owned(), Value::from(entries));
    for (name, values) in [
        (tensor::COUNTS, &csr.counts),
        (tensor::OFFSETS, &csr.offsets),
        (tensor::UNIGRAM_COUNTS, &csr.unigram_counts),
    ] {
        let start = data.len();
        data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        header.insert(
            name.to_owned(),
            info("U64", values.len(), start, data.len()),
        );
    }
    let start = data.len();
    data.extend(csr.successors.iter().flat_map(|token| token.to_le_bytes()));
    header.insert(
        tensor::SUCCESSORS.to_owned(),
        info("U32", csr.successors.len(), start, data.len()),
    );

    let mut header = Value::from(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut header);
    bytes.append(&mut data);
    bytes
}

fn info(dtype: &str, len: usize, start: usize, end: usize) -> Value {
    json!({ "dtype": dtype, "shape": [len], "data_offsets": [start, end] })
}
