//! Tokens that only the files beside tokenizer.json declare: added as transformers adds them
//! (`tests/goldens/make_added_tokens.py`).

use std::fs;
use std::path::{Path, PathBuf};

use cascade_checkpoint::Tokenizer;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;

#[derive(Deserialize)]
struct Goldens {
    texts: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    base: String,
    files: BTreeMap<String, Value>,
    added: BTreeMap<u32, Value>,
    ids: Vec<Vec<u32>>,
    decoded: Vec<String>,
}

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens/added-tokens")
}

/// A folder with the vocabulary and these files beside it.
fn folder(base: &str, files: &BTreeMap<String, Value>) -> TempDir {
    let folder = TempDir::new().unwrap();
    let vocabulary = goldens().join(format!("{base}.json"));
    fs::copy(vocabulary, folder.path().join("tokenizer.json")).unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content.to_string()).unwrap();
    }
    folder
}

fn read(folder: &TempDir) -> cascade_checkpoint::Result<Tokenizer> {
    Tokenizer::from_file(folder.path().join("tokenizer.json"))
}

#[test]
fn tokens_beside_a_vocabulary_are_added_as_transformers_adds_them() {
    let cases = fs::read(goldens().join("cases.json")).unwrap();
    let goldens: Goldens = serde_json::from_slice(&cases).unwrap();
    assert!(goldens.cases.len() > 12);
    for case in &goldens.cases {
        let name = &case.name;
        let tokenizer = read(&folder(&case.base, &case.files)).unwrap();
        for (&id, token) in &case.added {
            let content = token["content"].as_str().unwrap();
            assert_eq!(
                tokenizer.token_to_id(content),
                Some(id),
                "{name}: {content}"
            );
            assert!(tokenizer.is_added(id), "{name}: {content}");
        }
        for ((text, ids), decoded) in goldens.texts.iter().zip(&case.ids).zip(&case.decoded) {
            assert_eq!(
                &tokenizer.encode_plain(text).unwrap(),
                ids,
                "{name}: {text:?}"
            );
            assert_eq!(&tokenizer.decode(ids).unwrap(), decoded, "{name}: {text:?}");
        }
    }
}

#[test]
fn ids_that_the_files_say_otherwise_are_warned_about() {
    let token = |content: &str| {
        json!({"content": content, "lstrip": false, "normalized": false, "rstrip": false,
            "single_word": false, "special": true})
    };
    let config = json!({"added_tokens_decoder": {"264": token("<a>"), "7": token("<b>")}});
    let files = BTreeMap::from([("tokenizer_config.json".to_owned(), config)]);
    let tokenizer = read(&folder("byte-level", &files)).unwrap();
    let warnings = tokenizer.warnings();
    // Transformers numbers them 264 (<b>) and 265.
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("<b>") && warnings[0].contains("264"),
        "{warnings:?}"
    );
}

#[test]
fn what_cannot_be_followed_is_refused_by_name() {
    for (config, named) in [
        (
            json!({"split_special_tokens": true}),
            "split_special_tokens",
        ),
        (json!({"eos_token": 7}), "eos_token"),
        (
            json!({"added_tokens_decoder": {"x": {"content": "<a>"}}}),
            "\"x\"",
        ),
        (json!([]), "object"),
    ] {
        let files = BTreeMap::from([("tokenizer_config.json".to_owned(), config)]);
        let error = read(&folder("byte-level", &files)).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}
