//! Whatever the CSV: samples are read, or refused by name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("dataset-csv", bytes));
