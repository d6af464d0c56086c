//! Whatever the bytes: a model of SentencePiece is refused, or it encodes and decodes any text.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

use cascade_core::TextCodec;
use cascade_models::Tokenizer;
use libfuzzer_sys::fuzz_target;

const TEXT: &str = "Question: 12  apples,\t\u{301}e\u{301} ﬁne ½ 東京 🙂 </s><0x0A>\n";

fn file() -> &'static PathBuf {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| tempfile::tempdir().unwrap().keep().join("fuzzed.model"))
}

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(file(), bytes).unwrap();
    let Ok(tokenizer) = Tokenizer::from_file(file()) else {
        return;
    };
    if let Ok(tokens) = tokenizer.encode(TEXT) {
        assert!(tokens.iter().all(|&token| (token as usize) < tokenizer.id_bound()));
        let _ = tokenizer.decode(&tokens);
    }
});
