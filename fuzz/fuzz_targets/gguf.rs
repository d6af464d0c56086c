//! Whatever the bytes: a GGUF file is refused by name, or its model has a tokenizer that encodes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("gguf", bytes));
