//! The tables in `ngram-data` are sound, and what its README says of them is true.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::{fmt::Write, fs, path::PathBuf, sync::Arc};

use cascade_core::{Budget, Drafter};
use cascade_ngram::{Bigram, MaxGram, NgramTable};
use sha2::{Digest, Sha256};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ngram-data")
}

#[test]
fn are_as_the_readme_says() {
    let readme = fs::read_to_string(folder().join("README.md")).unwrap();
    for (name, vocab_size) in [("demo", 1280), ("t5", 32_100), ("llama", 32_000)] {
        let file = format!("{name}.safetensors");
        let bytes = fs::read(folder().join(&file)).unwrap();
        let table = NgramTable::open_any(folder().join(&file)).unwrap();
        assert_eq!((table.vocab_size(), table.order()), (vocab_size, 1));
        let parts = [
            grouped(bytes.len()),
            grouped(table.continuations()),
            table.metadata().provenance.tokenizer.to_string()[7..19].to_owned(),
        ];
        check_row(&readme, &file, &bytes, &parts);
    }
}

/// The shipped tables of order 1 are files of an earlier format, read here independently.
#[test]
fn old_files_give_the_drafts_that_they_gave() {
    for name in ["demo", "t5", "llama"] {
        let path = folder().join(format!("{name}.safetensors"));
        let bytes = fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let of = |tensor: &str| file.tensor(tensor).unwrap().data().to_vec();
        let longs = |tensor: &str| -> Vec<u64> {
            let bytes = of(tensor);
            bytes
                .as_chunks()
                .0
                .iter()
                .map(|b| u64::from_le_bytes(*b))
                .collect()
        };
        let successors: Vec<u32> = of("successors")
            .as_chunks()
            .0
            .iter()
            .map(|b| u32::from_le_bytes(*b))
            .collect();
        let (offsets, frequencies) = (longs("offsets"), longs("unigram_counts"));
        let row = |token: u32| {
            let at = token as usize;
            &successors[offsets[at] as usize..offsets[at + 1] as usize]
        };
        let table = Arc::new(NgramTable::open_any(&path).unwrap());
        let mut bigram = Bigram::new(table.clone());
        let mut filled = MaxGram::new().with_bigram(table.clone());
        for token in 0..table.vocab_size() as u32 {
            let after = table.after(&[token]);
            let total = after.as_ref().map_or(0, |after| after.total());
            let frequency = frequencies[token as usize];
            let exact = row(token).is_empty() || total.abs_diff(frequency) <= frequency / 2048;
            assert!(
                exact,
                "{name}: {token} occurs {frequency} times, not {total}"
            );
            let found = after.into_iter().flatten().map(|pair| pair.0);
            assert_eq!(
                found.collect::<Vec<_>>(),
                row(token),
                "{name}: after {token}"
            );
            let chain = std::iter::successors(Some(token), |&last| row(last).first().copied());
            let chain: Vec<u32> = chain.skip(1).take(6).collect();
            for drafter in [&mut bigram as &mut dyn Drafter, &mut filled] {
                let draft = drafter.propose(&[token], Budget::chain(6)).into_tree();
                assert_eq!(draft.tokens().collect::<Vec<_>>(), chain, "{name}: {token}");
            }
        }
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
        let bigrams = NgramTable::open_any(folder().join(format!("{name}.safetensors"))).unwrap();
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
    let table = NgramTable::open_any(folder().join("llama.safetensors")).unwrap();
    assert_eq!(table.after(&[3303]).unwrap().next().unwrap().0, 3900);
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
