//! The tables in `ngram-data` are sound, and what its README says of them is true.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::{fmt::Write, fs, path::PathBuf};

use cascade_ngram::{BigramTable, NgramTable};
use sha2::{Digest, Sha256};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ngram-data")
}

#[test]
fn are_as_the_readme_says() {
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for (name, vocab_size) in [("demo", 1280), ("t5", 32_100), ("llama", 32_000)] {
        let file = format!("{name}.safetensors");
        let table = BigramTable::open_any(folder().join(&file)).unwrap();
        assert_eq!(table.vocab_size(), vocab_size, "{name}");
        let parts = [
            grouped(table.as_bytes().len()),
            grouped(table.pairs()),
            table.metadata().provenance.tokenizer.to_string()[7..19].to_owned(),
        ];
        check_row(&readme, &file, table.as_bytes(), &parts);
    }
}

#[test]
fn tables_of_order_2_are_as_the_readme_says() {
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for (name, vocab_size) in [("t5", 32_100), ("llama", 32_000)] {
        let file = format!("{name}-order-2.safetensors");
        let table = NgramTable::open_any(folder().join(&file)).unwrap();
        assert_eq!((table.vocab_size(), table.order()), (vocab_size, 2));
        let parts = [
            grouped(table.as_bytes().len()),
            grouped(table.continuations()),
            grouped(table.total_tokens() as usize),
            table.metadata().provenance.tokenizer.to_string()[7..19].to_owned(),
        ];
        check_row(&readme, &file, table.as_bytes(), &parts);
        let bigrams = BigramTable::open_any(folder().join(format!("{name}.safetensors"))).unwrap();
        let tokenizer = &bigrams.metadata().provenance.tokenizer;
        table.check_tokenizer(tokenizer).unwrap();
    }
}

/// The row of a file in the README has its digest and these parts.
fn check_row(readme: &str, file: &str, bytes: &[u8], parts: &[String]) {
    let hash = Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
    let row = readme
        .lines()
        .find(|line| line.starts_with(&format!("| `{file}` |")))
        .unwrap_or_else(|| panic!("{file} has no row"));
    for part in parts.iter().chain([&hash]) {
        assert!(row.contains(part), "{row}: {part}");
    }
}

#[test]
fn know_what_follows_a_token() {
    // LLaMA's "▁United" is 3303, and "▁States" 3900.
    let table = BigramTable::open_any(folder().join("llama.safetensors")).unwrap();
    assert_eq!(table.best(3303), Some(3900));
    // And after "▁the▁United", too.
    let table = NgramTable::open_any(folder().join("llama-order-2.safetensors")).unwrap();
    let best = |context: &[u32]| table.after(context).unwrap().next().unwrap().0;
    assert_eq!((best(&[3303]), best(&[278, 3303])), (3900, 3900));
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
