//! Whatever the YAML: a configuration is read, or refused by name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("config", bytes));
