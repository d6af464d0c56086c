//! Whether a count is finished already.

use std::path::{Path, PathBuf};

use cascade_core::Fingerprint;
use cascade_ngram::{NgramTable, Source};

use crate::source::{describe, is_stdin};

/// Whether a table is what a command makes of these inputs, so that the command need not run again:
/// it names the same command, tokenizer, and names and sizes of inputs. Standard input has neither,
/// so its tables never are.
pub fn is_result_of(
    path: &Path,
    command: &str,
    tokenizer: &Fingerprint,
    inputs: &[PathBuf],
) -> bool {
    let mut sources: Vec<Source> = inputs.iter().map(|input| describe(input)).collect();
    sources.sort();
    let named = !inputs.iter().any(|input| is_stdin(input));
    NgramTable::open_any(path).is_ok_and(|table| {
        let of = &table.metadata().provenance;
        named && of.command == command && of.tokenizer == *tokenizer && of.sources == sources
    })
}
