//! Whatever follows the root element of a MediaWiki dump: pages are read or skipped, no panic, and
//! there is no more text than there was XML.
#![no_main]

use std::io::Write;

use cascade_corpus::{Corpus, Input, Options};
use libfuzzer_sys::fuzz_target;

const ROOT: &[u8] = b"<mediawiki>";

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(ROOT).expect("a full disk");
    file.write_all(bytes).expect("a full disk");
    let input = Input::File(file.path().to_owned());
    let corpus = Corpus::open([input], Options::default()).expect("a file that is not empty");
    let text: usize = corpus.flatten().map(|document| document.text.len()).sum();
    assert!(text <= ROOT.len() + bytes.len());
});
