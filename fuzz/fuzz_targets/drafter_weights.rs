//! Whatever the bytes: weights of a drafter are refused, or it drafts with them.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("drafter-weights", bytes));
