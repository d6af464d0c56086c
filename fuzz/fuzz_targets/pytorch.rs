//! Whatever the bytes: a pytorch_model.bin is refused by name, or its tensors can be read.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cascade_hostile::fuzz("pytorch", bytes));
