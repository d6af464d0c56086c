//! Bigram tables of earlier versions, read as tables of order 1, and files that are not what they
//! should be; and lists of the paper's authors.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::fs;

use cascade_core::Fingerprint;
use cascade_ngram::{NgramTable, import_json};
use proptest::prelude::*;

use crate::common::tables::{bigram_file, bigrams, fingerprint, provenance};

/// Successors of 1 are 2 and 3, of 2 are 1 and 4, of 3 and 4 is 1.
fn sample() -> Vec<u8> {
    let rows = [
        vec![],
        vec![(2, 2), (3, 2)],
        vec![(1, 1), (4, 1)],
        vec![(1, 2)],
        vec![(1, 1)],
    ];
    bigram_file(&rows, &[1, 6, 3, 2, 2])
}

/// Number of pairs in the sample.
const PAIRS: usize = 6;

fn rows(table: &NgramTable) -> Vec<Vec<(u32, u64)>> {
    (0..table.vocab_size() as u32)
        .map(|token| table.after(&[token]).into_iter().flatten().collect())
        .collect()
}

/// The error of loading bytes, in words.
fn refusal(bytes: Vec<u8>) -> String {
    NgramTable::from_bytes("broken.safetensors", bytes)
        .expect_err("must be refused")
        .to_string()
}

#[test]
fn become_tables_of_order_1_whose_totals_are_frequencies() {
    let table = NgramTable::from_bytes("t", sample()).unwrap();
    assert_eq!(
        (table.order(), table.file(), table.vocab_size()),
        (1, "t", 5)
    );
    assert_eq!(rows(&table)[1], [(2, 2), (3, 2)]);
    assert_eq!(rows(&table)[2], [(1, 1), (4, 1)]);
    let total = |token| table.after(&[token]).map(|after| after.total());
    assert_eq!([0, 1, 2, 5].map(total), [None, Some(6), Some(3), None]);
    assert_eq!(table.unigrams(), [(1, 6), (2, 3), (3, 2), (4, 2), (0, 1)]);
    let metadata = table.metadata();
    assert_eq!((metadata.documents, metadata.total_tokens), (3, 14));
    assert_eq!((metadata.total_bigrams, metadata.top_k), (11, 2));
    assert_eq!(metadata.provenance, provenance());
    // What is counted now has the same content.
    let documents = [vec![1, 2, 1, 3, 1, 2], vec![2, 4, 1, 0], vec![1, 3, 1, 4]];
    let counted = bigrams(5, &documents, 2);
    assert_eq!(table.as_bytes(), counted.as_bytes());
}

#[test]
fn refuses_another_tokenizer_and_shows_both() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.safetensors");
    fs::write(&path, sample()).unwrap();
    assert!(NgramTable::open(&path, &fingerprint()).is_ok());
    let other = Fingerprint::from_stored("sha256:other");
    let message = NgramTable::open(&path, &other).unwrap_err().to_string();
    for part in [
        "table.safetensors",
        "sha256:test",
        "sha256:other",
        "cascade-lab bigram build",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn refuses_every_shortened_file() {
    let bytes = sample();
    for len in 0..bytes.len() {
        let message = refusal(bytes[..len].to_vec());
        assert!(
            message.starts_with("broken.safetensors is not a whole safetensors file"),
            "{message}"
        );
    }
}

/// The sample with its header changed, as text.
fn with_header(from: &str, to: &str) -> Vec<u8> {
    let bytes = sample();
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + len]).unwrap();
    assert!(header.contains(from), "{header}");
    let header = header.replacen(from, to, 1);
    let mut changed = (header.len() as u64).to_le_bytes().to_vec();
    changed.extend(header.as_bytes());
    changed.extend(&bytes[8 + len..]);
    changed
}

#[test]
fn says_what_is_wrong_with_a_header() {
    for (from, to, message) in [
        (
            "cascade-bigram",
            "trigram",
            "is not an n-gram table: its metadata has no `format`",
        ),
        (
            "__metadata__",
            "metadata",
            "is not a whole safetensors file",
        ),
        (
            "\"format_version\":\"2\"",
            "\"format_version\":\"1\"",
            "of format version 1, and this program reads version 2",
        ),
        (
            "\"top_k\":\"2\"",
            "\"top_k\":\"two\"",
            "the metadata `top_k`",
        ),
        ("\"sources\"", "\"origins\"", "the metadata `sources`"),
        (
            "\"successors\"",
            "\"success\"",
            "tensor `successors` is missing",
        ),
        (
            "\"successors\":{\"dtype\":\"U32\"",
            "\"successors\":{\"dtype\":\"F32\"",
            "tensor `successors` is F32, expected U32",
        ),
        (
            "\"counts\":{\"dtype\":\"U64\"",
            "\"counts\":{\"dtype\":\"I64\"",
            "tensor `counts` is I64, expected U64",
        ),
        (
            "\"offsets\":{\"dtype\":\"U64\",\"shape\":[6]",
            "\"offsets\":{\"dtype\":\"U64\",\"shape\":[2,3]",
            "tensor `offsets` has shape [2, 3], expected one dimension",
        ),
    ] {
        let found = refusal(with_header(from, to));
        assert!(found.contains("broken.safetensors"), "{found}");
        assert!(found.contains(message), "{found}");
    }
}

#[test]
fn says_what_is_wrong_with_sizes() {
    let [pairs, rows] = [PAIRS * 8, (5 + 1) * 8];
    // One offset less, one unigram count more: the same bytes.
    let header = |v: usize| {
        let end = pairs + rows;
        format!(
            "\"offsets\":{{\"dtype\":\"U64\",\"shape\":[{}],\"data_offsets\":[{pairs},{}]}},\
             \"unigram_counts\":{{\"dtype\":\"U64\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
            6 - v,
            end - 8 * v,
            5 + v,
            end - 8 * v,
            end + 40
        )
    };
    let message = refusal(with_header(&header(0), &header(1)));
    assert!(
        message.contains("tensor `offsets` has shape [5], expected [7], one more than"),
        "{message}"
    );
}

/// Pairs before the first row would belong to no token.
#[test]
fn the_first_row_begins_with_the_first_pair() {
    let mut bytes = bigram_file(&[vec![(1, 1), (2, 1)], vec![(0, 1)], vec![]], &[2, 1, 1]);
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let offsets = data + 8 * 3;
    bytes[offsets..offsets + 8].copy_from_slice(&1u64.to_le_bytes());
    let message = refusal(bytes);
    assert!(
        message.contains("the offsets of token 0 are 1..2"),
        "{message}"
    );
}

#[test]
fn says_what_is_wrong_with_the_rows() {
    let bytes = sample();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (counts, offsets) = (data, data + 8 * PAIRS);
    let successors = offsets + 8 * (6 + 5);
    // Token 1 has pairs 0 and 1: (2, 2) and (3, 2).
    for (at, value, message) in [
        (
            offsets,
            &1u64.to_le_bytes()[..],
            "the offsets of token 0 are 1..0",
        ),
        (
            offsets + 16,
            &u64::MAX.to_le_bytes(),
            "the offsets of token 1 are 0..",
        ),
        (
            offsets + 24,
            &5u64.to_le_bytes(),
            "the successors of token 2 are not in order",
        ),
        (
            offsets + 40,
            &5u64.to_le_bytes(),
            "the offsets of token 4 are",
        ),
        (
            successors + 4,
            &5u32.to_le_bytes(),
            "token 5 at index 1 of the counts is outside the vocabulary of 5",
        ),
        (
            successors,
            &4u32.to_le_bytes(),
            "the successors of token 1 are not in order",
        ),
        (
            successors,
            &3u32.to_le_bytes(),
            "the count of token 3 after token 1 came out of order or twice",
        ),
        (
            counts,
            &1u64.to_le_bytes(),
            "the successors of token 1 are not in order",
        ),
        (
            counts + 8,
            &0u64.to_le_bytes(),
            "the successors of token 1 are not in order",
        ),
    ] {
        let mut broken = bytes.clone();
        broken[at..at + value.len()].copy_from_slice(value);
        let found = refusal(broken);
        assert!(
            found.contains("broken.safetensors") && found.contains(message),
            "{found}"
        );
    }
}

#[test]
fn imports_the_authors_lists() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("next.json");
    fs::write(&path, "[2, 0, 2]").unwrap();
    let table = import_json(&path, provenance()).unwrap();
    assert_eq!(rows(&table), [[(2, 1)], [(0, 1)], [(2, 1)]]);
    assert_eq!(table.metadata().top_k, 1);
    for (json, message) in [
        ("[2, 0, 3]", "token 3 at index 2 of"),
        ("[2, -1]", "is not a JSON list of token ids"),
        ("{\"0\": 1}", "is not a JSON list of token ids"),
        ("[1, 2", "is not a JSON list of token ids"),
        ("[]", "a vocabulary of 0 tokens"),
    ] {
        fs::write(&path, json).unwrap();
        let error = import_json(&path, provenance()).unwrap_err().to_string();
        assert!(
            error.contains(message) && error.contains("next.json"),
            "{error}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn corrupt_bytes_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = sample();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // Whatever passes the checks can be read.
        if let Ok(table) = NgramTable::from_bytes("corrupt", bytes) {
            prop_assert!(rows(&table).iter().flatten().all(|pair| (pair.0 as usize) < table.vocab_size()));
        }
    }
}
