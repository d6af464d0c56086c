//! Small tables.

use cascade_core::Fingerprint;
use cascade_ngram::{BigramTable, NgramBuilder, Provenance, Source};

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
        command: "cascade bigram build".into(),
        version: "0.1.0".into(),
    }
}

/// The counts of these documents.
pub(crate) fn builder(order: usize, vocab_size: usize, documents: &[Vec<u32>]) -> NgramBuilder {
    let mut builder = NgramBuilder::new(order, vocab_size, provenance());
    for document in documents {
        builder.add_document(document).unwrap();
    }
    builder
}

/// A table that keeps so many successors of each token.
pub(crate) fn bigrams(vocab_size: usize, documents: &[Vec<u32>], successors: usize) -> BigramTable {
    let builder = builder(1, vocab_size, documents);
    builder.finish_bigrams(successors, 1).unwrap()
}
