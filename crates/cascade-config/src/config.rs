//! A checked configuration.

use std::path::{Path, PathBuf};

use cascade_engine::{KMatrix, Options, StopSequences};
use cascade_eval::PromptTemplate;
use cascade_models::{parse_dtype, DType, ModelSource};
use cascade_ngram::{MaxGramOptions, Occurrence};

use crate::file::{
    DrafterEntry, File, GenerationEntry, KEntry, MaxGramEntry, NeuralEntry, OccurrenceEntry,
};
use crate::{place, Error, Result};

const DEMO_T5: &str = include_str!("../../../configs/demo-t5.yaml");
const DEMO_LLAMA: &str = include_str!("../../../configs/demo-llama.yaml");

/// A configuration whose every entry makes sense by itself. Whether models exist and fit each other shows when it is
/// [assembled](Self::assemble).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// What the configuration is called in messages: its path.
    pub label: String,
    /// The model whose answers are kept.
    pub target: Neural,
    /// The drafters, largest first.
    pub drafters: Vec<Drafter>,
    /// How much each of them drafts; as many rows as drafters.
    pub k: KMatrix,
    /// λ of drafters' reviews of neural drafts.
    pub lenience: f32,
    /// λ of drafters' reviews of statistical drafts.
    pub statistical_lenience: f32,
    /// How a dataset's question becomes a prompt.
    pub prompt: PromptTemplate,
    /// Length and stop sequences.
    pub options: Options,
    /// `cpu` or `cuda:N`.
    pub device: String,
}

/// A neural model.
#[derive(Clone, Debug, PartialEq)]
pub struct Neural {
    /// What it is called in reports; by default the last part of its source.
    pub name: String,
    /// Where its files are.
    pub source: ModelSource,
    /// Where its tokenizer is, if not with the model.
    pub tokenizer: Option<ModelSource>,
    /// What it computes in; f32 by default.
    pub dtype: DType,
}

/// One drafter.
#[derive(Clone, Debug, PartialEq)]
pub enum Drafter {
    /// A neural model.
    Neural(Neural),
    /// Max-Gram.
    MaxGram {
        /// What it is called in reports.
        name: String,
        /// The table that fills what no match gives.
        bigram: Option<Table>,
        /// Which match.
        options: MaxGramOptions,
    },
    /// A bigram table alone.
    Bigram {
        /// What it is called in reports.
        name: String,
        /// The table.
        table: Table,
    },
    /// Prompt lookup.
    PromptLookup {
        /// What it is called in reports.
        name: String,
        /// Longest n-gram that is looked up.
        max_ngram: usize,
    },
}

/// Where a bigram table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Table {
    /// A safetensors file.
    File(PathBuf),
    /// Part of the program.
    Embedded {
        /// What it is called in messages.
        name: String,
        /// The file's content.
        bytes: &'static [u8],
    },
}

impl Config {
    /// Reads a file, or one of the program's own configurations: `embedded:demo-t5`, `embedded:demo-llama`.
    ///
    /// # Errors
    /// A file that cannot be read, and everything that [`parse`](Self::parse) refuses.
    pub fn open(path: &Path) -> Result<Self> {
        match path.to_str() {
            Some("embedded:demo-t5") => return Self::demo(),
            Some(label @ "embedded:demo-llama") => {
                return Self::parse(DEMO_LLAMA, label, Path::new(""))
            }
            _ => {}
        }
        let text = std::fs::read_to_string(path).map_err(|source| Error::Unreadable {
            file: path.to_owned(),
            source,
        })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, &path.display().to_string(), base)
    }

    /// The configuration of the embedded T5 family.
    ///
    /// # Errors
    /// None, as a test makes sure.
    pub fn demo() -> Result<Self> {
        Self::parse(DEMO_T5, "embedded:demo-t5", Path::new(""))
    }

    /// Reads YAML. `label` stands in messages, and paths that start with a dot are relative to `base`.
    ///
    /// # Errors
    /// Text that is not YAML; keys that are unknown, missing, of the wrong kind, or at odds with each other; a K matrix
    /// that is not square, not upper triangular, or not as large as there are drafters; a lenience below 1. Each names the
    /// configuration and the key.
    pub fn parse(text: &str, label: &str, base: &Path) -> Result<Self> {
        let file: File = serde_yaml::from_str(text).map_err(|source| Error::Syntax {
            file: label.to_owned(),
            source,
        })?;
        let reader = Reader { label, base };
        let drafters = file
            .drafters
            .into_iter()
            .enumerate()
            .map(|(j, entry)| reader.drafter(&format!("drafters[{j}]"), entry))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self {
            label: label.to_owned(),
            target: reader.neural("target", file.target)?,
            k: reader.k_matrix(file.k, drafters.len())?,
            drafters,
            lenience: reader.lenience("lenience", file.lenience)?,
            statistical_lenience: reader
                .lenience("statistical_lenience", file.statistical_lenience)?,
            prompt: reader.prompt(file.prompt)?,
            options: reader.options(file.generation)?,
            device: file.device.unwrap_or_else(|| "cpu".to_owned()),
        })
    }
}

impl Config {
    /// What is allowed but hardly meant, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let reviews = |j: usize| matches!(self.drafters[j], Drafter::Neural(_));
        let idle = self.k.idle_drafters(reviews).into_iter().map(|j| {
            format!(
                "{}: drafter `{}` never drafts: its column of the K matrix is 0 in every row that is used",
                self.label,
                self.drafters[j].name()
            )
        });
        idle.collect()
    }
}

impl Drafter {
    /// What the drafter is called in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Neural(neural) => &neural.name,
            Self::MaxGram { name, .. }
            | Self::Bigram { name, .. }
            | Self::PromptLookup { name, .. } => name,
        }
    }
}

/// Turns entries into checked values, and knows what to call them in messages.
struct Reader<'a> {
    label: &'a str,
    base: &'a Path,
}

impl Reader<'_> {
    fn error(&self, key: &str, problem: impl Into<String>, cure: impl Into<String>) -> Error {
        Error::Entry {
            file: self.label.to_owned(),
            key: key.to_owned(),
            problem: problem.into(),
            cure: cure.into(),
        }
    }

    fn cascade(&self, source: impl Into<cascade_engine::Error>) -> Error {
        Error::Cascade {
            file: self.label.to_owned(),
            source: Box::new(source.into()),
        }
    }

    fn neural(&self, key: &str, entry: NeuralEntry) -> Result<Neural> {
        let source = self.source(&format!("{key}.model"), &entry.model)?;
        let tokenizer = entry
            .tokenizer
            .map(|text| self.source(&format!("{key}.tokenizer"), &text))
            .transpose()?;
        let dtype = match entry.dtype {
            None => DType::F32,
            Some(text) => parse_dtype(&text).map_err(|source| Error::Model {
                file: self.label.to_owned(),
                key: format!("{key}.dtype"),
                source: Box::new(source),
            })?,
        };
        Ok(Neural {
            name: entry.name.unwrap_or_else(|| last_part(&entry.model)),
            source,
            tokenizer,
            dtype,
        })
    }

    fn source(&self, key: &str, text: &str) -> Result<ModelSource> {
        place::model(text, self.base).map_err(|(problem, cure)| self.error(key, problem, cure))
    }

    fn table(&self, key: &str, text: &str) -> Result<Table> {
        place::table(text, self.base).map_err(|(problem, cure)| self.error(key, problem, cure))
    }

    fn drafter(&self, key: &str, entry: DrafterEntry) -> Result<Drafter> {
        let DrafterEntry {
            model,
            name,
            tokenizer,
            dtype,
            max_gram,
            bigram,
            prompt_lookup,
        } = entry;
        if model.is_none() && (tokenizer.is_some() || dtype.is_some()) {
            return Err(self.error(
                key,
                "a statistical drafter has no tokenizer and no dtype of its own",
                "remove them",
            ));
        }
        let or = |default: &str| name.clone().unwrap_or_else(|| default.to_owned());
        match (model, max_gram, bigram, prompt_lookup) {
            (Some(model), None, None, None) => {
                let entry = NeuralEntry {
                    model,
                    name,
                    tokenizer,
                    dtype,
                };
                self.neural(key, entry).map(Drafter::Neural)
            }
            (None, Some(entry), None, None) => self.max_gram(key, or("max-gram"), entry),
            (None, None, Some(table), None) => Ok(Drafter::Bigram {
                name: or("bigram"),
                table: self.table(&format!("{key}.bigram"), &table)?,
            }),
            (None, None, None, Some(entry)) => Ok(Drafter::PromptLookup {
                name: or("prompt-lookup"),
                max_ngram: self.positive(key, "max_ngram", entry.max_ngram.unwrap_or(3))?,
            }),
            _ => Err(self.error(
                key,
                "it is not clear what this drafter is",
                "give exactly one of `model`, `max_gram`, `bigram` and `prompt_lookup`",
            )),
        }
    }

    fn max_gram(&self, key: &str, name: String, entry: MaxGramEntry) -> Result<Drafter> {
        let defaults = MaxGramOptions::default();
        let bigram = entry
            .bigram
            .map(|text| self.table(&format!("{key}.max_gram.bigram"), &text))
            .transpose()?;
        let occurrence = match entry.occurrence {
            None => defaults.occurrence,
            Some(OccurrenceEntry::Earliest) => Occurrence::Earliest,
            Some(OccurrenceEntry::Latest) => Occurrence::Latest,
        };
        let min_match = match entry.min_match {
            None => defaults.min_match,
            Some(length) => self.positive(key, "max_gram.min_match", length)?,
        };
        Ok(Drafter::MaxGram {
            name,
            bigram,
            options: MaxGramOptions {
                occurrence,
                min_match,
                ..defaults
            },
        })
    }

    fn positive(&self, key: &str, what: &str, value: usize) -> Result<usize> {
        if value == 0 {
            return Err(self.error(&format!("{key}.{what}"), "it is 0", "give 1 or more"));
        }
        Ok(value)
    }

    fn k_matrix(&self, entry: Option<KEntry>, drafters: usize) -> Result<KMatrix> {
        let k = match entry {
            Some(entry) => KMatrix::new(entry.matrix, entry.convention),
            None if drafters == 0 => KMatrix::new(Vec::new(), Default::default()),
            None => return Err(self.cascade(cascade_engine::Error::NoKMatrix { drafters })),
        };
        let k = k.map_err(|error| self.cascade(error))?;
        if k.size() != drafters {
            return Err(self.cascade(cascade_engine::Error::KMatrixSize {
                size: k.size(),
                drafters,
            }));
        }
        Ok(k)
    }

    fn lenience(&self, key: &str, value: Option<f32>) -> Result<f32> {
        let value = value.unwrap_or(1.0);
        match cascade_engine::Lenience::new(value) {
            Ok(_) => Ok(value),
            Err(error) => Err(self.error(key, error.to_string(), "1 is the default")),
        }
    }

    fn prompt(&self, name: Option<String>) -> Result<PromptTemplate> {
        match name {
            None => Ok(PromptTemplate::Raw),
            Some(name) => name.parse().map_err(|error: cascade_eval::Error| {
                self.error("prompt", error.to_string(), "`raw` is the default")
            }),
        }
    }

    fn options(&self, entry: GenerationEntry) -> Result<Options> {
        let defaults = Options::default();
        let stop = match entry.stop {
            none if none.is_empty() => None,
            some => Some(StopSequences::new(some).map_err(|error| self.cascade(error))?),
        };
        Ok(Options {
            max_new_tokens: entry.max_new_tokens.unwrap_or(defaults.max_new_tokens),
            stop,
            ..defaults
        })
    }
}

/// `flan-t5-base` of `google/flan-t5-base@main`; `demo-t5-base` of `embedded:demo-t5-base`.
fn last_part(source: &str) -> String {
    let source = source.trim_end_matches('/');
    let without_revision = match source.split_once('@') {
        Some((id, _)) if !id.starts_with('.') => id,
        _ => source,
    };
    let last = without_revision.rsplit(['/', ':']).next();
    last.unwrap_or(source).to_owned()
}
