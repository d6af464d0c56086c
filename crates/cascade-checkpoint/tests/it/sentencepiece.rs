//! Tokenizers of SentencePiece give the ids of Hugging Face's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cascade_checkpoint::Tokenizer;
use cascade_core::TextCodec;
use cascade_hub::{HubOptions, ModelSource};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A folder with the real models: `llama/tokenizer.model` and `t5/spiece.model`, each beside the
/// tokenizer.json that Hugging Face made of it.
const REAL: &str = "CASCADE_TEST_TOKENIZERS";

fn lookalikes() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR"));
    Path::new(here).join("../../tests/lookalikes")
}

/// Fragments of text, and lines of them: a transcription of tests/lookalikes/fragments.py.
#[derive(Deserialize)]
struct Fragments {
    words: Vec<String>,
    others: Vec<String>,
    separators: Vec<String>,
}

impl Fragments {
    fn read() -> Self {
        let bytes = fs::read(lookalikes().join("fragments.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn lines(&self, seed: u64, count: usize) -> Vec<String> {
        let mut numbers = Numbers(seed);
        (0..count).map(|_| self.line(&mut numbers)).collect()
    }

    fn line(&self, numbers: &mut Numbers) -> String {
        let mut line = String::new();
        for _ in 0..1 + numbers.below(14) {
            match numbers.below(8) {
                0..5 => line += numbers.pick(&self.words),
                5..7 => line += numbers.pick(&self.others),
                _ => {
                    let number = numbers.next();
                    let digits = 1 + numbers.below(6);
                    write!(line, "{}", number % 10u64.pow(digits as u32)).unwrap();
                }
            }
            line += numbers.pick(&self.separators);
        }
        line
    }
}

/// xorshift64*.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(2_685_821_657_736_338_717) >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn pick<'a>(&mut self, things: &'a [String]) -> &'a str {
        &things[self.below(things.len())]
    }
}

/// What transformers said of a tokenizer.
#[derive(Deserialize)]
struct Golden {
    model: String,
    files: Map<String, Value>,
    vocab_size: usize,
    sha256_of_10000: String,
    readable: Vec<Vec<u32>>,
    #[serde(default)]
    decoded: Vec<String>,
}

/// The model of SentencePiece of a look-alike.
fn model_file(kind: &str) -> PathBuf {
    lookalikes().join(match kind {
        "llama" => "lmsys/vicuna-7b-v1.3/tokenizer.model",
        _ => "google/flan-t5-xxl/spiece.model",
    })
}

/// A folder with a model of SentencePiece and the files of a golden beside it.
fn folder(kind: &str, files: &Map<String, Value>) -> TempDir {
    let folder = TempDir::new().unwrap();
    let model = model_file(kind);
    put(
        &folder,
        model.file_name().unwrap().to_str().unwrap(),
        &fs::read(&model).unwrap(),
    );
    for (name, content) in files {
        match content.as_str() {
            None => put(&folder, name, content.to_string().as_bytes()),
            // As a look-alike has them.
            Some(model) => {
                let from = lookalikes().join(model);
                for file in ["tokenizer_config.json", "special_tokens_map.json"] {
                    put(&folder, file, &fs::read(from.join(file)).unwrap());
                }
            }
        }
    }
    folder
}

fn put(folder: &TempDir, name: &str, bytes: &[u8]) {
    fs::write(folder.path().join(name), bytes).unwrap();
}

fn open(folder: &Path) -> cascade_checkpoint::Result<Tokenizer> {
    let source = ModelSource::Folder(folder.to_owned());
    let hub = HubOptions::new("http://127.0.0.1:9", "/nonexistent");
    Tokenizer::load(&source.tokenizer(&hub, false)?)
}

fn refusal(folder: &Path) -> String {
    open(folder).expect_err("it is refused").to_string()
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
    }
}

fn digest(rows: impl Iterator<Item = Vec<u32>>) -> String {
    let mut hash = Sha256::new();
    for row in rows {
        let row: Vec<String> = row.iter().map(u32::to_string).collect();
        hash.update(row.join(" ") + "\n");
    }
    hash.finalize().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

fn goldens() -> BTreeMap<String, Golden> {
    let goldens = fs::read(lookalikes().join("tokenizers.json")).unwrap();
    let goldens: BTreeMap<String, Golden> = serde_json::from_slice(&goldens).unwrap();
    assert!(goldens.len() >= 15);
    goldens
}

/// Compares the ids of ten thousand lines.
#[track_caller]
fn assert_many(name: &str, golden: &Golden, lines: &[String]) {
    let tokenizer = open(folder(&golden.model, &golden.files).path()).unwrap();
    let ids = lines.iter().map(|line| tokenizer.encode(line).unwrap());
    assert_eq!(digest(ids), golden.sha256_of_10000, "{name}");
}

#[test]
fn ids_are_those_of_transformers() {
    let fragments = Fragments::read();
    let readable = fragments.lines(2, 60);
    let goldens = goldens();
    for (name, golden) in &goldens {
        let tokenizer = open(folder(&golden.model, &golden.files).path()).unwrap();
        assert_eq!(tokenizer.vocab_size(), golden.vocab_size, "{name}");
        for (line, ids) in readable.iter().zip(&golden.readable) {
            assert_eq!(&tokenizer.encode(line).unwrap(), ids, "{name}: {line:?}");
        }
        for (ids, text) in golden.readable.iter().zip(&golden.decoded) {
            assert_eq!(&tokenizer.decode(ids).unwrap(), text, "{name}");
        }
    }
    let many = fragments.lines(1, 10_000);
    for name in ["llama", "t5"] {
        assert_many(name, &goldens[name], &many);
    }
}

#[test]
#[ignore = "slow: 150,000 lines"]
fn ids_are_those_of_transformers_with_all_settings() {
    let many = Fragments::read().lines(1, 10_000);
    for (name, golden) in goldens() {
        assert_many(&name, &golden, &many);
    }
}

/// The real models, where there are any.
#[test]
fn ids_of_the_real_models_are_those_of_their_tokenizer_json() {
    let Some(real) = std::env::var_os(REAL) else {
        println!("skipped: {REAL} names no folder with the real models");
        return;
    };
    let lines = Fragments::read().lines(3, 20_000);
    for (name, model) in [("llama", "tokenizer.model"), ("t5", "spiece.model")] {
        let folder = TempDir::new().unwrap();
        let real = Path::new(&real).join(name);
        put(&folder, model, &fs::read(real.join(model)).unwrap());
        let made = open(folder.path()).unwrap();
        let theirs = Tokenizer::from_file(real.join("tokenizer.json")).unwrap();
        assert_eq!(made.fingerprint(), theirs.fingerprint(), "{name}");
        let mut tokens = 0;
        for line in &lines {
            let ids = made.encode_plain(line).unwrap();
            assert_eq!(ids, theirs.encode_plain(line).unwrap(), "{name}: {line:?}");
            assert_eq!(
                made.decode(&ids).unwrap(),
                theirs.decode(&ids).unwrap(),
                "{name}"
            );
            tokens += ids.len();
        }
        println!("{name}: {} lines, {tokens} tokens, all equal", lines.len());
    }
}

#[test]
fn a_model_is_read_without_the_files_beside_it() {
    let tokenizer = Tokenizer::from_file(model_file("llama")).unwrap();
    assert_eq!(tokenizer.token_to_id("</s>"), Some(2));
    assert!(tokenizer.file().ends_with("tokenizer.model"));
    // By its name, whatever it is called, with the files of its folder.
    let folder = folder("llama", &Map::new());
    let config = json!({"add_bos_token": false}).to_string();
    put(&folder, "tokenizer_config.json", config.as_bytes());
    let tokenizer = Tokenizer::from_file(folder.path().join("tokenizer.model")).unwrap();
    assert_ne!(tokenizer.encode("a").unwrap().first(), Some(&1));
}

#[test]
fn settings_that_are_not_followed_are_refused_by_name() {
    const CONFIG: &str = "tokenizer_config.json";
    let refused = |kind: &str, file: &str, content: Value, parts: &[&str]| {
        let folder = folder(kind, &Map::new());
        put(&folder, file, content.to_string().as_bytes());
        assert_says(&refusal(folder.path()), parts);
    };
    let llama = |config, parts| refused("llama", CONFIG, config, parts);
    llama(
        json!({"tokenizer_class": "GemmaTokenizer"}),
        &["GemmaTokenizer"],
    );
    llama(
        json!({"tokenizer_class": "T5Tokenizer"}),
        &["T5Tokenizer", "Bpe"],
    );
    llama(
        json!({"sp_model_kwargs": {"enable_sampling": true}}),
        &["sp_model_kwargs"],
    );
    llama(
        json!({"split_special_tokens": true}),
        &["split_special_tokens"],
    );
    llama(
        json!({"auto_map": {"AutoTokenizer": ["x", null]}}),
        &["auto_map"],
    );
    llama(
        json!({"add_prefix_space": null}),
        &["add_prefix_space", "null"],
    );
    llama(json!({"legacy": "no"}), &["legacy", "\"no\""]);
    llama(json!({"bos_token": null}), &["bos_token is null"]);
    llama(json!({"bos_token": 1}), &["bos_token is 1"]);
    llama(json!({"bos_token": "a b"}), &["\"a b\""]);
    llama(json!([]), &[CONFIG, "not a JSON object"]);
    let t5 = |config, parts| refused("t5", CONFIG, config, parts);
    t5(
        json!({"tokenizer_class": "LlamaTokenizer"}),
        &["LlamaTokenizer", "Unigram"],
    );
    t5(json!({"extra_ids": -1}), &["extra_ids", "-1"]);
    t5(json!({"extra_ids": 1e12}), &["extra_ids"]);
    let one = json!({"additional_special_tokens": ["<extra_id_0>"]});
    t5(one, &["1 tokens <extra_id_", "100"]);
    let added = |tokens, parts| refused("llama", "added_tokens.json", tokens, parts);
    added(json!({"<pad>": 7}), &["<pad>", "id 7"]);
    added(json!({"<pad>": "x"}), &["added_tokens.json", "<pad>", "x"]);
    let map = json!({"additional_special_tokens": "x"});
    refused(
        "llama",
        "special_tokens_map.json",
        map,
        &["additional_special_tokens"],
    );
}

/// A protocol buffer's field of bytes.
fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    [&bytes, content].concat()
}

/// A protocol buffer's field that is a small number.
fn number(tag: u8, value: u8) -> Vec<u8> {
    match tag {
        0..16 => vec![tag << 3, value],
        _ => vec![(tag << 3 & 0x7f) | 0x80, tag >> 4, value],
    }
}

fn piece(text: &str, kind: u8) -> Vec<u8> {
    let score = [&[0x15][..], &(-1.0f32).to_le_bytes()].concat();
    field(
        1,
        &[field(1, text.as_bytes()), score, number(3, kind)].concat(),
    )
}

/// The beginning of a LLaMA's vocabulary, and more.
fn small(trainer: &[u8], normalizer: &[u8], more: &[u8]) -> Vec<u8> {
    let pieces = [
        piece("<unk>", 2),
        piece("<s>", 3),
        piece("</s>", 3),
        piece("▁", 1),
    ]
    .concat();
    let normalizer = [number(4, 0), normalizer.to_vec()].concat();
    [&pieces, more, &field(2, trainer), &field(3, &normalizer)].concat()
}

#[test]
fn models_that_are_not_understood_are_refused_by_name() {
    let bpe = number(3, 2);
    let folder = TempDir::new().unwrap();
    let with = |model: &[u8]| {
        put(&folder, "tokenizer.model", model);
        open(folder.path()).map(drop)
    };
    with(&small(&bpe, &[], &[])).unwrap();
    let refused = |model: &[u8], parts: &[&str]| {
        let message = with(model).expect_err("it is refused").to_string();
        assert_says(&message, &["tokenizer.model"]);
        assert_says(&message, parts);
    };
    refused(b"", &["no pieces"]);
    refused(b"not a model", &["not a SentencePiece model"]);
    refused(
        b"version https://git-lfs.github.com/spec/v1\n",
        &["git lfs pull"],
    );
    let trainer = |spec: &[u8], parts| refused(&small(spec, &[], &[]), parts);
    trainer(&number(3, 3), &["Word"]);
    trainer(&number(3, 4), &["Char"]);
    trainer(&number(3, 9), &["model type 9"]);
    trainer(
        &[&bpe[..], &number(24, 1)].concat(),
        &["treat_whitespace_as_suffix"],
    );
    trainer(
        &[&bpe[..], &number(40, 99)].concat(),
        &["unknown token", "99"],
    );
    let normalizer = |spec: &[u8], parts| refused(&small(&bpe, spec, &[]), parts);
    normalizer(&number(3, 0), &["add_dummy_prefix"]);
    normalizer(&number(5, 0), &["escape_whitespaces"]);
    normalizer(&number(4, 1), &["changes texts"]);
    normalizer(&field(2, &[0xff; 9]), &["table of replacements"]);
    let further = |text: &str, kind, parts| refused(&small(&bpe, &[], &piece(text, kind)), parts);
    further("</s>", 1, &["2 and 4", "</s>"]);
    further("", 1, &["piece 4 has 0 bytes"]);
    further(&"x".repeat(600), 1, &["piece 4 has 600 bytes"]);
    further("x", 77, &["piece 4", "77"]);
}

/// A damaged byte is an error or another tokenizer, never a panic; and texts do not lead out of a
/// damaged table.
#[test]
fn damage_never_panics() {
    use rand::{Rng, SeedableRng, rngs::StdRng};
    let mut rng = StdRng::seed_from_u64(5);
    let lines = Fragments::read().lines(4, 20);
    let folder = TempDir::new().unwrap();
    for (kind, name) in [("llama", "tokenizer.model"), ("t5", "spiece.model")] {
        let whole = fs::read(model_file(kind)).unwrap();
        for round in 0..120 {
            let mut damaged = whole.clone();
            // Settings and the table of replacements come last.
            let from = if round % 4 == 1 { whole.len() / 2 } else { 0 };
            let at = rng.random_range(from..whole.len());
            if round % 4 == 0 {
                damaged.truncate(at);
            } else {
                damaged[at] = rng.random();
            }
            put(&folder, name, &damaged);
            match open(folder.path()) {
                Ok(tokenizer) => {
                    for line in &lines {
                        let _ = tokenizer.encode(line).map(|ids| tokenizer.decode(&ids));
                    }
                }
                Err(error) => assert_says(&error.to_string(), &[name]),
            }
        }
        fs::remove_file(folder.path().join(name)).unwrap();
    }
}
