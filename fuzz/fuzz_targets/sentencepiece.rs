//! Whatever the bytes: a model of SentencePiece is refused by name, or it encodes and decodes any
//! text.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("sentencepiece", bytes));
