//! N-gram tables: counting, the file, and files that are not what they should be.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::collections::{BTreeMap, BTreeSet};

use cascade_core::Fingerprint;
use cascade_ngram::{Error, NgramLimits, NgramRows, NgramTable};
use proptest::prelude::*;

use crate::common::tables::{self, fingerprint, provenance};

const ALL: NgramLimits = NgramLimits {
    top_k: 255,
    min_count: 1,
    min_context: 1,
};

fn sample() -> NgramTable {
    let documents = [
        vec![1, 2, 1, 3, 1, 2, 1, 4],
        vec![2, 4, 1, 0],
        vec![1, 3, 1, 4],
    ];
    tables::table(2, 5, &documents, ALL)
}

type Lists = BTreeMap<Vec<u32>, (u64, Vec<(u32, u64)>)>;

/// Everything that a table knows, asked for one by one.
fn lists(table: &NgramTable) -> Lists {
    let tokens = 0..table.vocab_size() as u32;
    let pairs = tokens
        .clone()
        .flat_map(|a| tokens.clone().map(move |b| vec![a, b]));
    let contexts = tokens.clone().map(|a| vec![a]).chain(pairs);
    let known = contexts.filter_map(|context| {
        let after = table.after(&context)?;
        Some((context, (after.total(), after.collect())))
    });
    known.collect()
}

/// Everything that a table should know, counted naively.
fn counted(order: usize, documents: &[Vec<u32>], limits: NgramLimits) -> Lists {
    let mut counts: BTreeMap<Vec<u32>, BTreeMap<u32, u64>> = BTreeMap::new();
    for document in documents {
        for length in 1..=order {
            for window in document.windows(length + 1) {
                let (next, context) = window.split_last().unwrap();
                let of = counts.entry(context.to_vec()).or_default();
                *of.entry(*next).or_default() += 1;
            }
        }
    }
    let mut lists = Lists::new();
    for (context, next) in counts {
        let total = match (order, &context[..]) {
            // How often the token occurs, at the ends of documents too.
            (1, &[token]) => documents.iter().flatten().filter(|t| **t == token).count() as u64,
            _ => next.values().sum(),
        };
        let mut next: Vec<(u32, u64)> = next.into_iter().collect();
        next.retain(|pair| pair.1 >= limits.min_count);
        next.sort_by_key(|&(token, count)| (std::cmp::Reverse(count), token));
        next.truncate(limits.top_k);
        let rare = context.len() > 1 && total < limits.min_context;
        if !rare && !next.is_empty() {
            lists.insert(context, (total, next));
        }
    }
    lists
}

#[test]
fn knows_what_follows_one_and_two_tokens() {
    let table = sample();
    let after = |context: &[u32]| {
        table
            .after(context)
            .map(|after| (after.total(), after.len(), after.collect::<Vec<_>>()))
    };
    assert_eq!(
        after(&[1]),
        Some((7, 4, vec![(2, 2), (3, 2), (4, 2), (0, 1)]))
    );
    assert_eq!(after(&[2, 1]), Some((2, 2, vec![(3, 1), (4, 1)])));
    assert_eq!(after(&[3, 1]), Some((2, 2, vec![(2, 1), (4, 1)])));
    // Pairs that end a document, pairs that never occur, and what is no context.
    for unknown in [
        &[1, 0][..],
        &[0, 0],
        &[5],
        &[1, 5],
        &[5, 1],
        &[u32::MAX, 1],
        &[],
        &[1, 2, 1],
    ] {
        assert!(table.after(unknown).is_none(), "{unknown:?}");
    }
    assert_eq!(table.unigrams(), [(1, 7), (2, 3), (4, 3), (3, 2), (0, 1)]);
    assert_eq!(
        (table.order(), table.vocab_size(), table.total_tokens()),
        (2, 5, 16)
    );
    let metadata = table.metadata();
    assert_eq!((metadata.total_bigrams, metadata.total_trigrams), (13, 10));
    assert_eq!(
        (metadata.documents, &metadata.provenance),
        (3, &provenance())
    );
    let contexts: Vec<_> = table
        .contexts()
        .map(|(c, after)| (c, (after.total(), after.collect())))
        .collect();
    assert_eq!(contexts.len(), 4 + table.pairs());
    assert_eq!(contexts.into_iter().collect::<Lists>(), lists(&table));
}

#[test]
fn large_counts_keep_their_order_and_their_share() {
    let mut rows = NgramRows::new(2, 1000, ALL).unwrap();
    let count = |next: u32| 1_000_003 * u64::from(next * next % 7 + 1);
    for next in 0..200 {
        rows.add_pair(5, next, count(next)).unwrap();
    }
    rows.add_pair(6, 7, 123_456_789).unwrap();
    rows.add_triple([5, 6], 7, 3_000_000_000).unwrap();
    let table = rows.finish(1, provenance()).unwrap();
    let after = table.after(&[5]).unwrap();
    let exact: u64 = (0..200).map(count).sum();
    assert!(after.total() >= exact && after.total() - exact <= exact / 2048);
    let found: Vec<(u32, u64)> = after.clone().collect();
    assert!(found.is_sorted_by(|a, b| a.1 >= b.1));
    assert!(found.iter().map(|pair| pair.1).sum::<u64>() <= after.total());
    for (next, found) in found {
        assert!(found <= count(next) && count(next) - found <= count(next) / 64);
    }
    // Always continued in the same way.
    for context in [&[6][..], &[5, 6]] {
        let mut after = table.after(context).unwrap();
        assert_eq!(after.next(), Some((7, after.total())));
    }
}

proptest! {
    #[test]
    fn tables_are_what_counting_naively_gives(
        documents in prop::collection::vec(prop::collection::vec(0..6u32, 0..40), 0..8),
        order in 1..=2usize,
        (top_k, min_count, min_context) in (1..6usize, 0..4u64, 0..4u64),
    ) {
        let limits = NgramLimits { top_k, min_count, min_context };
        let table = tables::table(order, 40, &documents, limits);
        prop_assert_eq!(lists(&table), counted(order, &documents, limits));
        let reversed: Vec<_> = documents.into_iter().rev().collect();
        let again = tables::table(order, 40, &reversed, limits);
        prop_assert_eq!(again.as_bytes(), table.as_bytes());
    }

    #[test]
    fn vocabularies_of_any_size_are_held(
        (vocab_size, tokens) in prop_oneof![
            Just(65_536usize), Just(65_537), Just(128_256), Just(256_000)
        ].prop_flat_map(|size| {
            // Some that recur, some at the edge, some from anywhere.
            let token = prop_oneof![0..4u32, Just(size as u32 - 1), 0..size as u32];
            (Just(size), prop::collection::vec(token, 0..300))
        }),
    ) {
        let documents = [tokens];
        let table = tables::table(2, vocab_size, &documents, ALL);
        let expected = counted(2, &documents, ALL);
        for (context, after) in &expected {
            let found = table.after(context).unwrap();
            prop_assert_eq!(&(found.total(), found.collect::<Vec<_>>()), after);
        }
        prop_assert_eq!(table.contexts().count(), expected.len());
    }
}

#[test]
fn files_come_back_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.safetensors");
    let table = sample();
    for _ in 0..2 {
        // The second time over the first.
        table.write(&path).unwrap();
        let read = NgramTable::open(&path, &fingerprint()).unwrap();
        assert_eq!(lists(&read), lists(&table));
        assert_eq!(read.metadata(), table.metadata());
        assert_eq!(
            (read.unigrams(), read.as_bytes()),
            (table.unigrams(), table.as_bytes())
        );
    }
    let other = Fingerprint::from_stored("sha256:other");
    let message = NgramTable::open(&path, &other).unwrap_err().to_string();
    assert!(
        message.contains("sha256:test") && message.contains("sha256:other"),
        "{message}"
    );

    let bytes: &'static [u8] = Box::leak(std::fs::read(&path).unwrap().into());
    let embedded = NgramTable::from_static("embedded", bytes, &fingerprint()).unwrap();
    assert_eq!(
        (lists(&embedded), embedded.file()),
        (lists(&table), "embedded")
    );
    let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
    assert_eq!(
        file.tensor("entries").unwrap().shape(),
        [table.continuations()]
    );
}

#[test]
fn names_files_that_cannot_be_read_or_written() {
    let folder = tempfile::tempdir().unwrap();
    for path in [
        folder.path().join("missing.safetensors"),
        folder.path().into(),
    ] {
        let message = NgramTable::open_any(&path).unwrap_err().to_string();
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
    std::fs::write(folder.path().join("empty"), []).unwrap();
    let error = NgramTable::open_any(folder.path().join("empty")).unwrap_err();
    assert!(matches!(error, Error::Container { .. }), "{error}");
}

/// The error of loading bytes, in words.
fn refusal(bytes: Vec<u8>) -> String {
    NgramTable::from_bytes("broken.safetensors", bytes)
        .expect_err("must be refused")
        .to_string()
}

/// The bytes of a table, in parts that can be changed.
struct Parts {
    metadata: BTreeMap<String, String>,
    /// Name, type and bytes, in the order of the file.
    tensors: Vec<(String, safetensors::Dtype, Vec<u8>)>,
}

impl Parts {
    fn of(table: &NgramTable) -> Self {
        let bytes = table.as_bytes();
        let (_, header) = safetensors::SafeTensors::read_metadata(bytes).unwrap();
        let file = safetensors::SafeTensors::deserialize(bytes).unwrap();
        let metadata = header.metadata().clone().unwrap().into_iter().collect();
        let mut tensors: Vec<_> = file.tensors().into_iter().collect();
        tensors.sort_by_key(|(_, tensor)| tensor.data().as_ptr() as usize);
        let tensors = tensors
            .iter()
            .map(|(name, t)| (name.clone(), t.dtype(), t.data().to_vec()));
        Self {
            metadata,
            tensors: tensors.collect(),
        }
    }

    fn tensor(&mut self, name: &str) -> &mut Vec<u8> {
        &mut self
            .tensors
            .iter_mut()
            .find(|tensor| tensor.0 == name)
            .unwrap()
            .2
    }

    /// A file of these parts with the checksum that belongs to them.
    fn file(mut self) -> Vec<u8> {
        self.metadata.remove("crc32");
        let mut crc = crc32fast::Hasher::new();
        for text in self.metadata.iter().flat_map(|(key, value)| [key, value]) {
            crc.update(text.as_bytes());
            crc.update(&[0]);
        }
        self.tensors.iter().for_each(|tensor| crc.update(&tensor.2));
        self.metadata
            .insert("crc32".into(), format!("{:08x}", crc.finalize()));
        tables::safetensors_file(serde_json::json!(self.metadata), &self.tensors)
    }
}

#[test]
fn refuses_every_shortened_and_every_changed_file() {
    let bytes = sample().as_bytes().to_vec();
    for len in 0..bytes.len() {
        refusal(bytes[..len].to_vec());
    }
    for at in 0..bytes.len() {
        for bit in [1, 16] {
            let mut changed = bytes.clone();
            changed[at] ^= bit;
            // Spaces that pad the header can become other white space, and keys of tensors that are
            // not read cannot be there.
            if let Ok(table) = NgramTable::from_bytes("changed", changed) {
                assert_eq!(lists(&table), lists(&sample()), "byte {at}");
            }
        }
    }
}

/// Damage with a checksum that fits: what someone has made on purpose.
#[test]
fn refuses_content_that_no_builder_writes_and_names_it() {
    let change = |change: &dyn Fn(&mut Parts)| {
        let mut parts = Parts::of(&sample());
        change(&mut parts);
        refusal(parts.file())
    };
    type Damage<'a> = (&'a dyn Fn(&mut Parts), &'a str);
    let cases: [Damage<'_>; 18] = [
        (
            &|p| p.tensor("entries")[0] = 9,
            "continuations of context 1 are not in order",
        ),
        (
            &|p| p.tensor("entries")[3] = 0xff,
            "continuations of context 1 are not in order",
        ),
        (
            &|p| p.tensor("totals")[2] = 6,
            "continuations of context 1 are not in order",
        ),
        (
            &|p| p.tensor("totals")[0] = 1,
            "continuations of context 0 are not in order",
        ),
        (
            &|p| {
                let e = p.tensor("entries");
                let first = e[..4].to_vec();
                e[4..8].copy_from_slice(&first)
            },
            "continuations of context 1 are not in order",
        ),
        (&|p| p.tensor("lengths")[1] = 255, "sum up to"),
        (&|p| p.tensor("blocks")[4] = 255, "sum up to"),
        (
            &|p| p.tensor("blocks")[0] = 1,
            "block 0 of contexts begins at entry 1",
        ),
        (&|p| p.tensor("firsts")[0] = 1, "begin with token 0"),
        (&|p| p.tensor("firsts")[7] = 0xff, "begin with token 0"),
        (
            &|p| p.tensor("seconds")[0] = 5,
            "second tokens after token 1",
        ),
        (&|p| p.tensor("unigrams")[0] = 2, "frequencies of tokens"),
        (
            &|p| p.tensor("unigram_counts")[7] = 0xff,
            "frequencies of tokens",
        ),
        (
            &|p| {
                p.tensor("lengths").pop();
            },
            "tensor `lengths` has shape",
        ),
        (
            &|p| p.tensors.retain(|t| t.0 != "firsts"),
            "tensor `firsts` is missing",
        ),
        (
            &|p| {
                p.tensors.iter_mut().for_each(|t| {
                    if t.0 == "seconds" {
                        t.1 = safetensors::Dtype::I16
                    }
                })
            },
            "`seconds` is I16, expected U16",
        ),
        (
            &|p| {
                p.metadata.insert("order".into(), "1".into());
            },
            "a table of order 1 with",
        ),
        (
            &|p| {
                p.metadata.insert("vocab_size".into(), "2097152".into());
            },
            "a vocabulary of 2097152 tokens",
        ),
    ];
    for (i, (damage, expected)) in cases.iter().enumerate() {
        let message = change(damage);
        assert!(
            message.contains("broken.safetensors") && message.contains(expected),
            "{i}: {message}"
        );
    }
    for key in Parts::of(&sample())
        .metadata
        .keys()
        .filter(|key| *key != "crc32")
    {
        for value in [None, Some("-1"), Some("18446744073709551616")] {
            let mut parts = Parts::of(&sample());
            parts.metadata.remove(key);
            value.map(|value| parts.metadata.insert(key.clone(), value.into()));
            let text = ["tokenizer", "command", "version"].contains(&key.as_str());
            if value.is_none() || !text {
                let message = refusal(parts.file());
                let named = message.contains(key.as_str()) || message.contains("version");
                assert!(
                    named || message.contains("not an n-gram table"),
                    "{key}: {message}"
                );
            }
        }
    }
    let mut parts = Parts::of(&sample());
    parts.metadata.insert("command".into(), "another".into());
    assert!(
        NgramTable::from_bytes("fine", parts.file()).is_ok(),
        "the helper itself works"
    );
}

proptest! {
    /// Whatever the bytes are, reading ends and what is accepted can be used.
    #[test]
    fn damage_with_a_fitting_checksum_never_panics(
        changes in prop::collection::vec((0..8usize, any::<prop::sample::Index>(), any::<u8>()), 1..4)
    ) {
        let mut parts = Parts::of(&sample());
        for (tensor, at, value) in changes {
            let bytes = &mut parts.tensors[tensor].2;
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(table) = NgramTable::from_bytes("changed", parts.file()) {
            for (context, after) in lists(&table) {
                let tokens: BTreeSet<u32> = after.1.iter().map(|pair| pair.0).collect();
                prop_assert_eq!(tokens.len(), after.1.len(), "{:?}", context);
                prop_assert!(after.1.iter().map(|pair| pair.1).sum::<u64>() <= after.0);
            }
        }
    }
}

#[test]
fn what_tables_cannot_hold_is_refused() {
    let limits = |top_k| NgramLimits { top_k, ..ALL };
    for (order, vocab_size, top_k, expected) in [
        (0, 9, 16, "contexts of 0 tokens"),
        (3, 9, 16, "contexts of 3 tokens"),
        (2, 0, 16, "a vocabulary of 0 tokens"),
        (2, 1 << 21, 16, "a vocabulary of 2097152 tokens"),
        (2, 9, 0, "0 continuations"),
        (2, 9, 256, "256 continuations"),
    ] {
        let message = NgramRows::new(order, vocab_size, limits(top_k))
            .unwrap_err()
            .to_string();
        assert!(message.contains(expected), "{message}");
    }
    let rows = || NgramRows::new(2, 9, ALL).unwrap();
    assert!(rows().add_token(9, 1).is_err() && rows().add_pair(1, 9, 1).is_err());
    assert!(rows().add_triple([9, 1], 1, 1).is_err());
    let mut unsorted = rows();
    unsorted.add_triple([1, 2], 3, 1).unwrap();
    assert!(matches!(
        unsorted.add_triple([1, 2], 3, 1),
        Err(Error::Unsorted { .. })
    ));
    assert!(matches!(
        unsorted.add_triple([1, 1], 4, 1),
        Err(Error::Unsorted { .. })
    ));
    let mut order_1 = NgramRows::new(1, 9, ALL).unwrap();
    assert!(order_1.add_triple([1, 2], 3, 1).is_err());
    let mut full = rows();
    full.add_pair(1, 2, 1 << 60).unwrap();
    let message = full.finish(1, provenance()).unwrap_err().to_string();
    assert!(message.contains("tables hold up to"), "{message}");
    assert!(matches!(
        rows().add_pair(0, 9, 1),
        Err(Error::TokenOutOfVocabulary { index: 1, .. })
    ));
    let empty = rows().finish(0, provenance()).unwrap();
    assert_eq!((lists(&empty), empty.unigrams()), (Lists::new(), &[][..]));
}
