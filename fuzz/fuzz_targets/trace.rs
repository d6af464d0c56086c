//! Whatever the bytes: a trace is refused, or its records can be read up to the first bad one, and
//! records that are read can be put into a trace or are refused there.
#![no_main]

use std::io::Cursor;

use cascade_eval::trace::{Reader, Trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(reader) = Reader::new("fuzzed", Cursor::new(bytes.to_vec())) else {
        return;
    };
    let header = reader.header().clone();
    let records = reader.map_while(Result::ok).collect();
    let _ = Trace::new("fuzzed", header, records);
});
