//! The tables in `ngram-data` are sound, and what its README says of them is true.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::{fmt::Write, fs, path::PathBuf};

use cascade_ngram::BigramTable;
use sha2::{Digest, Sha256};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../ngram-data")
}

#[test]
fn are_as_the_readme_says() {
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for (name, vocab_size) in [
        ("demo-t5", 2048),
        ("demo-llama", 2048),
        ("t5", 32_100),
        ("llama", 32_000),
    ] {
        let file = format!("{name}.safetensors");
        let table = BigramTable::open_any(folder().join(&file)).unwrap();
        assert_eq!(table.vocab_size(), vocab_size, "{name}");
        let hash = Sha256::digest(table.as_bytes())
            .iter()
            .fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            });
        let row = readme
            .lines()
            .find(|line| line.starts_with(&format!("| `{file}` |")))
            .unwrap_or_else(|| panic!("{file} has no row"));
        for part in [
            hash,
            grouped(table.as_bytes().len()),
            grouped(table.pairs()),
            table.metadata().provenance.tokenizer.to_string()[7..19].to_owned(),
        ] {
            assert!(row.contains(&part), "{row}: {part}");
        }
    }
}

#[test]
fn know_what_follows_a_token() {
    // LLaMA's "▁United" is 3303, and "▁States" 3900.
    let table = BigramTable::open_any(folder().join("llama.safetensors")).unwrap();
    assert_eq!(table.best(3303), Some(3900));
}

/// 1234567 as 1,234,567.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let head = digits.len() % 3;
    (0..digits.len())
        .filter(|i| *i != 0 && i % 3 == head)
        .rev()
        .fold(digits.clone(), |mut text, i| {
            text.insert(i, ',');
            text
        })
}
