//! A checked configuration.

use std::path::{Path, PathBuf};

use cascade_core::LevelId;
use cascade_engine::{Branching, KMatrix, Options, Placement, Rule};
use cascade_models::{DType, ModelSource};
use cascade_ngram::MaxGramOptions;

use crate::file::File;
use crate::reader::Reader;
use crate::{place, Error, PromptTemplate, Result, SamplingSettings};

/// Nodes of a draft if the configuration does not say.
const MAX_NODES: usize = 64;

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
    /// Where the drafters of one row of the K matrix draft.
    pub placement: Placement,
    /// Nodes of a draft at most.
    pub max_nodes: usize,
    /// How a dataset's question becomes a prompt.
    pub prompt: PromptTemplate,
    /// Length, stop sequences, sampling.
    pub options: Options,
    /// Whether a generation goes on after EOS, up to its length: for benches, and to verify long texts.
    pub ignore_eos: bool,
    /// The settings that `options.decoding` was made of.
    pub sampling: SamplingSettings,
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
    /// The rule of its reviews when tokens are sampled.
    pub rule: Rule,
}

/// One drafter.
#[derive(Clone, Debug, PartialEq)]
pub enum Drafter {
    /// A neural model.
    Neural {
        /// The model.
        model: Neural,
        /// How its drafts branch.
        branching: Branching,
    },
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
        /// Successors proposed at each depth.
        width: usize,
    },
    /// Prompt lookup.
    PromptLookup {
        /// What it is called in reports.
        name: String,
        /// Longest n-gram that is looked up.
        max_ngram: usize,
        /// Matches whose continuations are proposed.
        branches: usize,
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
    /// A file that cannot be read, and everything that [`parse`](Self::parse) refuses; without the feature `demo`, one of
    /// the program's own configurations.
    pub fn open(path: &Path) -> Result<Self> {
        if let Some(label) = path.to_str() {
            if let Some(text) = place::config(label)? {
                return Self::parse(text, label, Path::new(""));
            }
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
    #[cfg(feature = "demo")]
    pub fn demo() -> Result<Self> {
        Self::open(Path::new("embedded:demo-t5"))
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
        let (sampling, decoding) = reader.sampling(&file.generation)?;
        let target = reader.neural("target", file.target)?;
        let k = reader.k_matrix(file.k, drafters.len())?;
        reader.check_exact(&target, &drafters, &k)?;
        Ok(Self {
            label: label.to_owned(),
            target,
            k,
            drafters,
            lenience: reader.lenience("lenience", file.lenience)?,
            statistical_lenience: reader
                .lenience("statistical_lenience", file.statistical_lenience)?,
            placement: file.tree.placement,
            max_nodes: reader.positive(
                "tree",
                "max_nodes",
                file.tree.max_nodes.unwrap_or(MAX_NODES),
            )?,
            prompt: reader.prompt(file.prompt)?,
            options: reader.options(&file.generation, decoding)?,
            ignore_eos: file.generation.ignore_eos.unwrap_or(false),
            sampling,
            device: file.device.unwrap_or_else(|| "cpu".to_owned()),
        })
    }
}

impl Config {
    /// What is allowed but hardly meant, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let reviews = |level: LevelId| matches!(self.drafters[level.0 - 1], Drafter::Neural { .. });
        let idle = self.k.idle_drafters(reviews).into_iter().map(|level| {
            format!(
                "{}: drafter `{}` never drafts: its column of the K matrix is 0 in every row that is used",
                self.label,
                self.drafters[level.0 - 1].name()
            )
        });
        let in_vain = self.sampling.truncates_in_vain().then(|| {
            format!(
                "{}: generation.top_k, top_p and min_p do nothing at temperature 0, which is greedy decoding",
                self.label
            )
        });
        idle.chain(self.clipped()).chain(in_vain).collect()
    }

    /// Rows of the K matrix that ask for more than a draft may hold.
    fn clipped(&self) -> impl Iterator<Item = String> + '_ {
        let rows = self.k.rows().iter().enumerate();
        rows.filter_map(move |(row, entries)| {
            let asked: usize = entries.iter().sum();
            (asked > self.max_nodes).then(|| {
                format!(
                    "{}: row {row} of the K matrix asks for {asked} tokens, and tree.max_nodes is {}: \
                     the drafts are cut there",
                    self.label, self.max_nodes
                )
            })
        })
    }
}

impl Drafter {
    /// What the drafter is called in reports.
    pub fn name(&self) -> &str {
        match self {
            Self::Neural { model, .. } => &model.name,
            Self::MaxGram { name, .. }
            | Self::Bigram { name, .. }
            | Self::PromptLookup { name, .. } => name,
        }
    }
}
