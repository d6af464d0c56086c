//! GGUF files: logits and ids against llama.cpp and Hugging Face, models in parts, and what is said
//! of files that are not there; see tests/goldens.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use candle_core::{Tensor, safetensors};
use cascade_checkpoint::{Checkpoint, FloatType, ScaleType, Scales};
use cascade_core::{Architecture, Scorer, TextCodec, TokenId, TokenTree, Want};
use cascade_models::{
    CacheType, DType, LoadOptions, LoadedModel, ModelFile, ModelSource, Quantized, Tokenizer,
    TokenizerFiles, check_quantized, load, locate, quantize,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens/gguf")
}

fn options(dtype: DType) -> LoadOptions {
    LoadOptions {
        dtype,
        progress: false,
        ..LoadOptions::default()
    }
}

fn open(path: &Path) -> cascade_models::Result<LoadedModel> {
    let source = ModelSource::parse(path.to_str().unwrap()).unwrap();
    load(&source, &options(DType::F32))
}

/// A model and what others computed with it.
struct Golden {
    model: LoadedModel,
    tensors: HashMap<String, Tensor>,
}

impl Golden {
    fn of(name: &str) -> Self {
        let tensors = goldens().join(format!("{name}.safetensors"));
        Self {
            model: open(&goldens().join(format!("{name}.gguf"))).unwrap(),
            tensors: safetensors::load(tensors, &candle_core::Device::Cpu).unwrap(),
        }
    }

    fn tokens(&self, key: &str) -> Vec<TokenId> {
        let tokens: Vec<i64> = self.tensors[key].to_vec1().unwrap();
        tokens.into_iter().map(|token| token as TokenId).collect()
    }

    /// The last rows of logits, as they were computed with the tokens one after the other.
    fn logits(&self) -> Vec<Vec<f32>> {
        let mut session = self.model.session();
        if self.tensors.contains_key("source") {
            session.set_source(&self.tokens("source")).unwrap();
        }
        let tokens = self.tokens("tokens");
        let kept = self.tensors["hf"].dims()[0];
        (tokens.len() + 1 - kept..=tokens.len())
            .map(|length| {
                let scores = session
                    .score(&tokens[..length], &TokenTree::new(), Want::LOGITS)
                    .unwrap();
                scores.logits.unwrap().row(0).to_vec()
            })
            .collect()
    }

    /// The largest difference to the golden logits of a kind, and how far these spread.
    fn difference(&self, key: &str, found: &[Vec<f32>]) -> (f32, f32) {
        let expected: Vec<Vec<f32>> = self.tensors[key].to_vec2().unwrap();
        assert_eq!(expected.len(), found.len());
        let pairs = || expected.iter().flatten().zip(found.iter().flatten());
        let worst = pairs().map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let count = pairs().count() as f32;
        let square: f32 = pairs().map(|(a, _)| a * a).sum();
        (worst, (square / count).sqrt())
    }
}

/// Asserts that logits are those of transformers with the same values in f32, and those of
/// llama.cpp but for `rounding`, a share of their spread.
fn assert_golden(name: &str, rounding: f32) {
    let golden = Golden::of(name);
    let found = golden.logits();
    let (worst, spread) = golden.difference("hf", &found);
    assert!(
        worst < 1e-5 * spread.max(1.0),
        "{name}: transformers differ by {worst}"
    );
    let (worst, spread) = golden.difference("llama_cpp", &found);
    assert!(
        worst < rounding * spread,
        "{name}: llama.cpp differs by {worst} of {spread}"
    );
}

#[test]
fn logits_of_f32_are_those_of_llama_cpp() {
    assert_golden("llama-f32", 1e-5);
    // llama.cpp does not scale hidden states before T5's tied head; the golden is scaled.
    assert_golden("t5-v1.0-f32", 1e-5);
}

#[test]
fn logits_of_packed_weights_are_those_of_llama_cpp_but_for_rounded_activations() {
    // llama.cpp rounds activations to f16 beside f16 weights, and to 8 bits beside packed ones.
    assert_golden("mistral-f16", 0.01);
    assert_golden("llama3-q8_0", 0.1);
    assert_golden("qwen2-q4_0", 0.1);
    assert_golden("qwen3-k", 0.1);
    assert_golden("qwen3-minima", 0.1);
    assert_golden("t5-v1.1-q8_0", 0.1);
}

/// Activations are rounded to 8 bits in both, and whatever differs before it (llama.cpp keeps keys
/// and values, and scales of activations, in f16) may round them to the other side: logits come as
/// close to each other as either does to those in f32.
#[test]
fn blocks_that_stay_compressed_give_the_logits_of_llama_cpp() {
    for (name, smaller) in [
        ("llama3-q8_0", 0.5),
        ("qwen2-q4_0", 0.5),
        ("qwen3-k", 0.9),
        ("qwen3-minima", 0.5),
        ("t5-v1.1-q8_0", 0.5),
        ("mistral-f16", 0.6),
    ] {
        let load_as = |dtype| {
            let source = ModelSource::File(goldens().join(format!("{name}.gguf")));
            load(&source, &options(dtype)).unwrap()
        };
        let golden = Golden {
            model: load_as(DType::Stored),
            ..Golden::of(name)
        };
        let found = golden.logits();
        let (exact, spread) = golden.difference("hf", &found);
        let (packed, _) = golden.difference("llama_cpp", &found);
        println!("{name}: {exact} from f32, {packed} from llama.cpp, of {spread}");
        assert!(exact < 0.1 * spread, "{name}: {exact} of {spread}");
        assert!(
            packed < 0.1 * spread,
            "{name}: llama.cpp differs by {packed} of {spread}"
        );
        let bytes = |dtype| load_as(dtype).model.bytes_per_forward(1) as f64;
        let share = bytes(DType::Stored) / bytes(DType::F32);
        assert!(share < smaller, "{name}: {share} of the bytes of f32");
    }
}

#[test]
fn the_tokens_that_end_an_answer_are_in_the_file() {
    let ends = |name: &str| open(&goldens().join(name)).unwrap().eos_token_ids;
    assert_eq!(ends("llama-f32.gguf"), [2]);
    assert_eq!(ends("t5-v1.0-f32.gguf"), [1]);
    // <|endoftext|> ends an answer too, though only <|im_end|> is named.
    let model = open(&goldens().join("qwen2-q4_0.gguf")).unwrap();
    let texts: Vec<_> = model
        .eos_token_ids
        .iter()
        .map(|&id| model.tokenizer.id_to_token(id).unwrap())
        .collect();
    assert_eq!(texts, ["<|endoftext|>", "<|im_end|>"]);
}

fn vocabulary(path: PathBuf) -> Tokenizer {
    Tokenizer::load(&TokenizerFiles::Gguf(ModelFile::Disk(path))).unwrap()
}

fn digest(ids: &[TokenId]) -> String {
    let ids: Vec<String> = ids.iter().map(TokenId::to_string).collect();
    let digest = Sha256::digest(ids.join(","));
    digest[..4]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Asserts that every line becomes the tokens that it became elsewhere.
fn assert_ids(name: &str, tokenizer: &Tokenizer) {
    let json = fs::read(goldens().join("vocabularies.json")).unwrap();
    let golden: Value = serde_json::from_slice(&json).unwrap();
    let (lines, ids) = (&golden["lines"], &golden["ids"][name]);
    let lines = lines.as_array().unwrap();
    assert_eq!((lines.len(), ids.as_array().unwrap().len()), (183, 183));
    for (line, expected) in lines.iter().zip(ids.as_array().unwrap()) {
        let found = tokenizer.encode(line.as_str().unwrap()).unwrap();
        assert_eq!(&digest(&found), expected, "{name}: {line}: {found:?}");
    }
}

#[test]
fn texts_become_the_tokens_of_the_models_own_tokenizer() {
    assert_ids(
        "llama",
        &vocabulary(goldens().join("vocabulary-llama.gguf")),
    );
    assert_ids("t5", &vocabulary(goldens().join("vocabulary-t5.gguf")));
    assert_ids(
        "qwen2",
        &vocabulary(goldens().join("vocabulary-bytes.gguf")),
    );
}

#[test]
fn texts_are_cut_as_the_file_says() {
    let bytes = fs::read(goldens().join("vocabulary-bytes.gguf")).unwrap();
    let folder = TempDir::new().unwrap();
    for name in [
        "llama-bpe",
        "smaug-bpe",
        "deepseek-r1-qwen",
        "smollm",
        "gpt-2",
        "tekken",
        "gpt-4o",
        "deepseek-coder",
        "default",
    ] {
        let path = folder.path().join(format!("{name}.gguf"));
        fs::write(&path, with_cut(&bytes, name)).unwrap();
        assert_ids(name, &vocabulary(path));
    }
}

/// The file with another way to cut texts. It has no tensors, which would have to be moved.
fn with_cut(bytes: &[u8], name: &str) -> Vec<u8> {
    let key = b"tokenizer.ggml.pre";
    let at = bytes
        .windows(key.len())
        .position(|window| window == key)
        .unwrap();
    // Behind the key are the type of the value and its length.
    let (head, tail) = bytes.split_at(at + key.len() + 4);
    let old = u64::from_le_bytes(tail[..8].try_into().unwrap()) as usize;
    let new = (name.len() as u64).to_le_bytes();
    [head, &new, name.as_bytes(), &tail[8 + old..]].concat()
}

#[test]
fn texts_come_back_from_their_tokens() {
    for (name, text) in [
        ("vocabulary-llama.gguf", " two  spaces, été 東京 👩‍👧\n"),
        ("vocabulary-bytes.gguf", " two  spaces, été 東京 👩‍👧\n"),
        ("vocabulary-t5.gguf", "The quick brown fox."),
    ] {
        let tokenizer = vocabulary(goldens().join(name));
        let tokens = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text, "{name}");
    }
}

#[test]
fn a_model_in_parts_is_the_model() {
    let whole = Golden::of("llama-f32");
    let name = |part: usize| format!("llama-f32-{part:05}-of-00002.gguf");
    let parts = Golden {
        model: open(&goldens().join(name(1))).unwrap(),
        tensors: whole.tensors.clone(),
    };
    assert_eq!(parts.model.files.weights.len(), 2);
    assert_eq!(parts.logits(), whole.logits());

    let folder = TempDir::new().unwrap();
    let refused = |file: &str| {
        let error = open(&folder.path().join(file)).expect_err("a part is missing");
        error.to_string()
    };
    fs::copy(goldens().join(name(1)), folder.path().join(name(1))).unwrap();
    let message = refused(&name(1));
    assert!(
        message.contains(&name(2)) && message.contains("beside"),
        "{message}"
    );
    fs::rename(
        folder.path().join(name(1)),
        folder.path().join("renamed.gguf"),
    )
    .unwrap();
    let message = refused("renamed.gguf");
    assert!(
        message.contains("part 1 of a model in 2 files"),
        "{message}"
    );
    fs::copy(goldens().join(name(2)), folder.path().join("second.gguf")).unwrap();
    let message = refused("second.gguf");
    assert!(message.contains("part 2 of"), "{message}");
}

#[test]
fn a_folder_of_gguf_files_is_told_apart() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("model-Q8_0.gguf");
    fs::copy(goldens().join("llama3-q8_0.gguf"), &file).unwrap();
    let message = open(folder.path()).expect_err("a folder").to_string();
    assert!(message.contains("give the GGUF file itself"), "{message}");
    assert!(message.contains("model-Q8_0.gguf"), "{message}");
    open(&file).unwrap();
}

#[test]
fn another_tokenizer_may_be_given() {
    let options = LoadOptions {
        tokenizer: Some(ModelSource::File(goldens().join("vocabulary-llama.gguf"))),
        ..options(DType::F32)
    };
    let source = ModelSource::File(goldens().join("mistral-f16.gguf"));
    let model = load(&source, &options).unwrap();
    assert!(model.tokenizer.file().ends_with("vocabulary-llama.gguf"));
}

/// What a model says of a few tokens.
fn says(source: &ModelSource, dtype: DType, cache_dtype: Option<CacheType>) -> Vec<f32> {
    let options = LoadOptions {
        cache_dtype,
        ..options(dtype)
    };
    let mut session = load(source, &options).unwrap().session();
    if session.info().architecture == Architecture::EncoderDecoder {
        session.set_source(&[5, 9, 7, 3]).unwrap();
    }
    let scores = session.score(&[1, 5, 9, 4], &TokenTree::new(), Want::LOGITS);
    scores.unwrap().logits.unwrap().row(0).to_vec()
}

/// A file that was written, and what was told of it.
#[derive(Debug)]
struct Written {
    bytes: Vec<u8>,
    done: Quantized,
    warnings: Vec<String>,
}

/// What is written counts.
struct Counting<'a>(&'a Cell<usize>, Vec<u8>);

impl Write for Counting<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        self.1.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The file of a model in a type. All warnings come before the first byte.
fn write(original: &ModelSource, dtype: DType) -> cascade_models::Result<Written> {
    let files = locate(original, &LoadOptions::default()).unwrap();
    let (count, mut warnings) = (Cell::new(0), Vec::new());
    let mut tell = |warning: &str| {
        assert_eq!(count.get(), 0, "{warning}");
        warnings.push(warning.to_owned());
    };
    let mut out = Counting(&count, Vec::new());
    let done = quantize(&files, &Value::Null, dtype, &mut tell, &mut out)?;
    let bytes = out.1;
    assert_eq!(done.bytes, bytes.len() as u64);
    Ok(Written {
        bytes,
        done,
        warnings,
    })
}

fn quantized(name: &str, dtype: DType, folder: &TempDir) -> (ModelSource, Written) {
    let original = ModelSource::File(goldens().join(name));
    let written = write(&original, dtype).unwrap();
    let again = write(&original, dtype).unwrap();
    assert!(
        written.bytes == again.bytes,
        "{name}: other bytes the second time"
    );
    // One file, whatever it was made from.
    let name = name.replace("-00001-of-00002", "-of-parts");
    let path = folder.path().join(format!("{dtype}-{name}"));
    fs::write(&path, &written.bytes).unwrap();
    (ModelSource::File(path), written)
}

#[test]
fn quantized_files_are_the_models_that_rounding_at_load_gives() {
    let folder = TempDir::new().unwrap();
    for name in [
        "llama-f32.gguf",
        "llama-f32-00001-of-00002.gguf",
        "mistral-f16.gguf",
        "llama3-q8_0.gguf",
        "qwen3-k.gguf",
        "qwen3-minima.gguf",
        "t5-v1.0-f32.gguf",
        "t5-v1.1-q8_0.gguf",
    ] {
        let original = ModelSource::File(goldens().join(name));
        for dtype in [DType::Q8_0, DType::Q4_0, DType::BF16, DType::F32] {
            let (written, Written { done, .. }) = quantized(name, dtype, &folder);
            // Rows of the others have no whole blocks.
            let whole = ["llama3-q8_0.gguf", "qwen3-k.gguf", "t5-v1.1-q8_0.gguf"];
            assert!(done.matrices > 0 || !whole.contains(&name), "{name}");
            assert_eq!(
                says(&written, DType::Stored, None),
                says(&original, dtype, None),
                "{name} in {dtype}"
            );
        }
    }
}

#[test]
fn quantizing_what_has_the_type_changes_nothing() {
    let folder = TempDir::new().unwrap();
    let (once, first) = quantized("qwen3-k.gguf", DType::Q8_0, &folder);
    assert_eq!(first.done.matrices, 8);
    let twice = write(&once, DType::Q8_0).unwrap();
    assert!(first.bytes == twice.bytes);
}

#[test]
fn rounding_twice_is_told_and_other_files_are_refused() {
    let folder = TempDir::new().unwrap();
    let (_, Written { warnings, .. }) = quantized("llama3-q8_0.gguf", DType::Q4_0, &folder);
    assert!(warnings[0].contains("Q8_0"), "{warnings:?}");
    let original = ModelSource::File(goldens().join("llama-f32.gguf"));
    let refused = write(&original, DType::Stored).map(|written| written.done);
    assert!(refused.unwrap_err().to_string().contains("q4_0"));
}

/// A folder with a tiny model of the goldens and a tokenizer.
fn folder_of(model: &str, tokenizer: &Path, folder: &TempDir) -> PathBuf {
    let place = folder.path().join(model);
    fs::create_dir(&place).unwrap();
    let original = goldens().join("../models").join(model);
    for name in ["config.json", "model.safetensors"] {
        fs::copy(original.join(name), place.join(name)).unwrap();
    }
    fs::copy(tokenizer, place.join("tokenizer.json")).unwrap();
    place
}

/// A tokenizer.json of a few tokens, which every tiny model has rows for.
fn small_tokenizer(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("small.json");
    let tokenizer = r#"{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1, "b": 2}, "unk_token": "<unk>"}}"#;
    fs::write(&path, tokenizer).unwrap();
    path
}

fn converted(original: &ModelSource, dtype: DType, path: &Path) -> cascade_models::Result<Written> {
    let files = locate(original, &LoadOptions::default()).unwrap();
    let written = write(original, dtype)?;
    fs::write(path, &written.bytes).unwrap();
    check_quantized(&files, &ModelFile::Disk(path.to_owned()))?;
    Ok(written)
}

#[test]
fn folders_become_the_models_that_rounding_at_load_gives() {
    let folder = TempDir::new().unwrap();
    let tokenizer = small_tokenizer(&folder);
    for name in [
        "tiny-llama-biases",
        "tiny-llama-dynamic",
        "tiny-llama-gqa",
        "tiny-llama-linear-rope",
        "tiny-llama-mha",
        "tiny-llama-yarn",
        "tiny-mistral",
        "tiny-mistral-window",
        "tiny-phi3",
        "tiny-qwen2",
        "tiny-qwen3",
        "tiny-t5-v1.0",
    ] {
        let original = ModelSource::Folder(folder_of(name, &tokenizer, &folder));
        for dtype in [DType::Q8_0, DType::BF16, DType::F32] {
            let path = folder.path().join(format!("{name}-{dtype}.gguf"));
            let Written { warnings, .. } = converted(&original, dtype, &path).unwrap();
            let told = |what: &str| warnings.iter().any(|warning| warning.contains(what));
            // Nobody else knows a tokenizer of words, or reads a window.
            assert!(told("WordLevel") && told("do not load it"), "{warnings:?}");
            let windowed = ["tiny-mistral-window", "tiny-phi3"].contains(&name);
            assert_eq!(
                told("longer texts go on in another way"),
                windowed,
                "{warnings:?}"
            );
            let written = ModelSource::File(path);
            assert_eq!(
                says(&written, DType::Stored, None),
                says(&original, dtype, None),
                "{name} in {dtype}"
            );
        }
    }
}

#[test]
fn rotations_of_llama_3_become_factors_in_f32() {
    let folder = TempDir::new().unwrap();
    let tokenizer = small_tokenizer(&folder);
    let original = ModelSource::Folder(folder_of("tiny-llama3-rope", &tokenizer, &folder));
    let path = folder.path().join("llama3.gguf");
    converted(&original, DType::F32, &path).unwrap();
    let (written, own) = (
        says(&ModelSource::File(path), DType::Stored, None),
        says(&original, DType::F32, None),
    );
    let spread = own.iter().map(|x| x.abs()).fold(0.0, f32::max);
    let pairs = written.iter().zip(&own);
    let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-5 * spread, "{worst} of {spread}");
}

#[test]
fn what_the_format_has_no_words_for_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let tokenizer = small_tokenizer(&folder);
    for (name, word) in [
        ("tiny-phi3-longrope", "LongRoPE"),
        ("tiny-smollm3", "layers"),
        ("tiny-qwen2-window", "windows"),
        ("tiny-t5-v1.1", "relative_attention_max_distance of 50"),
        ("tiny-t5-silu", "Silu"),
        ("tiny-ul2", "GatedSilu"),
    ] {
        let original = ModelSource::Folder(folder_of(name, &tokenizer, &folder));
        let path = folder.path().join("refused.gguf");
        let message = converted(&original, DType::Q8_0, &path)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains(word) && message.contains("--dtype"),
            "{name}: {message}"
        );
    }
    // A layer more than config.json says.
    let place = folder_of("tiny-llama-mha", &tokenizer, &folder);
    let config = fs::read_to_string(place.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    let layers = config["num_hidden_layers"].as_u64().unwrap();
    config["num_hidden_layers"] = (layers - 1).into();
    fs::write(place.join("config.json"), config.to_string()).unwrap();
    let source = ModelSource::Folder(place);
    let refused = converted(&source, DType::Q8_0, &folder.path().join("refused.gguf"));
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains(&format!("model.layers.{}", layers - 1)),
        "{message}"
    );
}

#[test]
fn what_a_generation_config_recommends_is_written_and_read() {
    let folder = TempDir::new().unwrap();
    let tokenizer = small_tokenizer(&folder);
    let place = folder_of("tiny-llama-mha", &tokenizer, &folder);
    let generation = r#"{"eos_token_id": 2, "temperature": 0.7, "top_k": 20, "top_p": 0.95,
        "min_p": 0.01, "repetition_penalty": 1.1, "no_repeat_ngram_size": 3}"#;
    fs::write(place.join("generation_config.json"), generation).unwrap();
    let path = folder.path().join("written.gguf");
    let done = converted(&ModelSource::Folder(place), DType::F32, &path).unwrap();
    // What a file has no key for.
    let told = |warning: &String| warning.contains("no_repeat_ngram_size 3");
    assert!(done.warnings.iter().any(told), "{:?}", done.warnings);
    let read = open(&path).unwrap();
    assert_eq!(read.eos_token_ids, [2]);
    assert_eq!(read.generation_warnings, [""; 0]);
    assert_eq!(
        read.recommended.to_string(),
        "temperature 0.7, top-k 20, top-p 0.95, min-p 0.01, repetition penalty 1.1"
    );
}

/// A tiny T5 whose config.json and head are changed.
fn t5_with(
    name: &str,
    settings: &[(&str, Value)],
    head: Option<Head>,
    folder: &TempDir,
) -> ModelSource {
    let place = folder_of(name, &small_tokenizer(folder), folder);
    let config = fs::read_to_string(place.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    // A file says no other.
    config["relative_attention_max_distance"] = 128.into();
    config["feed_forward_proj"] = match name {
        "tiny-t5-v1.0" => "relu".into(),
        _ => "gated-gelu".into(),
    };
    for (key, value) in settings {
        config[*key] = value.clone();
    }
    fs::write(place.join("config.json"), config.to_string()).unwrap();
    let weights = place.join("model.safetensors");
    let mut tensors = safetensors::load(&weights, &candle_core::Device::Cpu).unwrap();
    tensors.remove("lm_head.weight");
    let embedding = tensors["shared.weight"].clone();
    let own = match head {
        None => None,
        Some(Head::Copy) => Some(embedding.copy().unwrap()),
        Some(Head::Own) => Some((embedding * 0.5).unwrap()),
    };
    tensors.extend(own.map(|own| ("lm_head.weight".to_owned(), own)));
    safetensors::save(&tensors, weights).unwrap();
    ModelSource::Folder(place)
}

/// A head beside an embedding.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Head {
    Copy,
    Own,
}

#[test]
fn every_head_of_a_t5_can_be_said() {
    for name in ["tiny-t5-v1.0", "tiny-t5-v1.1"] {
        for head in [None, Some(Head::Copy), Some(Head::Own)] {
            for scaled in [true, false] {
                let folder = TempDir::new().unwrap();
                let settings = [
                    ("tie_word_embeddings", true.into()),
                    ("scale_decoder_outputs", scaled.into()),
                ];
                let original = t5_with(name, &settings, head, &folder);
                let path = folder.path().join("written.gguf");
                for dtype in [DType::F32, DType::Q8_0] {
                    let written = converted(&original, dtype, &path).unwrap();
                    let has = |name: &[u8]| written.bytes.windows(name.len()).any(|w| w == name);
                    // A copy is not written, and what is taken for granted is not said.
                    let own = head == Some(Head::Own);
                    assert_eq!(has(b"\x0d\0\0\0\0\0\0\0output.weight"), own);
                    let granted = scaled != own && (name == "tiny-t5-v1.1" || !own);
                    assert_eq!(has(b"t5.logit_scale"), !granted, "{name} {head:?} {scaled}");
                    assert_eq!(
                        says(&ModelSource::File(path.clone()), DType::Stored, None),
                        says(&original, dtype, None),
                        "{name} {head:?} {scaled} in {dtype}"
                    );
                }
            }
        }
        // As transformers 4 writes them: whether they are tied says it all.
        for (tied, head) in [
            (true, None),
            (true, Some(Head::Own)),
            (false, Some(Head::Copy)),
        ] {
            let folder = TempDir::new().unwrap();
            let original = t5_with(name, &[("tie_word_embeddings", tied.into())], head, &folder);
            let path = folder.path().join("written.gguf");
            converted(&original, DType::F32, &path).unwrap();
            let written = says(&ModelSource::File(path), DType::Stored, None);
            assert_eq!(
                written,
                says(&original, DType::F32, None),
                "{name} {tied} {head:?}"
            );
        }
    }
}

#[test]
fn models_of_the_hub_become_files() {
    let folder = TempDir::new().unwrap();
    let lookalikes = goldens().join("../../lookalikes");
    for model in [
        "lmsys/vicuna-7b-v1.3",
        "double7/vicuna-68m",
        "google/flan-t5-xxl",
        "google/flan-t5-small",
    ] {
        let original = ModelSource::Folder(lookalikes.join(model));
        let path = folder.path().join("converted.gguf");
        let done = converted(&original, DType::F16, &path).unwrap();
        let unread = |warning: &&String| warning.contains("cannot read the tokenizer");
        assert_eq!(done.warnings.iter().find(unread), None, "{model}");
        let written = ModelSource::File(path);
        assert_eq!(
            says(&written, DType::Stored, None),
            says(&original, DType::F16, None),
            "{model}"
        );
        let options = LoadOptions::default();
        let (written, original) = (
            load(&written, &options).unwrap(),
            load(&original, &options).unwrap(),
        );
        assert_eq!(
            written.tokenizer.fingerprint(),
            original.tokenizer.fingerprint()
        );
        assert_eq!(written.eos_token_ids, original.eos_token_ids);
    }
}

#[test]
fn keys_and_values_in_16_bits_are_rounded_and_no_more() {
    for name in ["llama-f32.gguf", "t5-v1.0-f32.gguf"] {
        let source = ModelSource::File(goldens().join(name));
        let plain = says(&source, DType::F32, None);
        assert_eq!(says(&source, DType::F32, Some(CacheType::F32)), plain);
        let spread = plain.iter().map(|x| x.abs()).fold(0.0, f32::max);
        for (cache, share) in [(CacheType::BF16, 0.05), (CacheType::F16, 0.01)] {
            let rounded = says(&source, DType::F32, Some(cache));
            let pairs = plain.iter().zip(&rounded);
            let worst = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(
                worst > 0.0 && worst < share * spread,
                "{name}, {cache}: {worst} of {spread}"
            );
        }
    }
}

/// Where the last float of a tensor lies in a file, or the scale of its last block, and what makes
/// it infinite. Nothing for a tensor that is read in another order.
fn last_number(whole: &[u8], checkpoint: &Checkpoint, name: &str) -> Option<(usize, Vec<u8>)> {
    let shape = checkpoint.infos()[name].shape.clone();
    let blocks = match shape[..] {
        [outputs, inputs] => checkpoint.blocks(name, [outputs, inputs], DType::Stored),
        _ => Ok(None),
    };
    let (bytes, before_end, infinity) = match blocks.unwrap() {
        Some(blocks) => {
            let scales = Scales::of_format(blocks.format);
            let before_end = scales.bytes - scales.places[0];
            let infinity = match scales.stored_as {
                ScaleType::E8M0 => vec![0xff],
                _ => vec![0, 0x7c],
            };
            (blocks.bytes, before_end, infinity)
        }
        None => {
            let stored = checkpoint.load(name, &shape).unwrap();
            let infinity = match stored.dtype {
                FloatType::F32 => vec![0, 0, 0x80, 0x7f],
                _ => vec![0, 0x7c],
            };
            (stored.bytes, infinity.len(), infinity)
        }
    };
    let start = whole.windows(bytes.len()).position(|w| *w == *bytes)?;
    Some((start + bytes.len() - before_end, infinity))
}

#[test]
fn weights_that_are_not_numbers_are_refused_whatever_they_are_packed_as() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("damaged.gguf");
    let mut damaged_tensors = 0;
    for name in [
        "llama-f32",
        "llama3-q8_0",
        "mistral-f16",
        "qwen2-q4_0",
        "qwen3-k",
        "qwen3-minima",
        "t5-v1.1-q8_0",
    ] {
        let original = goldens().join(format!("{name}.gguf"));
        let whole = fs::read(&original).unwrap();
        let source = ModelSource::parse(original.to_str().unwrap()).unwrap();
        let files = locate(&source, &LoadOptions::default()).unwrap();
        let checkpoint = Checkpoint::open(&files).unwrap();
        for tensor in checkpoint.infos().keys() {
            let Some((at, infinity)) = last_number(&whole, &checkpoint, tensor) else {
                continue;
            };
            let mut damaged = whole.clone();
            damaged[at..at + infinity.len()].copy_from_slice(&infinity);
            fs::write(&path, damaged).unwrap();
            for dtype in [DType::Stored, DType::F32, DType::Q8_0] {
                let loaded = load(&ModelSource::File(path.clone()), &options(dtype));
                let message = loaded.expect_err("a weight is not finite").to_string();
                let whose = format!("damaged.gguf: tensor {tensor} has ");
                assert!(
                    message.contains(&whose) && message.contains("finite"),
                    "{message}"
                );
            }
            damaged_tensors += 1;
        }
    }
    assert!(damaged_tensors > 50, "{damaged_tensors}");
}
