//! Text to tokens and back: streaming equals decoding at once, whatever the decoder.

use std::sync::Arc;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use cascade_checkpoint::Tokenizer;
use cascade_core::{Fingerprint, TextCodec};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

const TEXTS: [&str; 9] = [
    "Hana gives 48 of her stamps to friends in April, and a third as many again in June.",
    "  Two leading spaces, a\ttab,\n\nan empty line, and a trailing space ",
    "Ruth pays $15 an hour. 15 / 60 = 0.25, so 0.25 x 40 = $10.\n#### 10",
    "A chat between a curious user and an assistant. USER: Héllo! ASSISTANT: Grüße, Ωmega.</s>",
    "東京の天気は晴れです。今日は暑い。",
    "emoji 👩‍👩‍👧‍👦 and 🇩🇪, then text",
    "e\u{301} combining, \u{200b}zero width, \u{fffd} replacement",
    "",
    " ",
];

/// The folder of a demo checkpoint.
fn folder(name: &str) -> PathBuf {
    // Where the sources are now, if the test was built elsewhere.
    let here = std::env::var("CARGO_MANIFEST_DIR");
    Path::new(here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR")))
        .join("../cascade-demo/models")
        .join(name)
}

fn demo_tokenizer(name: &str) -> Tokenizer {
    Tokenizer::from_file(folder(name).join("tokenizer.json")).unwrap()
}

/// A BPE tokenizer over bytes, as GPT-2 and Llama 3 have them, with a few merges.
fn byte_level() -> Tokenizer {
    let mut alphabet: Vec<String> = ByteLevel::alphabet().iter().map(char::to_string).collect();
    alphabet.sort();
    let merges = [
        ["t", "h"],
        ["th", "e"],
        ["Ġ", "the"],
        ["i", "n"],
        ["å", "¤"],
    ];
    let merged = merges.iter().map(|[a, b]| format!("{a}{b}"));
    let tokens: Vec<String> = std::iter::once("<|end|>".to_owned())
        .chain(alphabet)
        .chain(merged)
        .collect();
    let vocab: serde_json::Map<String, Value> = tokens
        .iter()
        .enumerate()
        .map(|(id, token)| (token.clone(), json!(id)))
        .collect();
    let level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true
    });
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{
            "id": 0, "content": "<|end|>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true
        }],
        "normalizer": null, "pre_tokenizer": level, "post_processor": null, "decoder": level,
        "model": { "type": "BPE", "vocab": vocab, "merges": merges }
    });
    Tokenizer::from_bytes("byte-level", json.to_string().as_bytes()).unwrap()
}

fn tokenizers() -> [Tokenizer; 3] {
    [
        demo_tokenizer("demo-t5-small"),
        demo_tokenizer("demo-llama-small"),
        byte_level(),
    ]
}

fn streamed(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let mut decoder = Arc::new(tokenizer.clone()).decoder();
    let mut text = String::new();
    for &token in tokens {
        text += &decoder.push(token).unwrap();
    }
    text += &decoder.finish().unwrap();
    assert_eq!(decoder.finish().unwrap(), "", "nothing is given twice");
    text
}

#[track_caller]
fn assert_streams(tokenizer: &Tokenizer, tokens: &[u32]) {
    assert_eq!(
        streamed(tokenizer, tokens),
        tokenizer.decode(tokens).unwrap(),
        "{} {tokens:?}",
        tokenizer.file()
    );
}

#[test]
fn streaming_equals_decoding_at_once_on_texts() {
    for tokenizer in tokenizers() {
        for text in TEXTS {
            let tokens = tokenizer.encode(text).unwrap();
            // Every beginning, and every end, which starts in the middle of words and characters.
            for i in 0..=tokens.len() {
                assert_streams(&tokenizer, &tokens[..i]);
                assert_streams(&tokenizer, &tokens[i..]);
            }
        }
    }
}

/// LLaMA's, whose decoder strips the blank at the beginning of a text.
fn llama() -> Tokenizer {
    let folder = folder("../../../tests/lookalikes/lmsys/vicuna-7b-v1.3");
    Tokenizer::from_file(folder.join("tokenizer.model")).unwrap()
}

fn continued(tokenizer: &Tokenizer, context: &[u32], tokens: &[u32]) -> String {
    let mut decoder = Arc::new(tokenizer.clone()).decoder_after(context);
    let pieces = tokens.iter().map(|&token| decoder.push(token).unwrap());
    let text: String = pieces.collect();
    text + &decoder.finish().unwrap()
}

/// What continues a text is all of it without its beginning, wherever that ends.
#[test]
fn a_continuation_keeps_its_blank() {
    let tokenizers: Vec<Tokenizer> = tokenizers().into_iter().chain([llama()]).collect();
    for tokenizer in &tokenizers {
        for text in TEXTS {
            let tokens = tokenizer.encode(text).unwrap();
            let whole = tokenizer.decode(&tokens).unwrap();
            for at in 0..=tokens.len() {
                let (context, rest) = tokens.split_at(at);
                let before = tokenizer.decode(context).unwrap();
                // A beginning that ends within a character has no text of its own.
                let is_cut = before.ends_with('\u{fffd}');
                if let Some(expected) = whole.strip_prefix(&before).filter(|_| !is_cut) {
                    let found = continued(tokenizer, context, rest);
                    assert_eq!(found, expected, "{} {text:?} {at}", tokenizer.file());
                }
            }
        }
    }
    let llama = llama();
    let tokens = |text| llama.encode_plain(text).unwrap();
    for (context, next, text) in [
        ("Once upon a", "time", " time"),
        ("Once upon a ", "time", " time"),
        ("Line.\n", "next", " next"),
        ("", "time", "time"),
    ] {
        let context = [llama.encode("").unwrap(), tokens(context)].concat();
        assert_eq!(
            continued(&llama, &context, &tokens(next)),
            text,
            "{context:?}"
        );
    }
}

#[test]
fn special_tokens_are_stops_by_themselves() {
    let [_, llama, bytes] = tokenizers();
    for (tokenizer, text) in [(&llama, "</s>"), (&bytes, "<|end|>")] {
        assert_eq!(tokenizer.special_token(text), tokenizer.token_to_id(text));
        assert_eq!(tokenizer.stop_warning(text), None);
        let warning = tokenizer.stop_warning(&format!("\n{text}")).unwrap();
        assert!(warning.contains(&format!("{text:?} in it")), "{warning}");
    }
    for text in ["a", "the", "###"] {
        assert_eq!(bytes.special_token(text), None);
        assert_eq!(bytes.stop_warning(text), None);
    }
}

#[test]
fn a_text_comes_back() {
    for text in TEXTS {
        for tokenizer in tokenizers() {
            let tokens = tokenizer.encode(text).unwrap();
            // Where the demo's are not their own inverse: special tokens in the text, and a space
            // before all of it.
            if !text.contains("</s>") && !text.starts_with(' ') {
                assert_eq!(streamed(&tokenizer, &tokens), text);
            }
        }
    }
}

#[test]
fn characters_come_as_soon_as_they_are_sure() {
    let [_, llama, bytes] = tokenizers();
    let pieces = |tokenizer: &Tokenizer, text: &str| -> Vec<String> {
        let mut decoder = Arc::new(tokenizer.clone()).decoder();
        let tokens = tokenizer.encode(text).unwrap();
        tokens.iter().map(|&t| decoder.push(t).unwrap()).collect()
    };
    assert_eq!(pieces(&bytes, "a é b"), ["a", " ", "", "é", " ", "b"]);
    // All but a run of byte tokens at the end is out before `finish`.
    assert_eq!(pieces(&llama, "東 is so").concat(), "東 is so");
    let mut decoder = Arc::new(llama.clone()).decoder();
    let byte = |byte: u8| llama.token_to_id(&format!("<0x{byte:02X}>")).unwrap();
    assert_eq!(decoder.push(byte(0xe6)).unwrap(), "");
    assert_eq!(decoder.push(byte(0x9d)).unwrap(), "");
    assert_eq!(decoder.finish().unwrap(), "\u{fffd}\u{fffd}");
}

#[test]
fn special_tokens_frame_a_prompt_and_give_no_text() {
    let [t5, llama, _] = tokenizers();
    let tokens = t5.encode("Hello").unwrap();
    assert_eq!(tokens.last(), t5.token_to_id("</s>").as_ref());
    assert_eq!(
        t5.encode_plain("Hello").unwrap(),
        tokens[..tokens.len() - 1]
    );
    let tokens = llama.encode("Hello").unwrap();
    assert_eq!(tokens.first(), llama.token_to_id("<s>").as_ref());
    assert_eq!(llama.encode_plain("Hello").unwrap(), tokens[1..]);
    assert_eq!(llama.decode(&tokens).unwrap(), "Hello");
    assert_eq!(llama.decode(&[9_999_999]).unwrap(), "");
    assert_streams(&llama, &[tokens[0], 9_999_999, tokens[1], 2]);
}

#[test]
fn a_vocabulary_has_an_identity() {
    let [t5, llama, bytes] = tokenizers();
    assert_eq!(
        t5.fingerprint(),
        demo_tokenizer("demo-t5-target").fingerprint()
    );
    let all: BTreeSet<String> = [&t5, &llama, &bytes]
        .map(|t| t.fingerprint().to_string())
        .into();
    assert_eq!(all.len(), 2, "both demo families have one vocabulary");
    let pairs = (0..bytes.id_bound() as u32).map(|id| (id, bytes.id_to_token(id).unwrap()));
    assert_eq!(bytes.fingerprint(), Fingerprint::of_vocabulary(pairs));
    assert_eq!((bytes.vocab_size(), bytes.id_bound()), (262, 262));
    assert_eq!((t5.vocab_size(), t5.id_bound()), (1280, 1280));
    assert_eq!(t5.id_to_token(1280), None);
}

#[test]
fn prompts_are_never_cut_or_padded() {
    let path = folder("demo-llama-small").join("tokenizer.json");
    let plain = Tokenizer::from_file(&path).unwrap();
    let mut json: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    json["truncation"] = json!({
        "max_length": 4, "stride": 0, "strategy": "LongestFirst", "direction": "Right"
    });
    json["padding"] = json!({
        "strategy": { "Fixed": 64 }, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"
    });
    let cutting = Tokenizer::from_bytes("cutting", json.to_string().as_bytes()).unwrap();
    for text in TEXTS {
        assert_eq!(cutting.encode(text).unwrap(), plain.encode(text).unwrap());
    }
}

#[test]
fn errors_name_the_file_and_the_cure() {
    let error = Tokenizer::from_file("nowhere/tokenizer.json").unwrap_err();
    assert!(
        error.to_string().contains("nowhere/tokenizer.json"),
        "{error}"
    );
    for bytes in [
        &b""[..],
        b"{",
        b"[]",
        b"{}",
        b"version https://git-lfs",
        &[0xff; 9],
    ] {
        let message = Tokenizer::from_bytes("the file", bytes)
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("the file is not a tokenizer"),
            "{message}"
        );
        assert!(message.contains("save_pretrained"), "{message}");
    }
    let [t5, ..] = tokenizers();
    t5.check_fits(1280).unwrap();
    let message = t5.check_fits(1279).unwrap_err().to_string();
    assert!(
        message.contains("1279") && message.contains("same model"),
        "{message}"
    );
}

/// A damaged character of the part that is not the vocabulary: an error, or a tokenizer that works
/// somehow.
#[test]
fn damage_never_panics() {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    let mut rng = StdRng::seed_from_u64(3);
    for name in ["demo-t5-small", "demo-llama-small"] {
        let whole = fs::read(folder(name).join("tokenizer.json")).unwrap();
        let head = String::from_utf8_lossy(&whole).find("\"vocab\"").unwrap();
        for _ in 0..150 {
            let mut damaged = whole.clone();
            damaged[rng.random_range(0..head)] = rng.random_range(b' '..b'~');
            if let Ok(tokenizer) = Tokenizer::from_bytes("damaged", &damaged)
                && let Ok(tokens) = tokenizer.encode(TEXTS[1])
            {
                streamed(&tokenizer, &tokens);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Tokens that no tokenizer would give: broken characters, special tokens in the middle, ids
    /// that do not exist.
    #[test]
    fn streaming_equals_decoding_at_once_on_any_tokens(
        tokens in prop::collection::vec(prop_oneof![3 => 0u32..264, 2 => 0u32..2060], 0..40)
    ) {
        for tokenizer in tokenizers_once() {
            assert_streams(tokenizer, &tokens);
        }
    }

    #[test]
    fn streaming_equals_decoding_at_once_on_any_text(text in "\\PC{0,60}") {
        for tokenizer in tokenizers_once() {
            assert_streams(tokenizer, &tokenizer.encode(&text).unwrap());
        }
    }
}

fn tokenizers_once() -> &'static [Tokenizer; 3] {
    static ALL: std::sync::OnceLock<[Tokenizer; 3]> = std::sync::OnceLock::new();
    ALL.get_or_init(tokenizers)
}
