//! Small tables.

use std::collections::BTreeMap;

use cascade_core::Fingerprint;
use cascade_ngram::{NgramLimits, NgramRows, NgramTable, Provenance, Source};
use safetensors::Dtype;
use serde_json::{Map, Value, json};

pub(crate) fn fingerprint() -> Fingerprint {
    Fingerprint::from_stored("sha256:test")
}

pub(crate) fn provenance() -> Provenance {
    Provenance {
        tokenizer: fingerprint(),
        sources: vec![Source {
            name: "a corpus, \"quoted\"".into(),
            bytes: Some(7),
            dump_date: Some("2024-06-01".into()),
        }],
        command: "cascade-lab bigram build".into(),
        version: "0.1.0".into(),
    }
}

/// How often each window of so many tokens occurs.
fn windows<const N: usize>(documents: &[Vec<u32>]) -> BTreeMap<[u32; N], u64> {
    let mut counts = BTreeMap::new();
    for window in documents.iter().flat_map(|document| document.windows(N)) {
        *counts.entry(window.try_into().unwrap()).or_default() += 1;
    }
    counts
}

/// The table of these documents.
pub(crate) fn table(
    order: usize,
    vocab_size: usize,
    documents: &[Vec<u32>],
    limits: NgramLimits,
) -> NgramTable {
    let mut rows = NgramRows::new(order, vocab_size, limits).unwrap();
    for ([token], count) in windows(documents) {
        rows.add_token(token, count).unwrap();
    }
    for ([last, next], count) in windows(documents) {
        rows.add_pair(last, next, count).unwrap();
    }
    for ([first, second, next], count) in windows(documents) {
        if order > 1 {
            rows.add_triple([first, second], next, count).unwrap();
        }
    }
    rows.finish(documents.len() as u64, provenance()).unwrap()
}

/// A table of order 1 that keeps so many successors of each token.
pub(crate) fn bigrams(vocab_size: usize, documents: &[Vec<u32>], successors: usize) -> NgramTable {
    let limits = NgramLimits {
        top_k: successors,
        min_count: 1,
        min_context: 0,
    };
    table(1, vocab_size, documents, limits)
}

/// A file as earlier versions wrote bigram tables: rows of successors with their counts, and how
/// often each token occurs.
pub(crate) fn bigram_file(rows: &[Vec<(u32, u64)>], frequencies: &[u64]) -> Vec<u8> {
    let offsets = rows.iter().scan(0, |end, row| {
        *end += row.len() as u64;
        Some(*end)
    });
    let offsets: Vec<u64> = std::iter::once(0).chain(offsets).collect();
    let pairs = || rows.iter().flatten();
    let longs = |values: &[u64]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let counts: Vec<u64> = pairs().map(|p| p.1).collect();
    let successors = pairs().flat_map(|p| p.0.to_le_bytes()).collect();
    let of = provenance();
    let metadata = json!({
        "format": "cascade-bigram", "format_version": "2", "tokenizer": of.tokenizer.to_string(),
        "sources": json!(of.sources).to_string(), "command": of.command, "version": of.version,
        "top_k": "2", "min_count": "1", "documents": "3",
        "total_tokens": frequencies.iter().sum::<u64>().to_string(), "total_bigrams": "11",
    });
    safetensors_file(
        metadata,
        &[
            ("counts".into(), Dtype::U64, longs(&counts)),
            ("offsets".into(), Dtype::U64, longs(&offsets)),
            ("unigram_counts".into(), Dtype::U64, longs(frequencies)),
            ("successors".into(), Dtype::U32, successors),
        ],
    )
}

/// A safetensors file of tensors of one dimension, by name, type and bytes.
pub(crate) fn safetensors_file(metadata: Value, tensors: &[(String, Dtype, Vec<u8>)]) -> Vec<u8> {
    let mut header = Map::new();
    header.insert("__metadata__".into(), metadata);
    let mut data = Vec::new();
    for (name, dtype, bytes) in tensors {
        let (start, end) = (data.len(), data.len() + bytes.len());
        let len = bytes.len() * 8 / dtype.bitsize();
        let dtype = format!("{dtype:?}");
        let info = json!({"dtype": dtype, "shape": [len], "data_offsets": [start, end]});
        header.insert(name.clone(), info);
        data.extend(bytes);
    }
    let mut header = Value::from(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}
