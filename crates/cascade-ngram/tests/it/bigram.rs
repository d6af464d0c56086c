//! Bigram tables: counting, the file, and files that are not what they should be.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::fs;

use cascade_core::Fingerprint;
use cascade_ngram::{export_json, import_json, BigramRows, BigramTable, Error, NgramBuilder};
use proptest::prelude::*;

use crate::common::tables::{builder, fingerprint, provenance};

fn sample() -> BigramTable {
    let documents = [vec![1, 2, 1, 3, 1, 2], vec![2, 4, 1, 0], vec![1, 3, 1, 4]];
    builder(1, 5, &documents).finish_bigrams(2, 1).unwrap()
}

fn rows(table: &BigramTable) -> Vec<Vec<(u32, u64)>> {
    (0..table.vocab_size() as u32)
        .map(|token| table.successors(token).collect())
        .collect()
}

/// The error of loading bytes, in words.
fn refusal(bytes: Vec<u8>) -> String {
    BigramTable::from_bytes("broken.safetensors", bytes)
        .expect_err("must be refused")
        .to_string()
}

#[test]
fn counts_within_documents_and_keeps_the_most_frequent() {
    let table = sample();
    // 1 → 2 twice, 3 twice, 0 once, 4 once; equal counts by rising token.
    assert_eq!(rows(&table)[1], [(2, 2), (3, 2)]);
    assert_eq!(rows(&table)[2], [(1, 1), (4, 1)]);
    assert_eq!(rows(&table)[0], []);
    assert_eq!(table.best(3), Some(1));
    assert_eq!(
        (table.best(0), table.best(5), table.best(u32::MAX)),
        (None, None, None)
    );
    // 5 is the first token outside the vocabulary.
    assert_eq!([1, 5, 9].map(|token| table.unigram_count(token)), [6, 0, 0]);
    assert_eq!([5, 9].map(|token| table.successors(token).count()), [0, 0]);
    assert_eq!(table.successors(1).size_hint(), (2, Some(2)));
    let metadata = table.metadata();
    assert_eq!((metadata.documents, metadata.total_tokens), (3, 14));
    assert_eq!((metadata.total_bigrams, table.pairs()), (11, 6));
    assert_eq!(metadata.provenance, provenance());
}

#[test]
fn a_builder_tells_how_far_it_is() {
    let documents = [vec![1, 2, 1], vec![2, 4, 1, 2]];
    let so_far = builder(1, 5, &documents);
    assert_eq!((so_far.documents(), so_far.total_tokens()), (2, 7));
}

#[test]
fn rare_pairs_can_be_dropped() {
    let table = builder(1, 3, &[vec![0, 1, 0, 1, 2]])
        .finish_bigrams(4, 2)
        .unwrap();
    assert_eq!(rows(&table), [vec![(1, 2)], vec![], vec![]]);
}

#[test]
fn a_document_with_a_foreign_token_is_not_counted() {
    let mut builder = builder(1, 3, &[]);
    let error = builder.add_document(&[0, 1, 3]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "token 3 at index 2 of a document is outside the vocabulary of 3; is it from the same tokenizer?"
    );
    assert_eq!((builder.documents(), builder.total_tokens()), (0, 0));
    assert!(matches!(
        builder.merge(NgramBuilder::new(1, 4, provenance())),
        Err(Error::Merge { left: 3, right: 4 })
    ));
}

#[test]
fn files_come_back_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.safetensors");
    let table = sample();
    for _ in 0..2 {
        // The second time over the first.
        table.write(&path).unwrap();
        let read = BigramTable::open(&path, &fingerprint()).unwrap();
        assert_eq!(rows(&read), rows(&table));
        assert_eq!(read.metadata(), table.metadata());
        assert_eq!(read.as_bytes(), table.as_bytes());
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let bytes: &'static [u8] = Box::leak(fs::read(&path).unwrap().into());
    let embedded = BigramTable::from_static("embedded", bytes, &fingerprint()).unwrap();
    assert_eq!(
        (rows(&embedded), embedded.file()),
        (rows(&table), "embedded")
    );
}

#[test]
fn other_readers_of_safetensors_understand_the_file() {
    let table = sample();
    let file = safetensors::SafeTensors::deserialize(table.as_bytes()).unwrap();
    let successors = file.tensor("successors").unwrap();
    assert_eq!(successors.shape(), [table.pairs()]);
    assert_eq!(successors.data()[..4], rows(&table)[1][0].0.to_le_bytes());
    // All tensors begin at multiples of eight.
    let header = u64::from_le_bytes(table.as_bytes()[..8].try_into().unwrap());
    assert_eq!(header % 8, 0);
}

#[test]
fn refuses_another_tokenizer_and_shows_both() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.safetensors");
    sample().write(&path).unwrap();
    let other = Fingerprint::from_stored("sha256:other");
    let message = BigramTable::open(&path, &other).unwrap_err().to_string();
    for part in [
        "table.safetensors",
        "sha256:test",
        "sha256:other",
        "cascade bigram build",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn names_files_that_cannot_be_read_or_written() {
    let folder = tempfile::tempdir().unwrap();
    for path in [
        folder.path().join("missing.safetensors"),
        folder.path().into(),
    ] {
        let message = BigramTable::open_any(&path).unwrap_err().to_string();
        assert_eq!(message, format!("cannot read {}", path.display()));
        // Neither a folder that is not there nor one in the file's place.
        let path = path.join("x").join("..").join("y");
        let target = if path.parent().unwrap().exists() {
            folder.path()
        } else {
            &path
        };
        assert!(matches!(sample().write(target), Err(Error::Write { .. })));
    }
    fs::write(folder.path().join("empty"), []).unwrap();
    let error = BigramTable::open_any(folder.path().join("empty")).unwrap_err();
    assert!(matches!(error, Error::Container { .. }), "{error}");
}

#[test]
fn refuses_every_shortened_file() {
    let bytes = sample().as_bytes().to_vec();
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
    let bytes = sample().as_bytes().to_vec();
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
            "is not a bigram table: its metadata has no `format`",
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
    let table = sample();
    let [pairs, rows] = [table.pairs() * 8, (table.vocab_size() + 1) * 8];
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
    let table = builder(1, 3, &[vec![0, 1, 0, 2]])
        .finish_bigrams(2, 1)
        .unwrap();
    assert_eq!(rows(&table)[0], [(1, 1), (2, 1)]);
    let mut bytes = table.as_bytes().to_vec();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let offsets = data + 8 * table.pairs();
    bytes[offsets..offsets + 8].copy_from_slice(&1u64.to_le_bytes());
    let message = refusal(bytes);
    assert!(
        message.contains("the offsets of token 0 are 1..2"),
        "{message}"
    );
}

#[test]
fn says_what_is_wrong_with_the_rows() {
    let bytes = sample().as_bytes().to_vec();
    let data = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let pairs = sample().pairs();
    let (counts, offsets) = (data, data + 8 * pairs);
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
            successors,
            &5u32.to_le_bytes(),
            "successor 5 of token 1 is outside the vocabulary of 5",
        ),
        (
            successors,
            &4u32.to_le_bytes(),
            "the successors of token 1 are not in order",
        ),
        (
            successors,
            &3u32.to_le_bytes(),
            "the successors of token 1 are not in order",
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
        ("[]", "tensor `unigram_counts` has shape [0]"),
    ] {
        fs::write(&path, json).unwrap();
        let error = import_json(&path, provenance()).unwrap_err().to_string();
        assert!(
            error.contains(message) && error.contains("next.json"),
            "{error}"
        );
    }
}

#[test]
fn exports_what_it_imports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("next.json");
    // Nothing is known to follow 0: the most frequent token stands in, 1.
    assert_eq!(export_json(&sample()), "[1,2,1,1,1]");
    fs::write(&path, export_json(&sample())).unwrap();
    let table = import_json(&path, provenance()).unwrap();
    assert_eq!(export_json(&table), "[1,2,1,1,1]");
}

#[test]
fn rows_come_in_order() {
    let mut rows = BigramRows::new(3, 2, 1);
    rows.add_pair(0, 2, 1).unwrap();
    for (token, successor) in [(0, 2), (0, 1)] {
        let error = rows.add_pair(token, successor, 1).unwrap_err();
        assert!(matches!(error, Error::Unsorted { .. }), "{error}");
    }
    assert!(matches!(
        rows.add_pair(3, 0, 1),
        Err(Error::TokenOutOfVocabulary { token: 3, .. })
    ));
}

fn documents() -> impl Strategy<Value = (usize, Vec<Vec<u32>>)> {
    (1..20u32).prop_flat_map(|vocab_size| {
        let document = prop::collection::vec(0..vocab_size, 0..30);
        (
            Just(vocab_size as usize),
            prop::collection::vec(document, 0..8),
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_depend_on_content_alone((vocab_size, documents) in documents(), cut in 0..8usize) {
        let table = builder(1, vocab_size, &documents).finish_bigrams(3, 1).unwrap();
        let cut = cut.min(documents.len());
        let mut reversed = documents.clone();
        reversed.reverse();
        let other_order = builder(1, vocab_size, &reversed).finish_bigrams(3, 1).unwrap();
        prop_assert_eq!(other_order.as_bytes(), table.as_bytes());
        let mut merged = builder(1, vocab_size, &documents[cut..]);
        merged.merge(builder(1, vocab_size, &documents[..cut])).unwrap();
        let merged = merged.finish_bigrams(3, 1).unwrap();
        prop_assert_eq!(merged.as_bytes(), table.as_bytes());

        let read = BigramTable::from_bytes("copy", table.as_bytes().to_vec()).unwrap();
        prop_assert_eq!(rows(&read), rows(&table));
        prop_assert_eq!(read.metadata(), table.metadata());
    }

    #[test]
    fn corrupt_bytes_never_panic(
        (vocab_size, documents) in documents(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let table = builder(1, vocab_size, &documents).finish_bigrams(3, 1).unwrap();
        let mut bytes = table.as_bytes().to_vec();
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        // Whatever passes the checks can be read.
        if let Ok(table) = BigramTable::from_bytes("corrupt", bytes) {
            prop_assert!(rows(&table).iter().flatten().all(|pair| (pair.0 as usize) < table.vocab_size()));
        }
    }
}
