//! Whatever the markup: no panic, and no more text than there was markup.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &str| {
    assert!(cascade_corpus::wikitext::strip(source).len() <= source.len());
});
