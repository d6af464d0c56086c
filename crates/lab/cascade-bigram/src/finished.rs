//! Whether a count is finished already.

use std::path::{Path, PathBuf};

use cascade_core::Fingerprint;
use cascade_ngram::{NgramTable, Source};

use crate::part::PartReader;
use crate::source::describe;

/// Whether a table or a file of counts is what a command makes of these inputs, so that the command
/// need not run again: it names the same command, tokenizer, and names and sizes of inputs.
/// Standard input has neither, so its results never are.
pub fn is_result_of(
    path: &Path,
    command: &str,
    tokenizer: &Fingerprint,
    inputs: &[PathBuf],
) -> bool {
    let mut expected: Vec<Source> = inputs.iter().map(|input| describe(input)).collect();
    expected.sort();
    let named = inputs.iter().all(|input| input != Path::new("-"));
    let equal = |found: (&str, &Fingerprint, &[Source])| {
        named && found == (command, tokenizer, expected.as_slice())
    };
    // It reads bigram tables, too.
    if let Ok(table) = NgramTable::open_any(path) {
        let of = &table.metadata().provenance;
        return equal((&of.command, &of.tokenizer, &of.sources));
    }
    let part = PartReader::open(path);
    let info = part.as_ref().ok().and_then(PartReader::info);
    info.is_some_and(|info| equal((info.command(), &info.tokenizer(), info.sources())))
}
