//! Whatever the bytes: an n-gram table is refused, or all of it can be read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("ngram-table", bytes));
