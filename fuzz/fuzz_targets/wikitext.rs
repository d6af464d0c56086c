//! Whatever the markup: there is no more text than there was markup.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("wikitext", bytes));
