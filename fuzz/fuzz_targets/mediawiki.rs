//! Whatever follows the root element of a MediaWiki dump: pages are read or skipped.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // So that no other format is recognised: the Parquet library panics, which its reader catches
    // and the fuzzer does not.
    cascade_hostile::fuzz("corpus", &[b"<mediawiki>", bytes].concat());
});
