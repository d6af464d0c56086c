//! From a configuration to a cascade.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use cascade_core::Fingerprint;
use cascade_engine::{Cascade, CascadeBuilder, NeuralOptions, Role};
use cascade_models::{load, parse_device, Device, HubOptions, LoadOptions, LoadedModel, Tokenizer};
use cascade_ngram::{Bigram, BigramTable, MaxGram, PromptLookup};

use crate::config::{Config, Drafter, Neural, Table};
use crate::{Error, Result};

/// How a configuration is assembled.
#[derive(Clone, Debug)]
pub struct AssembleOptions {
    /// `cpu` or `cuda:N` in place of the configuration's.
    pub device: Option<String>,
    /// Where models of the hub come from.
    pub hub: HubOptions,
    /// Whether downloads show a progress bar on standard error.
    pub progress: bool,
}

/// The configuration's device, the hub as the environment says, a progress bar if standard error is a terminal.
impl Default for AssembleOptions {
    fn default() -> Self {
        Self {
            device: None,
            hub: HubOptions::from_env(),
            progress: std::io::stderr().is_terminal(),
        }
    }
}

/// A cascade and what it was made of.
pub struct Assembled {
    /// The cascade, ready to generate.
    pub cascade: Cascade,
    /// The target's tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// Its models, the target first.
    pub parts: Vec<LoadedPart>,
    /// What is allowed but hardly meant, in sentences.
    pub warnings: Vec<String>,
    label: String,
    target: LoadedModel,
}

impl Assembled {
    /// The target alone, with a session of its own on the same weights: plain decoding to compare with.
    ///
    /// # Errors
    /// None that assembling would not have met.
    pub fn plain(&self) -> Result<Cascade> {
        Cascade::builder()
            .target(&self.parts[0].name, self.target.session())
            .eos(self.target.eos_token_ids.iter().copied())
            .codec(self.tokenizer.clone())
            .build()
            .map_err(|source| Error::Cascade {
                file: self.label.clone(),
                source: Box::new(source),
            })
    }
}

/// One model of an assembled cascade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedPart {
    /// Its name in reports.
    pub name: String,
    /// Where it came from.
    pub source: String,
    /// Its place in the cascade.
    pub role: Role,
    /// Parameters of a neural model; 0 for a statistical one.
    pub parameters: usize,
}

impl Config {
    /// Loads all models and puts the cascade together.
    ///
    /// # Errors
    /// A device that is not there; a model or a table that cannot be loaded; a drafter whose vocabulary or architecture
    /// differs from the target's.
    pub fn assemble(&self, options: &AssembleOptions) -> Result<Assembled> {
        let loader = self.loader(options)?;
        let target = loader.neural("target", &self.target)?;
        let tokenizer = Arc::new(target.tokenizer.clone());
        let mut parts = vec![part(&self.target, &target, Role::Target)];
        let builder = Cascade::builder()
            .target_with(&self.target.name, target.session(), self.target.rule)
            .eos(target.eos_token_ids.iter().copied())
            .codec(tokenizer.clone());
        let cascade = loader.cascade(builder, &tokenizer.fingerprint(), &mut parts)?;
        Ok(Assembled {
            cascade,
            tokenizer,
            parts,
            warnings: self.warnings(),
            label: self.label.clone(),
            target,
        })
    }

    pub(crate) fn loader<'a>(&'a self, options: &'a AssembleOptions) -> Result<Loader<'a>> {
        let device = options.device.as_ref().unwrap_or(&self.device);
        let device = parse_device(device).map_err(|source| self.model_error("device", source))?;
        Ok(Loader {
            config: self,
            options,
            device,
        })
    }

    fn model_error(&self, key: &str, source: cascade_models::Error) -> Error {
        Error::Model {
            file: self.label.clone(),
            key: key.to_owned(),
            source: Box::new(source),
        }
    }
}

pub(crate) struct Loader<'a> {
    pub(crate) config: &'a Config,
    pub(crate) options: &'a AssembleOptions,
    pub(crate) device: Device,
}

impl Loader<'_> {
    /// Adds the drafters to a builder that has a target already, and their descriptions to `parts`.
    pub(crate) fn cascade(
        &self,
        builder: CascadeBuilder,
        vocabulary: &Fingerprint,
        parts: &mut Vec<LoadedPart>,
    ) -> Result<Cascade> {
        let config = self.config;
        let mut builder = builder
            .k_matrix(config.k.clone())
            .lenience(config.lenience)
            .statistical_lenience(config.statistical_lenience)
            .placement(config.placement)
            .max_nodes(config.max_nodes);
        for (j, drafter) in config.drafters.iter().enumerate() {
            let key = format!("drafters[{j}]");
            let (with, part) = self.add(builder, &key, drafter, vocabulary)?;
            builder = with;
            parts.push(part);
        }
        builder.build().map_err(|source| Error::Cascade {
            file: config.label.clone(),
            source: Box::new(source),
        })
    }

    pub(crate) fn neural(&self, key: &str, neural: &Neural) -> Result<LoadedModel> {
        let options = LoadOptions {
            device: self.device.clone(),
            dtype: neural.dtype,
            hub: self.options.hub.clone(),
            progress: self.options.progress,
            tokenizer: neural.tokenizer.clone(),
        };
        load(&neural.source, &options).map_err(|source| self.config.model_error(key, source))
    }

    fn add(
        &self,
        builder: CascadeBuilder,
        key: &str,
        drafter: &Drafter,
        vocabulary: &Fingerprint,
    ) -> Result<(CascadeBuilder, LoadedPart)> {
        match drafter {
            Drafter::Neural {
                model: neural,
                branching,
            } => {
                let model = self.neural(key, neural)?;
                self.check_vocabulary(neural, &model, vocabulary)?;
                let options = NeuralOptions::new(neural.rule, branching.clone());
                let builder = builder.neural_with(&neural.name, model.session(), options);
                Ok((builder, part(neural, &model, Role::Drafter)))
            }
            Drafter::MaxGram {
                name,
                bigram,
                options,
            } => {
                let mut max_gram = MaxGram::new().with_options(*options);
                let mut source = "max-gram".to_owned();
                if let Some(table) = bigram {
                    let table = self.table(&format!("{key}.max_gram.bigram"), table, vocabulary)?;
                    source = format!("max-gram with {}", table.file());
                    max_gram = max_gram.with_bigram(Arc::new(table));
                }
                Ok((
                    builder.statistical(name, max_gram),
                    statistical(name, source),
                ))
            }
            Drafter::Bigram { name, table, width } => {
                let table = self.table(&format!("{key}.bigram"), table, vocabulary)?;
                let source = table.file().to_owned();
                let bigram = Bigram::new(Arc::new(table)).with_width(*width);
                Ok((builder.statistical(name, bigram), statistical(name, source)))
            }
            Drafter::PromptLookup {
                name,
                max_ngram,
                branches,
            } => {
                let source = format!("prompt lookup, n <= {max_ngram}");
                let lookup = PromptLookup::new(*max_ngram).with_branches(*branches);
                Ok((builder.statistical(name, lookup), statistical(name, source)))
            }
        }
    }

    fn check_vocabulary(
        &self,
        drafter: &Neural,
        model: &LoadedModel,
        vocabulary: &Fingerprint,
    ) -> Result<()> {
        let found = model.tokenizer.fingerprint();
        if found == *vocabulary {
            return Ok(());
        }
        Err(Error::Vocabulary {
            file: self.config.label.clone(),
            drafter: drafter.name.clone(),
            found: found.to_string(),
            target: self.config.target.name.clone(),
            expected: vocabulary.to_string(),
        })
    }

    fn table(&self, key: &str, table: &Table, vocabulary: &Fingerprint) -> Result<BigramTable> {
        let table = match table {
            Table::File(path) => BigramTable::open(PathBuf::from(path), vocabulary),
            Table::Embedded { name, bytes } => {
                BigramTable::from_static(name.clone(), bytes, vocabulary)
            }
        };
        table.map_err(|source| Error::Table {
            file: self.config.label.clone(),
            key: key.to_owned(),
            source: Box::new(source),
        })
    }
}

fn part(neural: &Neural, model: &LoadedModel, role: Role) -> LoadedPart {
    LoadedPart {
        name: neural.name.clone(),
        source: model.name.clone(),
        role,
        parameters: model.num_parameters(),
    }
}

fn statistical(name: &str, source: String) -> LoadedPart {
    LoadedPart {
        name: name.to_owned(),
        source,
        role: Role::Statistical,
        parameters: 0,
    }
}
