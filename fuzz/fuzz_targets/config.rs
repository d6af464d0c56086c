//! Whatever the YAML: a configuration is read or refused with the label in the message, no panic.
#![no_main]

use std::path::Path;

use cascade_config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(error) = Config::parse(text, "fuzzed", Path::new("/nowhere")) {
        assert!(error.to_string().contains("fuzzed"), "{error}");
    }
});
