//! Whatever the bytes: a GGUF file is refused with its name in the message, or its model has a
//! tokenizer that encodes.
#![no_main]

use cascade_core::TextCodec;
use cascade_models::{load, LoadOptions, ModelSource};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("fuzzed.gguf");
    std::fs::write(&path, bytes).expect("it has room");
    let options = LoadOptions { progress: false, ..LoadOptions::default() };
    match load(&ModelSource::File(path), &options) {
        // Damaged tables of characters show when they are used.
        Ok(model) => _ = model.tokenizer.encode("Some text, naïve.\n"),
        Err(error) => assert!(error.to_string().contains("fuzzed.gguf"), "{error}"),
    }
});
