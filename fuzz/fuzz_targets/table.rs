//! Whatever the bytes: a table is refused, or all of it can be read, and every id is in its
//! vocabulary.
#![no_main]

use cascade_ngram::BigramTable;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(table) = BigramTable::from_bytes("fuzzed", bytes.to_vec()) else {
        return;
    };
    let tokens = table.vocab_size() as u32;
    let pairs: usize = (0..tokens)
        .map(|token| table.successors(token).inspect(|pair| assert!(pair.0 < tokens)).count())
        .sum();
    assert_eq!(pairs, table.pairs());
});
