//! What cases are made of: small models, tables of n-grams and trained stop rules.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cascade_config::trained::{ClassifierFile, ClassifierSettings, HeadFolder, HeadSettings};
use cascade_config::{AssembleOptions, DeviceSpec, ModelPool, Notices, StandIn};
use cascade_core::toy::ToyScorer;
use cascade_core::{Architecture, Fingerprint, TokenId};
use cascade_engine::{CLASSIFIER_FEATURES, ClassifierWeights, HeadLayer, HeadWeights};
use cascade_models::HubOptions;
use cascade_ngram::{NgramLimits, NgramRows, Provenance};
use rayon::{ThreadPool, ThreadPoolBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The model that the heads of tests/goldens/heads read, and the size of its states.
pub(crate) const HEADS_TARGET: (&str, usize) = ("tiny-llama-gqa", 36);
/// Tokens of the toys' target.
pub(crate) const TOY_TOKENS: TokenId = 12;

/// A model that may be a target, and what drafts for it.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub(crate) name: String,
    /// The keys of a configuration that name the model.
    pub(crate) entry: Value,
    /// Models of one vocabulary draft for each other.
    pub(crate) vocabulary: String,
    /// The table of the vocabulary.
    pub(crate) table: Option<String>,
    /// The architecture of a toy.
    pub(crate) toy: Option<Architecture>,
}

impl Family {
    fn new(name: &str, entry: Value, vocabulary: &str, table: Option<String>) -> Self {
        Self {
            name: name.to_owned(),
            entry,
            vocabulary: vocabulary.to_owned(),
            table,
            toy: None,
        }
    }

    /// Whether the model has millions of weights.
    pub(crate) fn is_large(&self) -> bool {
        self.name.starts_with("demo") && self.name.ends_with("target")
    }
}

/// All models, opened when they are first needed.
pub(crate) struct Models {
    pub(crate) folder: TempDir,
    pub(crate) pool: ModelPool,
    pub(crate) families: Vec<Family>,
    pub(crate) heads: Vec<String>,
    /// Pools of one thread and of three.
    pub(crate) threads: [ThreadPool; 2],
}

impl Models {
    pub(crate) fn open() -> Self {
        cascade_demo::register();
        let folder = TempDir::new().unwrap();
        write_stop_rules(folder.path());
        let families = [tiny(folder.path()), gguf(), demo(), toys(folder.path())];
        let threads = |count| ThreadPoolBuilder::new().num_threads(count).build().unwrap();
        Self {
            pool: pool(),
            families: families.concat(),
            heads: names(&goldens().join("heads")),
            threads: [threads(1), threads(3)],
            folder,
        }
    }

    pub(crate) fn family(&self, name: &str) -> &Family {
        let mut all = self.families.iter();
        all.find(|family| family.name == name).unwrap()
    }
}

pub(crate) fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// The checkpoints of tests/goldens/models, with a tokenizer of as many words as there are tokens.
fn tiny(folder: &Path) -> Vec<Family> {
    let models = goldens().join("models");
    let family = |name: &String| {
        let model = models.join(name);
        let config = fs::read(model.join("config.json")).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        let tokens = config["vocab_size"].as_u64().unwrap() as TokenId;
        let words = folder.join(format!("words-{tokens}"));
        write_tokenizer(&words, tokens);
        let words_of = (0..tokens).map(|id| (id, format!("w{id}")));
        let table = write_table(&words, Fingerprint::of_vocabulary(words_of), tokens);
        let is_decoder = config["d_model"].is_null();
        let vocabulary = format!("{tokens} words, decoder: {is_decoder}");
        let entry = json!({ "model": model, "tokenizer": words });
        Family::new(name, entry, &vocabulary, Some(table))
    };
    names(&models).iter().map(family).collect()
}

/// Models whose matrices are whole blocks.
fn gguf() -> Vec<Family> {
    let families = [
        ("llama-f32", "pieces"),
        ("mistral-f16", "pieces"),
        ("llama3-q8_0", "bytes"),
        ("qwen2-q4_0", "bytes"),
        ("qwen3-k", "bytes"),
        ("qwen3-minima", "bytes"),
        ("t5-v1.0-f32", "pieces of t5"),
        ("t5-v1.1-q8_0", "pieces of t5"),
    ];
    let family = |(name, vocabulary)| {
        let file = goldens().join(format!("gguf/{name}.gguf"));
        Family::new(name, json!({ "model": file }), vocabulary, None)
    };
    families.map(family).to_vec()
}

/// The demo's models, which have learnt something: many drafts are accepted.
fn demo() -> Vec<Family> {
    let family = |name: &str| {
        let entry = json!({ "model": format!("embedded:{name}") });
        let vocabulary = &name[..name.rfind('-').unwrap()];
        Family::new(name, entry, vocabulary, Some("embedded:demo".to_owned()))
    };
    let sizes = ["small", "base", "target"];
    let names = sizes.map(|size| ["llama", "t5"].map(|kind| format!("demo-{kind}-{size}")));
    names.iter().flatten().map(|name| family(name)).collect()
}

/// Models in integer arithmetic whose agreement is known.
fn toys(folder: &Path) -> Vec<Family> {
    let table = write_table(&folder.join("toys"), toy_vocabulary(), TOY_TOKENS);
    let toys = [
        ("toy-decoder", Architecture::DecoderOnly),
        ("toy-encoder", Architecture::EncoderDecoder),
    ];
    let family = |(name, architecture)| Family {
        toy: Some(architecture),
        ..Family::new(
            name,
            json!({ "model": "toys/target" }),
            name,
            Some(table.clone()),
        )
    };
    toys.map(family).to_vec()
}

pub(crate) fn toy_vocabulary() -> Fingerprint {
    Fingerprint::from_stored("toys")
}

pub(crate) fn toy_target(architecture: Architecture) -> ToyScorer {
    ToyScorer::target("target", TOY_TOKENS as usize, 42).with_architecture(architecture)
}

/// How often toys that draft agree with their target, of 256 times, and how many rows they have:
/// as many, fewer and more. They differ in architecture and are named by their number.
const TOYS: [(u64, usize); 6] = [
    (250, 12),
    (180, 12),
    (30, 12),
    (180, 10),
    (256, 17),
    (128, 13),
];

/// The entries of a configuration that toys stand for.
pub(crate) fn toy_drafters(architecture: Architecture) -> Vec<Value> {
    let name = |toy| format!("{architecture:?}-{toy}");
    let entry = |toy| json!({ "model": "toys/drafter", "name": name(toy) });
    (0..TOYS.len()).map(entry).collect()
}

/// A pool without a network and without notices, in which toys stand for models.
fn pool() -> ModelPool {
    let options = AssembleOptions::default()
        .with_device(Some(DeviceSpec::Cpu))
        .with_notices(Notices::new(|_| {}))
        .with_hub(HubOptions::new("http://localhost:9", "/nonexistent"));
    let mut pool = ModelPool::new(DeviceSpec::Cpu, &options);
    for architecture in [Architecture::DecoderOnly, Architecture::EncoderDecoder] {
        for (entry, (agreement, rows)) in toy_drafters(architecture).iter().zip(TOYS) {
            let toy = ToyScorer::drafter("drafter", rows, 42, rows as u64, agreement);
            let toy = toy.with_architecture(architecture);
            let stand_in = StandIn {
                source: "a toy".to_owned(),
                parameters: 0,
                session: Arc::new(move || Box::new(toy.clone())),
            };
            pool = pool.with_stand_in(entry["name"].as_str().unwrap(), stand_in);
        }
    }
    pool
}

fn write_tokenizer(folder: &Path, tokens: TokenId) {
    let words: serde_json::Map<String, Value> = (0..tokens)
        .map(|id| (format!("w{id}"), json!(id)))
        .collect();
    let tokenizer = json!({"version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}});
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
}

/// A table of pairs and triples, and where it is.
fn write_table(folder: &Path, tokenizer: Fingerprint, tokens: TokenId) -> String {
    let mut rows = NgramRows::new(2, tokens as usize, NgramLimits::default()).unwrap();
    for token in 0..tokens {
        rows.add_token(token, 100).unwrap();
        for next in (token % 3..tokens).step_by(3) {
            let count = u64::from(5 + token * next % 17);
            rows.add_pair(token, next, count).unwrap();
            rows.add_triple([token, next], token * next % tokens, 30)
                .unwrap();
        }
    }
    let provenance = Provenance {
        tokenizer,
        sources: Vec::new(),
        command: "tests".to_owned(),
        version: "0".to_owned(),
    };
    let file = folder.with_extension("safetensors");
    rows.finish(1, provenance).unwrap().write(&file).unwrap();
    file.display().to_string()
}

/// A classifier, and an acceptance head for drafters that are [`HEADS_TARGET`].
fn write_stop_rules(folder: &Path) {
    let numbers = |count: usize| -> Vec<f32> {
        let number = |i: usize| ((i * 7) % 11) as f32 / 11.0 - 0.5;
        (0..count).map(number).collect()
    };
    let classifier = ClassifierFile {
        weights: ClassifierWeights {
            mean: vec![0.2; CLASSIFIER_FEATURES],
            deviation: vec![0.5; CLASSIFIER_FEATURES],
            hidden: numbers(4 * CLASSIFIER_FEATURES),
            hidden_bias: numbers(4),
            output: numbers(4),
            output_bias: 0.0,
        },
        settings: ClassifierSettings::new("drafter", 0.5, 8),
    };
    fs::write(folder.join("classifier"), classifier.to_bytes().unwrap()).unwrap();
    let size = HEADS_TARGET.1;
    let layer = HeadLayer {
        weight: numbers(size * size),
        bias: numbers(size),
    };
    let head = HeadFolder {
        weights: HeadWeights {
            layers: vec![Arc::new(layer)],
            output: numbers(size),
            output_bias: 0.5,
        },
        settings: Some(HeadSettings::new("drafter", 0.5)),
    };
    fs::create_dir(folder.join("acceptance")).unwrap();
    for (name, bytes) in head.to_files().unwrap() {
        fs::write(folder.join("acceptance").join(name), bytes).unwrap();
    }
}
