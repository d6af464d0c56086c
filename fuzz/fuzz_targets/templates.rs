//! Whatever the text: every prompt template takes it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("templates", bytes));
