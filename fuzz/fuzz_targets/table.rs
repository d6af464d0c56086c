//! Whatever the bytes: a table is refused, or all of it can be read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("table", bytes));
