//! Whatever the JSON: an index is refused, or names files of its folder.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("weights-index", bytes));
