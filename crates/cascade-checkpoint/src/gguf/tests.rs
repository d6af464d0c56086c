//! Files that are right, to the bit, and files that are not.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cascade_cpu::Packed;
use cascade_hub::WeightFormat;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use super::*;
use crate::blocks::BlockType;
use crate::{Checkpoint, DType, Tokenizer};

fn goldens() -> PathBuf {
    // Where the sources are now, if the test was built elsewhere.
    let here = std::env::var("CARGO_MANIFEST_DIR");
    Path::new(here.as_deref().unwrap_or(env!("CARGO_MANIFEST_DIR")))
        .join("../../tests/goldens/gguf")
}

fn disk(name: &str) -> Vec<ModelFile> {
    vec![ModelFile::Disk(goldens().join(name))]
}

fn memory(bytes: Vec<u8>) -> ModelFile {
    ModelFile::Embedded {
        name: "test.gguf".to_owned(),
        bytes: bytes.leak(),
    }
}

fn weights(file: &ModelFile) -> Result<Checkpoint> {
    Checkpoint::open_file(WeightFormat::Gguf, file.clone())
}

/// The values of a tensor.
fn values(weights: &Checkpoint, name: &str, shape: &[usize]) -> Vec<f32> {
    let stored = weights.load(name, shape).unwrap();
    stored.dtype.to_f32(&stored.bytes)
}

/// The digest of values as little-endian f32.
fn digest(values: Vec<f32>) -> String {
    let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn blocks_of_all_types_are_unpacked_to_the_bit() {
    let weights = weights(&disk("blocks.gguf")[0]).unwrap();
    let json = std::fs::read(goldens().join("blocks.json")).unwrap();
    let expected: BTreeMap<String, String> = serde_json::from_slice(&json).unwrap();
    let mut seen = 0;
    for (name, info) in weights.infos() {
        let values = values(&weights, &name, &info.shape);
        assert_eq!(digest(values), expected[&info.dtype], "{}", info.dtype);
        seen += 1;
    }
    assert_eq!((seen, expected.len()), (17, 17));
}

/// Repacking loses nothing: what stays compressed has the values of what is unpacked.
#[test]
fn blocks_that_stay_compressed_have_the_values_of_their_type() {
    let weights = weights(&disk("blocks.gguf")[0]).unwrap();
    let mut compressed = Vec::new();
    for (name, info) in weights.infos() {
        let [outputs, inputs] = info.shape[..] else {
            panic!("{name} is no matrix");
        };
        let stored = weights.blocks(&name, [outputs, inputs], DType::Stored);
        let Some(blocks) = stored.unwrap() else {
            continue;
        };
        let packed = Packed::from_blocks(blocks.format, &blocks.bytes, inputs).unwrap();
        let unpacked = values(&weights, &name, &info.shape);
        let mut row = vec![0.0; inputs];
        for (output, expected) in unpacked.chunks(inputs).enumerate() {
            packed.read_row(output, &mut row);
            assert_eq!(row, expected, "{}", info.dtype);
        }
        compressed.push(info.dtype);
    }
    compressed.sort();
    let expected = "IQ4_NL IQ4_XS MXFP4 Q2_K Q3_K Q4_0 Q4_1 Q4_K Q5_0 Q5_1 Q5_K Q6_K Q8_0";
    assert_eq!(compressed.join(" "), expected);
}

/// Digests of a model's values as transformers computed with them.
fn digests(name: &str) -> BTreeMap<String, String> {
    let bytes = std::fs::read(goldens().join(format!("{name}.safetensors"))).unwrap();
    let (_, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    let metadata = metadata.metadata().clone().unwrap();
    serde_json::from_str(&metadata["digests"]).unwrap()
}

#[test]
fn tensors_are_those_of_the_checkpoint_to_the_bit() {
    for name in [
        "llama-f32",
        "llama3-q8_0",
        "mistral-f16",
        "qwen2-q4_0",
        "qwen3-k",
        "qwen3-minima",
        "t5-v1.0-f32",
        "t5-v1.1-q8_0",
    ] {
        let weights = weights(&disk(&format!("{name}.gguf"))[0]).unwrap();
        let (infos, expected) = (weights.infos(), digests(name));
        assert_eq!(infos.len(), expected.len(), "{name}");
        for (tensor, digested) in expected {
            let values = values(&weights, &tensor, &infos[&tensor].shape);
            assert_eq!(digest(values), digested, "{name}: {tensor}");
        }
    }
}

/// Everything that is read of a file before a model is built.
fn read(file: &ModelFile) -> Result<()> {
    let files = std::slice::from_ref(file);
    let gguf = Gguf::open(files)?;
    config(&gguf)?;
    gguf_tokenizer_config(file)?;
    Tokenizer::of_gguf(&gguf)?;
    let weights = weights(file)?;
    for (name, info) in weights.infos() {
        weights.load(&name, &info.shape)?;
    }
    Ok(())
}

fn bytes_of(name: &str) -> Vec<u8> {
    std::fs::read(goldens().join(name)).unwrap()
}

#[test]
fn a_file_that_was_cut_off_is_refused_wherever() {
    for name in ["llama3-q8_0.gguf", "t5-v1.0-f32.gguf"] {
        let whole = bytes_of(name);
        read(&memory(whole.clone())).unwrap();
        for length in (0..whole.len()).step_by(64) {
            let fault = header::parse(&whole[..length]).expect_err("it is not whole");
            assert!(!fault.problem.is_empty());
        }
    }
}

#[test]
fn damaged_headers_are_read_or_refused() {
    let mut rng = StdRng::seed_from_u64(40);
    for name in ["vocabulary-llama.gguf", "vocabulary-t5.gguf", "blocks.gguf"] {
        let whole = bytes_of(name);
        for _ in 0..60 {
            let mut damaged = whole.clone();
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..whole.len());
                let longest = (whole.len() - at).min(8);
                match rng.random_range(0..3) {
                    0 => damaged[at] = rng.random(),
                    1 => damaged[at..at + longest].fill(0xff),
                    _ => damaged[at] ^= 1 << rng.random_range(0..8),
                }
            }
            // Nothing is asserted but that it comes back.
            _ = read(&memory(damaged));
        }
    }
}

/// A file, value by value.
#[derive(Clone, Default)]
struct Maker {
    entries: Vec<(String, Vec<u8>)>,
    tensors: Vec<(String, Vec<u64>, u32, u64)>,
    data: u64,
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl Maker {
    /// What every model has, but tensors.
    fn llama() -> Self {
        Self::default()
            .text("general.architecture", "llama")
            .number("llama.context_length", 64)
            .number("llama.embedding_length", 8)
            .number("llama.block_count", 1)
            .number("llama.feed_forward_length", 4)
            .number("llama.attention.head_count", 2)
            .with(
                "llama.attention.layer_norm_rms_epsilon",
                6,
                &1e-5_f32.to_le_bytes(),
            )
            .text("tokenizer.ggml.model", "gpt2")
            .text("tokenizer.ggml.pre", "gpt-2")
            .texts("tokenizer.ggml.tokens", &["a", "b", "ab"])
            .texts("tokenizer.ggml.merges", &["a b"])
            .tensor("token_embd.weight", &[8, 3], 0)
    }

    fn with(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.entries.retain(|(other, _)| other != key);
        let value = [&kind.to_le_bytes(), value].concat();
        self.entries.push((key.to_owned(), value));
        self
    }

    fn without(mut self, key: &str) -> Self {
        self.entries.retain(|(other, _)| other != key);
        self
    }

    fn text(self, key: &str, value: &str) -> Self {
        self.with(key, 8, &text(value))
    }

    fn number(self, key: &str, value: u32) -> Self {
        self.with(key, 4, &value.to_le_bytes())
    }

    fn texts(self, key: &str, values: &[&str]) -> Self {
        let mut bytes = 8_u32.to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| text(value)));
        self.with(key, 9, &bytes)
    }

    /// A tensor behind those before it.
    fn tensor(self, name: &str, sizes: &[u64], kind: u32) -> Self {
        let offset = self.data;
        self.tensor_at(name, sizes, kind, offset)
    }

    fn tensor_at(mut self, name: &str, sizes: &[u64], kind: u32, offset: u64) -> Self {
        self.tensors
            .push((name.to_owned(), sizes.to_vec(), kind, offset));
        let bytes = BlockType::of(kind)
            .ok()
            .and_then(|kind| kind.bytes_of(sizes));
        // What takes more than a file has is not made.
        let bytes = bytes.filter(|&bytes| bytes < 1 << 20).unwrap_or_default();
        self.data = (self.data + bytes).next_multiple_of(32);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes_of(3, self.tensors.len() as u64, self.entries.len() as u64)
    }

    fn bytes_of(&self, version: u32, tensors: u64, entries: u64) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(entries.to_le_bytes());
        for (key, value) in &self.entries {
            bytes.extend(text(key));
            bytes.extend(value);
        }
        for (name, sizes, kind, offset) in &self.tensors {
            bytes.extend(text(name));
            bytes.extend((sizes.len() as u32).to_le_bytes());
            bytes.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
            bytes.extend(kind.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
        }
        let end = bytes.len().next_multiple_of(32) + self.data as usize;
        bytes.resize(end, 0);
        bytes
    }
}

#[track_caller]
fn assert_refused(bytes: Vec<u8>, words: &[&str]) {
    let message = read(&memory(bytes)).expect_err("it is refused").to_string();
    for word in words {
        assert!(message.contains(word), "\"{word}\" is not in: {message}");
    }
    assert!(message.contains("test.gguf"), "{message}");
}

#[test]
fn what_is_made_here_is_read() {
    let file = memory(Maker::llama().bytes());
    read(&file).unwrap();
    let gguf = Gguf::open(&[file]).unwrap();
    let config = config(&gguf).unwrap();
    assert_eq!(config["rms_norm_eps"], 1e-5);
    assert_eq!(config["num_key_value_heads"], 2);
    assert_eq!(config["tie_word_embeddings"], true);
    assert_eq!(config["eos_token_id"], serde_json::json!([]));
}

#[test]
fn other_formats_and_versions_are_refused_by_name() {
    let llama = Maker::llama();
    let entries = llama.entries.len() as u64;
    assert_refused(vec![], &["not a GGUF file"]);
    assert_refused(b"PK\x03\x04 and more".to_vec(), &["not a GGUF file"]);
    assert_refused(b"tjgg\x03\x00\x00\x00".to_vec(), &["GGML", "newer"]);
    assert_refused(b"version https://git-lfs".to_vec(), &["git lfs pull"]);
    assert_refused(
        llama.bytes_of(1, 1, entries),
        &["version 1", "convert_hf_to_gguf"],
    );
    assert_refused(llama.bytes_of(4, 1, entries), &["version 4"]);
    let big = llama.bytes_of(3_u32.swap_bytes(), 1, entries);
    assert_refused(big, &["big-endian"]);
}

#[test]
fn counts_and_lengths_are_compared_with_the_file() {
    let llama = Maker::llama();
    let entries = llama.entries.len() as u64;
    let most = u64::MAX;
    assert_refused(llama.bytes_of(3, most, entries), &["download it again"]);
    assert_refused(llama.bytes_of(3, 1, most), &["damaged"]);
    let length = most.to_le_bytes();
    assert_refused(llama.clone().with("x", 8, &length).bytes(), &["cut off"]);
    for kind in [0_u32, 6, 8, 9, 12] {
        let list = [&kind.to_le_bytes()[..], &length].concat();
        assert_refused(llama.clone().with("x", 9, &list).bytes(), &["x"]);
    }
    let deep = [9_u32.to_le_bytes().as_slice(), &1_u64.to_le_bytes()]
        .concat()
        .repeat(100_000);
    assert_refused(
        llama.clone().with("x", 9, &deep).bytes(),
        &["lists within lists"],
    );
    assert_refused(llama.clone().with("x", 13, &[]).bytes(), &["type 13"]);
    assert_refused(llama.clone().with("x", 7, &[2]).bytes(), &["neither true"]);
    let twice = Maker {
        entries: [llama.entries.clone(), llama.entries.clone()].concat(),
        ..llama
    };
    assert_refused(twice.bytes(), &["set twice"]);
}

#[test]
fn tensors_are_compared_with_the_file() {
    let llama = Maker::llama();
    let tensor = |sizes: &[u64], kind| llama.clone().tensor("x", sizes, kind).bytes();
    let at = |offset| llama.clone().tensor_at("x", &[8], 0, offset).bytes();
    assert_refused(tensor(&[u64::MAX, u64::MAX], 0), &["cannot be stored"]);
    assert_refused(tensor(&[1 << 31, 1 << 31], 1), &["cannot be stored"]);
    assert_refused(tensor(&[8, 0], 0), &["cannot be stored"]);
    assert_refused(tensor(&[16, 2], 8), &["Q8_0", "blocks of 32"]);
    assert_refused(tensor(&[], 0), &["0 dimensions"]);
    assert_refused(tensor(&[1, 1, 1, 1, 1], 0), &["5 dimensions"]);
    assert_refused(tensor(&[1 << 20, 1 << 10], 0), &["cut off"]);
    assert_refused(tensor(&[256], 16), &["x", "IQ2_XXS", "Q4_K"]);
    assert_refused(tensor(&[256], 77), &["x", "number 77"]);
    // token_embd.weight takes 96 bytes.
    for offset in [0, 64, 95, 97, 104, 128, 256, u64::MAX, u64::MAX - 31] {
        let said =
            format!("tensor x begins at offset {offset}, and the tensors before it end at 96");
        assert_refused(at(offset), &[&said, "download it again"]);
    }
    let padded = llama.clone().tensor("x", &[1, 1], 0);
    let last = |offset| padded.clone().tensor_at("y", &[1], 0, offset).bytes();
    assert_refused(last(100), &["tensor y", "end at 128"]);
    assert_refused(last(128), &["tensor x is not known"]);
    let twice = llama.clone().tensor("token_embd.weight", &[8, 3], 0);
    assert_refused(twice.bytes(), &["token_embd.weight is there twice"]);
    assert_refused(
        llama.clone().tensor("blk.0.other.weight", &[8], 0).bytes(),
        &["blk.0.other"],
    );
    let alignment = llama.clone().number("general.alignment", 24);
    assert_refused(alignment.bytes(), &["power of two"]);
}

#[test]
fn bytes_behind_the_tensors_are_told() {
    let note = |bytes| weights(&memory(bytes)).unwrap().notes().next();
    let mut bytes = Maker::llama().bytes();
    assert_eq!(note(bytes.clone()), None);
    bytes.extend([0; 64]);
    let told = note(bytes).unwrap();
    assert!(told.contains("test.gguf is 64 bytes longer"), "{told}");
}

#[test]
fn what_changes_a_forward_is_refused_by_name() {
    let llama = Maker::llama();
    let number = |key: &str, value| llama.clone().number(key, value).bytes();
    let words = |key: &str, value| llama.clone().text(key, value).bytes();
    assert_refused(
        number("llama.expert_count", 8),
        &["llama.expert_count", "8"],
    );
    assert_refused(number("llama.something_new", 1), &["llama.something_new"]);
    assert_refused(
        number("llama.vocab_size", 4),
        &["llama.vocab_size", "3 rows"],
    );
    assert_refused(
        number("llama.rope.dimension_count", 2),
        &["rope.dimension_count"],
    );
    assert_refused(number("llama.attention.value_length", 8), &["value_length"]);
    assert_refused(words("llama.rope.scaling.type", "longrope"), &["longrope"]);
    assert_refused(
        words("llama.block_count", "1"),
        &["llama.block_count", "a text"],
    );
    assert_refused(words("general.architecture", "gemma2"), &["gemma2"]);
    assert_refused(words("general.architecture", "t5encoder"), &["t5encoder"]);
    assert_refused(words("general.type", "mmproj"), &["type `mmproj`"]);
    let nameless = llama.clone().without("general.architecture");
    assert_refused(nameless.bytes(), &["general.architecture"]);
    let empty = llama.clone().without("llama.context_length");
    assert_refused(empty.bytes(), &["llama.context_length"]);
    assert_refused(number("split.count", 3), &["3 files", "first part"]);
    let factors = llama.clone().tensor("rope_freqs.weight", &[7], 0);
    assert_refused(factors.bytes(), &["rope_freqs.weight"]);
    // All factors are 0.
    let factors = llama.clone().tensor("rope_freqs.weight", &[2], 0);
    assert_refused(factors.bytes(), &["factor 0"]);
    // What does not is passed over.
    read(&memory(number("llama.expert_count", 0))).unwrap();
    read(&memory(words("general.name", "mine"))).unwrap();
    read(&memory(words("quantize.imatrix.file", "x"))).unwrap();
}

#[test]
fn an_adapter_is_refused_with_how_to_merge_it() {
    let llama = Maker::llama();
    let stated = llama.clone().text("general.type", "adapter");
    let merge = "llama-export-lora -m MODEL.gguf --lora test.gguf";
    assert_refused(stated.bytes(), &["adapter", "does not name", merge]);
    let named = stated
        .text("adapter.type", "lora")
        .text("general.base_model.0.name", "Llama 2 7b");
    assert_refused(named.bytes(), &["adapter (lora)", "for Llama 2 7b", merge]);
    let older = llama.text("adapter.type", "lora");
    assert_refused(older.bytes(), &["adapter (lora)", merge]);
}

#[test]
fn tokenizers_that_are_not_understood_are_refused_by_name() {
    let llama = Maker::llama();
    let words = |key: &str, value| llama.clone().text(key, value).bytes();
    assert_refused(words("tokenizer.ggml.model", "rwkv"), &["rwkv", "ORG/NAME"]);
    assert_refused(
        words("tokenizer.ggml.pre", "future"),
        &["future", "llama-bpe"],
    );
    assert_refused(
        words("tokenizer.ggml.newest", "x"),
        &["tokenizer.ggml.newest"],
    );
    assert_refused(words("tokenizer.ggml.tokens", "x"), &["tokens", "a text"]);
    let older = llama.clone().without("tokenizer.ggml.pre");
    assert_refused(older.bytes(), &["tokenizer.ggml.pre"]);
    let texts = |key: &str, values: &[&str]| llama.clone().texts(key, values).bytes();
    assert_refused(
        texts("tokenizer.ggml.tokens", &["a", "a"]),
        &["0 and 1", "\"a\""],
    );
    assert_refused(texts("tokenizer.ggml.tokens", &[]), &["empty"]);
    let long = "x".repeat(5000);
    assert_refused(
        texts("tokenizer.ggml.tokens", &["a", &long]),
        &["token 1", "5000 bytes"],
    );
    assert_refused(
        texts("tokenizer.ggml.merges", &["ab"]),
        &["ab", "two parts"],
    );
    assert_refused(
        texts("tokenizer.ggml.merges", &["x y"]),
        &["not a tokenizer"],
    );
    let bos = llama.clone().with("tokenizer.ggml.add_bos_token", 7, &[1]);
    assert_refused(bos.bytes(), &["bos_token_id"]);
    let scoreless = llama.clone().text("tokenizer.ggml.model", "llama");
    assert_refused(scoreless.bytes(), &["tokenizer.ggml.scores"]);
}

/// A file of the tokens a, b and ab and of further ones, each with a type.
fn with_tokens(further: &[(&str, i32)]) -> Maker {
    let tokens = [("a", 1), ("b", 1), ("ab", 1)];
    let all: Vec<(&str, i32)> = tokens.iter().chain(further).copied().collect();
    let texts: Vec<&str> = all.iter().map(|(text, _)| *text).collect();
    let mut types = 5_u32.to_le_bytes().to_vec();
    types.extend((all.len() as u64).to_le_bytes());
    types.extend(all.iter().flat_map(|(_, kind)| kind.to_le_bytes()));
    Maker::llama().texts("tokenizer.ggml.tokens", &texts).with(
        "tokenizer.ggml.token_type",
        9,
        &types,
    )
}

/// The tokens that end an answer, the tokenizer, and what is said of it.
fn ends(maker: &Maker) -> (Vec<u64>, Tokenizer, String) {
    let gguf = Gguf::open(&[memory(maker.bytes())]).unwrap();
    let tokenizer = Tokenizer::of_gguf(&gguf).unwrap();
    let said = tokenizer.warnings().join("\n");
    (vocabulary::ends(&gguf).unwrap(), tokenizer, said)
}

#[test]
fn ends_are_known_by_their_texts() {
    let texts = "<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> </s> <|eom_id|> <EOT> \
                 <|end_of_text|> <｜end▁of▁sentence｜> <|return|> <|call|> <|calls|> <|flush|> _<EOT> [EOT] \
                 [EOS] <end_of_utterance> <eos> <turn|> <|tool_response> [e~[";
    for text in texts.split_whitespace() {
        for (kind, told) in [(1, true), (3, false), (4, false)] {
            let (ends, tokenizer, said) = ends(&with_tokens(&[(text, kind)]));
            assert_eq!(ends, [3], "{text} of type {kind}");
            assert_eq!(
                tokenizer.encode_plain(&format!("a{text}b")).unwrap(),
                [0, 3, 1]
            );
            assert_eq!(said.contains(text), told, "{said}");
            let shown = if kind == 4 { text } else { "" };
            assert_eq!(tokenizer.decode(&[0, 3]).unwrap(), format!("a{shown}"));
        }
    }
    assert!(ends(&with_tokens(&[("<|im_start|>", 3)])).0.is_empty());
    for (tokens, expected) in [
        (
            &[("<|end|>", 3), ("<|call|>", 3), ("<|return|>", 3)][..],
            &[4, 5][..],
        ),
        (
            &[("<|end|>", 3), ("<|calls|>", 3), ("<|flush|>", 3)],
            &[4, 5],
        ),
        (&[("<|end|>", 3), ("<|call|>", 3)], &[3, 4]),
        (&[("</s>", 1), ("<|tool_response>", 3)], &[4]),
    ] {
        assert_eq!(ends(&with_tokens(tokens)).0, expected, "{tokens:?}");
    }
}

#[test]
fn ends_that_a_file_names_are_special_whatever_their_type() {
    for key in ["eos", "eot", "eom"] {
        let key = format!("tokenizer.ggml.{key}_token_id");
        let (ends, tokenizer, said) = ends(&with_tokens(&[("<stop>", 1)]).number(&key, 3));
        assert_eq!(ends, [3], "{key}");
        assert_eq!(tokenizer.encode_plain("a<stop>").unwrap(), [0, 3]);
        assert!(said.contains("token 3 (\"<stop>\")"), "{said}");
    }
}

#[test]
fn ids_beyond_the_vocabulary_are_told_and_passed_over() {
    for key in ["bos", "eos", "eot", "eom", "unknown"] {
        let key = format!("tokenizer.ggml.{key}_token_id");
        let file = with_tokens(&[("<|im_end|>", 3)])
            .number(&key, 99_999)
            .with("tokenizer.ggml.add_bos_token", 7, &[1])
            .with("tokenizer.ggml.add_eos_token", 7, &[1]);
        let file = if key.contains("bos") {
            file.number("tokenizer.ggml.eos_token_id", 3)
        } else {
            file.number("tokenizer.ggml.bos_token_id", 2)
        };
        let gguf = Gguf::open(&[memory(file.bytes())]).unwrap();
        assert_eq!(vocabulary::ends(&gguf).unwrap(), [3], "{key}");
        if key.contains("bos") || key.contains("eos") {
            let tokenizer = Tokenizer::of_gguf(&gguf).unwrap();
            let said = tokenizer.warnings().join("\n");
            assert!(
                said.contains(&format!("`{key}` is 99999, and there are 4 tokens")),
                "{said}"
            );
            let tokens = tokenizer.encode_with("a", true).unwrap();
            let expected = if key.contains("bos") { [0, 3] } else { [2, 0] };
            assert_eq!(tokens, expected, "{key}");
        }
    }
}

#[test]
fn keys_of_other_uses_are_passed_over() {
    let (_, _, said) = ends(&Maker::llama().number("tokenizer.ggml.some_new_token_id", 1));
    assert_eq!(said, "");
    let mut list = 5_u32.to_le_bytes().to_vec();
    list.extend(2_u64.to_le_bytes());
    list.extend([0; 8]);
    let file = Maker::llama().with("tokenizer.ggml.suppress_tokens", 9, &list);
    let (_, _, said) = ends(&file);
    assert!(said.contains("suppress_tokens` names 2 tokens"), "{said}");
}

#[test]
fn a_file_without_a_tokenizer_has_settings_all_the_same() {
    let bare = Maker::llama()
        .without("tokenizer.ggml.model")
        .without("tokenizer.ggml.tokens");
    let gguf = Gguf::open(&[memory(bare.bytes())]).unwrap();
    assert_eq!(config(&gguf).unwrap()["hidden_size"], 8);
    let message = Tokenizer::of_gguf(&gguf).unwrap_err().to_string();
    assert!(message.contains("tokenizer: ORG/NAME"), "{message}");
}

#[test]
fn recommended_sampling_is_that_of_generation_config() {
    let of = |file: Maker| gguf_generation_config(&memory(file.bytes()));
    assert_eq!(of(Maker::llama()).unwrap(), serde_json::json!({}));
    let recommends = Maker::llama()
        .with("general.sampling.temp", 6, &0.7_f32.to_le_bytes())
        .with("general.sampling.top_k", 5, &20_i32.to_le_bytes())
        .with("general.sampling.top_p", 6, &0.95_f32.to_le_bytes())
        .with(
            "general.sampling.penalty_repeat",
            6,
            &1.05_f32.to_le_bytes(),
        )
        .number("general.sampling.mirostat", 2);
    let expected = serde_json::json!({
        "temperature": 0.7, "top_k": 20.0, "top_p": 0.95, "repetition_penalty": 1.05,
        "general.sampling.mirostat": true,
    });
    assert_eq!(of(recommends).unwrap(), expected);
    let message = of(Maker::llama().text("general.sampling.temp", "hot"));
    let message = message.unwrap_err().to_string();
    assert!(
        message.contains("`general.sampling.temp` is a text"),
        "{message}"
    );
}

#[test]
fn settings_for_conversations_are_those_of_tokenizer_config() {
    let config = gguf_tokenizer_config(&disk("vocabulary-bytes.gguf")[0]).unwrap();
    assert_eq!(config["eos_token"], "<|im_end|>");
    assert_eq!(config["bos_token"], "<|im_start|>");
    let template = config["chat_template"].as_str().unwrap();
    assert!(template.contains("message.content"), "{template}");
    let two = Maker::llama()
        .text("tokenizer.chat_template", "A")
        .text("tokenizer.chat_template.tool_use", "B")
        .texts("tokenizer.chat_templates", &["tool_use"]);
    let config = gguf_tokenizer_config(&memory(two.bytes())).unwrap();
    let expected = serde_json::json!([
        {"name": "default", "template": "A"},
        {"name": "tool_use", "template": "B"},
    ]);
    assert_eq!(config["chat_template"], expected);
}
