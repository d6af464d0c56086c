//! From a configuration to a cascade.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

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
        let device = options.device.as_ref().unwrap_or(&self.device);
        let device = parse_device(device).map_err(|source| self.model_error("device", source))?;
        let loader = Loader {
            config: self,
            options,
            device,
        };
        let target = loader.neural("target", &self.target)?;
        let tokenizer = Arc::new(target.tokenizer.clone());
        let mut parts = vec![part(&self.target, &target, Role::Target)];
        let mut builder = Cascade::builder()
            .target_with(&self.target.name, target.session(), self.target.rule)
            .eos(target.eos_token_ids.iter().copied())
            .codec(tokenizer.clone())
            .k_matrix(self.k.clone())
            .lenience(self.lenience)
            .statistical_lenience(self.statistical_lenience)
            .placement(self.placement)
            .max_nodes(self.max_nodes);
        for (j, drafter) in self.drafters.iter().enumerate() {
            let key = format!("drafters[{j}]");
            let (with, part) = loader.add(builder, &key, drafter, &tokenizer)?;
            builder = with;
            parts.push(part);
        }
        let cascade = builder.build().map_err(|source| Error::Cascade {
            file: self.label.clone(),
            source: Box::new(source),
        })?;
        Ok(Assembled {
            cascade,
            tokenizer,
            parts,
            warnings: self.warnings(),
            label: self.label.clone(),
            target,
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

struct Loader<'a> {
    config: &'a Config,
    options: &'a AssembleOptions,
    device: Device,
}

impl Loader<'_> {
    fn neural(&self, key: &str, neural: &Neural) -> Result<LoadedModel> {
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
        tokenizer: &Tokenizer,
    ) -> Result<(CascadeBuilder, LoadedPart)> {
        match drafter {
            Drafter::Neural {
                model: neural,
                branching,
            } => {
                let model = self.neural(key, neural)?;
                self.check_vocabulary(neural, &model, tokenizer)?;
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
                    let table = self.table(&format!("{key}.max_gram.bigram"), table, tokenizer)?;
                    source = format!("max-gram with {}", table.file());
                    max_gram = max_gram.with_bigram(Arc::new(table));
                }
                Ok((
                    builder.statistical(name, max_gram),
                    statistical(name, source),
                ))
            }
            Drafter::Bigram { name, table, width } => {
                let table = self.table(&format!("{key}.bigram"), table, tokenizer)?;
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
        tokenizer: &Tokenizer,
    ) -> Result<()> {
        let (found, expected) = (model.tokenizer.fingerprint(), tokenizer.fingerprint());
        if found == expected {
            return Ok(());
        }
        Err(Error::Vocabulary {
            file: self.config.label.clone(),
            drafter: drafter.name.clone(),
            found: found.to_string(),
            target: self.config.target.name.clone(),
            expected: expected.to_string(),
        })
    }

    fn table(&self, key: &str, table: &Table, tokenizer: &Tokenizer) -> Result<BigramTable> {
        let fingerprint = tokenizer.fingerprint();
        let table = match table {
            Table::File(path) => BigramTable::open(PathBuf::from(path), &fingerprint),
            Table::Embedded { name, bytes } => {
                BigramTable::from_static(name.clone(), bytes, &fingerprint)
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
