//! The table tests/goldens/models.md: every checkpoint of tests/goldens, in every format that
//! there is, loaded as a user would load it.
//!
//! Checks the safetensors that are committed, and that tests/goldens/models.md says so.
//! scripts/model-table.sh makes the other formats and writes the table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cascade_core::{Architecture, Prompt, Scorer, TokenId, TokenTree, Want};
use cascade_engine::{Branching, Cascade, Convention, KMatrix, NeuralOptions, Options};
use cascade_models::{LoadOptions, LoadedModel, ModelSource, Session, load};
use cascade_ngram::MaxGram;
use cascade_verify::Rule;
use safetensors::SafeTensors;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The format of the checkpoints themselves.
const SAFETENSORS: &str = "safetensors";
/// A folder with folders of other formats, each with folders of checkpoints.
const FORMATS: &str = "CASCADE_MODEL_FORMATS";
/// Whether to write the table.
const WRITE: &str = "CASCADE_WRITE_MODEL_TABLE";

const TOLERANCE: f32 = 1e-4;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn goldens() -> PathBuf {
    repository().join("tests/goldens/models")
}

fn read_json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// What golden.safetensors has.
struct Golden {
    tokens: BTreeMap<String, Vec<i64>>,
    logits: Vec<f32>,
}

impl Golden {
    fn open(name: &str) -> Self {
        let bytes = fs::read(goldens().join(name).join("golden.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let mut golden = Self {
            tokens: BTreeMap::new(),
            logits: Vec::new(),
        };
        for (name, view) in tensors.tensors() {
            let data = view.data();
            if view.dtype() == safetensors::Dtype::I64 {
                let words = data.chunks_exact(8);
                let values = words.map(|word| i64::from_le_bytes(word.try_into().unwrap()));
                golden.tokens.insert(name, values.collect());
            } else if name == "logits" {
                let words = data.chunks_exact(4);
                let values = words.map(|word| f32::from_le_bytes(word.try_into().unwrap()));
                golden.logits = values.collect();
            }
        }
        golden
    }

    fn tokens(&self, key: &str) -> Vec<TokenId> {
        let tokens = self.tokens.get(key).into_iter().flatten();
        tokens.map(|&token| token as TokenId).collect()
    }

    fn session(&self, model: &LoadedModel) -> Session {
        let mut session = model.session();
        session.set_source(&self.tokens("source")).unwrap();
        session
    }

    /// The greatest difference of logits, as a share of the greatest logit.
    fn difference(&self, model: &LoadedModel) -> f32 {
        let tokens = self.tokens("tokens");
        let first = usize::from(model.info().architecture == Architecture::DecoderOnly);
        let rest = TokenTree::chain(tokens[first..].iter().copied());
        let mut session = self.session(model);
        let scores = session.score(&tokens[..first], &rest, Want::LOGITS);
        let found = scores.unwrap().logits.unwrap();
        let found = (0..found.rows()).flat_map(|row| found.row(row).to_vec());
        let greatest = self.logits.iter().fold(0f32, |a, b| a.max(b.abs()));
        let worst = found.zip(&self.logits).map(|(a, b)| (a - b).abs());
        worst.fold(0.0, f32::max) / greatest
    }

    /// Whether every node of a tree has the very logits of its path as a chain.
    fn trees_equal_chains(&self, model: &LoadedModel) -> bool {
        let mut tree = TokenTree::new();
        let parents = self.tokens["tree_parents"].iter();
        for (token, &parent) in self.tokens("tree_tokens").into_iter().zip(parents) {
            tree.push(token, usize::try_from(parent).ok());
        }
        let context = self.tokens("tree_context");
        let logits = |tree: &TokenTree| {
            let scores = self.session(model).score(&context, tree, Want::LOGITS);
            scores.unwrap().logits.unwrap()
        };
        let of_tree = logits(&tree);
        (0..tree.len()).all(|node| {
            let chain = logits(&TokenTree::chain(tree.path_tokens(Some(node))));
            chain.row(chain.rows() - 1) == of_tree.row(node + 1)
        })
    }

    /// Whether a cascade of the model, `drafter` and Max-Gram generates what the model does.
    fn cascades_equal_plain(&self, model: &LoadedModel, drafter: &LoadedModel) -> bool {
        let rows = vec![vec![3, 4], vec![0, 3]];
        let options = NeuralOptions::new(Rule::default(), Branching::main_path(2));
        let mut cascade = Cascade::builder()
            .target("target", model.session())
            .neural_with("drafter", drafter.session(), options)
            .statistical("mag", MaxGram::new())
            .k_matrix(KMatrix::new(rows, Convention::Added).unwrap())
            .build()
            .unwrap();
        let prompt = Prompt {
            source: self.tokens("source"),
            context: match model.info().architecture {
                Architecture::EncoderDecoder => Vec::new(),
                Architecture::DecoderOnly => self.tokens("tree_context"),
            },
        };
        let mut generate = |speculate| {
            let options = Options::default()
                .with_max_new_tokens(24)
                .with_speculation(speculate);
            cascade.generate_tokens(&prompt, &options).unwrap().tokens
        };
        let plain = generate(false);
        !plain.is_empty() && generate(true) == plain
    }
}

/// A folder to load: the files of `weights`, one of the configurations, and a tokenizer of as many
/// words as there are tokens.
fn folder(weights: &Path, config: &Path) -> TempDir {
    let folder = TempDir::new().unwrap();
    for file in fs::read_dir(weights).unwrap() {
        let file = file.unwrap();
        let name = file.file_name();
        let skipped = name.to_string_lossy();
        if !skipped.starts_with("config") && skipped != "golden.safetensors" {
            fs::copy(file.path(), folder.path().join(&name)).unwrap();
        }
    }
    fs::copy(config, folder.path().join("config.json")).unwrap();
    let count = read_json(config)["vocab_size"].as_u64().unwrap();
    let words: BTreeMap<String, u64> = (0..count).map(|id| (format!("w{id}"), id)).collect();
    let tokenizer = json!({"version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}});
    let file = folder.path().join("tokenizer.json");
    if !file.exists() {
        fs::write(file, tokenizer.to_string()).unwrap();
    }
    folder
}

fn open(weights: &Path, config: &Path) -> cascade_models::Result<LoadedModel> {
    let folder = folder(weights, config);
    load(
        &ModelSource::Folder(folder.path().to_owned()),
        &LoadOptions::default(),
    )
}

/// The configurations of a checkpoint: as several versions of transformers save them.
fn configs(name: &str) -> Vec<PathBuf> {
    let files = ["config.json", "config-4.json", "config-5.json"];
    let files = files.map(|file| goldens().join(name).join(file));
    files.into_iter().filter(|file| file.exists()).collect()
}

/// What a line of the table says.
struct Line {
    name: String,
    model_type: String,
    versions: Vec<String>,
    format: String,
    /// Loads, logits equal, cascade equals plain, tree equals chain.
    holds: [bool; 4],
}

impl Line {
    fn new(name: &str, format: &str, weights: &Path, drafter: &str) -> Self {
        let configs = configs(name);
        let text = |config: &Path, key: &str| read_json(config)[key].as_str().unwrap().to_owned();
        let version = |config: &PathBuf| text(config, "transformers_version");
        let mut line = Self {
            name: name.to_owned(),
            model_type: text(&configs[0], "model_type"),
            versions: configs.iter().map(version).collect(),
            format: format.to_owned(),
            holds: [true; 4],
        };
        line.versions.sort();
        let golden = Golden::open(name);
        let drafter_weights = goldens().join(drafter);
        let drafter = open(&drafter_weights, &drafter_weights.join("config.json")).unwrap();
        for config in configs {
            let found = match open(weights, &config) {
                Ok(model) => [
                    true,
                    golden.difference(&model) <= TOLERANCE,
                    golden.cascades_equal_plain(&model, &drafter),
                    golden.trees_equal_chains(&model),
                ],
                Err(error) => {
                    eprintln!("{name} as {format}: {error}");
                    [false; 4]
                }
            };
            line.holds = std::array::from_fn(|i| line.holds[i] && found[i]);
        }
        line
    }

    fn row(&self) -> String {
        let mut row = format!(
            "| `{}` | {} | {} | {} |",
            self.name,
            self.model_type,
            self.versions.join(", "),
            self.format
        );
        for holds in self.holds {
            let _ = write!(row, " {} |", if holds { "yes" } else { "**no**" });
        }
        row
    }
}

/// Checkpoints, each with one of the same kind and vocabulary to draft for it: another, if there is
/// one.
fn checkpoints() -> Vec<(String, String)> {
    let mut names: Vec<String> = fs::read_dir(goldens())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let kind = |name: &String| {
        let config = read_json(&goldens().join(name).join("config.json"));
        (config["vocab_size"].clone(), config["d_model"].is_null())
    };
    let partner = |name: &String| {
        let mut others = names.iter();
        let other = others.find(|other| *other != name && kind(other) == kind(name));
        other.unwrap_or(name).clone()
    };
    let pairs = names.iter().map(|name| (name.clone(), partner(name)));
    pairs.collect()
}

/// Formats, and the folders with their checkpoints.
fn formats() -> Vec<(String, PathBuf)> {
    let mut formats = vec![(SAFETENSORS.to_owned(), goldens())];
    if let Some(others) = std::env::var_os(FORMATS) {
        let mut folders: Vec<_> = fs::read_dir(others)
            .unwrap()
            .map(|folder| folder.unwrap())
            .map(|folder| (folder.file_name().into_string().unwrap(), folder.path()))
            .collect();
        folders.sort();
        formats.extend(folders);
    }
    formats
}

fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, drafter) in checkpoints() {
        for (format, folder) in formats() {
            let weights = folder.join(&name);
            if weights.exists() {
                lines.push(Line::new(&name, &format, &weights, &drafter));
            }
        }
    }
    lines
}

const BEGIN: &str = "<!-- made by scripts/model-table.sh -->\n";
const END: &str = "<!-- end -->";

/// tests/goldens/models.md with these lines as its table.
fn with_table(page: &str, lines: &[Line]) -> String {
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let mut table = String::from(
        "| Checkpoint | `model_type` | Saved by transformers | Format | Loads | Logits equal HF | \
         Cascade equals plain | Tree equals chain |\n|---|---|---|---|---|---|---|---|\n",
    );
    for line in lines {
        let _ = writeln!(table, "{}", line.row());
    }
    format!("{before}{BEGIN}{table}{END}{after}")
}

#[test]
fn the_table_of_models_is_what_the_models_do() {
    let lines = lines();
    let file = repository().join("tests/goldens/models.md");
    let page = fs::read_to_string(&file).unwrap();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&file, with_table(&page, &lines)).unwrap();
    }
    for line in lines.iter().filter(|line| line.format == SAFETENSORS) {
        assert_eq!(line.holds, [true; 4], "{}", line.row());
        let page = fs::read_to_string(&file).unwrap();
        assert!(
            page.contains(&line.row()),
            "not in {}: {}",
            file.display(),
            line.row()
        );
    }
    assert!(lines.len() >= 14);
}
