//! Whatever the bytes: a trace is read, or refused by name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("trace", bytes));
