//! Whatever the bytes: a checkpoint is refused, or its model scores.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("weights", bytes));
