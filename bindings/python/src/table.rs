//! Bigram and n-gram tables, read.

use std::path::PathBuf;

use cascade::ngram::{NgramMetadata, NgramTable, Source};
use cascade::TokenId;
use numpy::PyArray1;
use pyo3::prelude::*;
use serde_json::{json, Value};

use crate::error::to_python;
use crate::json::object;

/// A table of either kind; see the stubs.
#[pyclass(module = "cascade_decoding", frozen)]
pub struct Table(NgramTable);

/// Tokens and how often each was seen.
type Counted<'py> = (Bound<'py, PyArray1<TokenId>>, Bound<'py, PyArray1<u64>>);

fn counted<'py>(py: Python<'py>, all: impl Iterator<Item = (TokenId, u64)>) -> Counted<'py> {
    let (tokens, counts): (Vec<TokenId>, Vec<u64>) = all.unzip();
    (
        PyArray1::from_vec(py, tokens),
        PyArray1::from_vec(py, counts),
    )
}

/// Under the names of the file's own metadata.
fn metadata(of: &NgramMetadata) -> Value {
    let provenance = &of.provenance;
    let source = |source: &Source| json!({"name": source.name, "bytes": source.bytes, "dump_date": source.dump_date});
    json!({
        "order": of.order,
        "vocab_size": of.vocab_size,
        "top_k": of.top_k,
        "min_count": of.min_count,
        "min_context": of.min_context,
        "documents": of.documents,
        "total_tokens": of.total_tokens,
        "total_bigrams": of.total_bigrams,
        "total_trigrams": of.total_trigrams,
        "tokenizer": provenance.tokenizer.to_string(),
        "command": provenance.command,
        "version": provenance.version,
        "sources": provenance.sources.iter().map(source).collect::<Vec<_>>(),
    })
}

#[pymethods]
impl Table {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| NgramTable::open_any(path))
            .map(Self)
            .map_err(to_python)
    }

    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object(py, &metadata(self.0.metadata()))
    }

    #[getter]
    fn order(&self) -> usize {
        self.0.order()
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.0.vocab_size()
    }

    #[getter]
    fn total_tokens(&self) -> u64 {
        self.0.total_tokens()
    }

    fn after<'py>(&self, py: Python<'py>, context: Vec<TokenId>) -> Option<Counted<'py>> {
        let found = self.0.after(&context)?;
        Some(counted(py, found))
    }

    fn unigrams<'py>(&self, py: Python<'py>) -> Counted<'py> {
        counted(py, self.0.unigrams().iter().copied())
    }

    fn __repr__(&self) -> String {
        format!("Table({:?}, order={})", self.0.file(), self.0.order())
    }
}
