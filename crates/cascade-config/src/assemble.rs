//! From a configuration to a cascade.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use cascade_core::TokenId;
use cascade_engine::{Cascade, CascadeBuilder, NeuralOptions, Role};
use cascade_models::{
    load, parse_device, Device, HubOptions, LoadOptions, LoadedModel, Session, Tokenizer,
};
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
    eos: Vec<TokenId>,
    loaded: Loaded,
}

impl Assembled {
    /// Another cascade over the same weights and tables, with the settings of `config`: its K matrix, lenience, rules,
    /// branches, budget. `config` is the one that was assembled, changed in these and in nothing else.
    ///
    /// # Errors
    /// Settings that do not fit together.
    ///
    /// # Panics
    /// If the drafters of `config` are not those that were loaded.
    pub fn cascade_with(&self, config: &Config) -> Result<Cascade> {
        self.loaded.cascade(config, &self.tokenizer)
    }

    /// The target alone, with a session of its own on the same weights: plain decoding to compare with.
    ///
    /// # Errors
    /// None that assembling would not have met.
    pub fn plain(&self) -> Result<Cascade> {
        Cascade::builder()
            .target(&self.parts[0].name, self.target_session())
            .eos(self.eos().iter().copied())
            .codec(self.tokenizer.clone())
            .build()
            .map_err(|source| Error::Cascade {
                file: self.loaded.label.clone(),
                source: Box::new(source),
            })
    }

    /// A session of the target's own, which has seen nothing yet, on the same weights.
    pub fn target_session(&self) -> Session {
        self.loaded.target.session()
    }

    /// Tokens that end a text; none if the configuration says that EOS is ignored.
    pub fn eos(&self) -> &[TokenId] {
        &self.eos
    }
}

/// The weights and tables of a configuration, from which cascades are built.
struct Loaded {
    label: String,
    target: LoadedModel,
    drafters: Vec<LoadedDrafter>,
}

enum LoadedDrafter {
    Neural(Box<LoadedModel>),
    /// Max-Gram, or a table alone.
    Table(Option<Arc<BigramTable>>),
    PromptLookup,
}

impl Loaded {
    fn eos(&self, config: &Config) -> &[TokenId] {
        if config.ignore_eos {
            &[]
        } else {
            &self.target.eos_token_ids
        }
    }

    fn cascade(&self, config: &Config, tokenizer: &Arc<Tokenizer>) -> Result<Cascade> {
        assert_eq!(
            self.drafters.len(),
            config.drafters.len(),
            "other drafters than those that were loaded"
        );
        let builder = Cascade::builder()
            .target_with(
                &config.target.name,
                self.target.session(),
                config.target.rule,
            )
            .eos(self.eos(config).iter().copied())
            .codec(tokenizer.clone())
            .k_matrix(config.k.clone())
            .lenience(config.lenience)
            .statistical_lenience(config.statistical_lenience)
            .placement(config.placement)
            .max_nodes(config.max_nodes);
        let drafters = self.drafters.iter().zip(&config.drafters);
        drafters
            .fold(builder, |builder, (loaded, drafter)| {
                loaded.add(builder, drafter)
            })
            .build()
            .map_err(|source| Error::Cascade {
                file: self.label.clone(),
                source: Box::new(source),
            })
    }
}

impl LoadedDrafter {
    fn add(&self, builder: CascadeBuilder, drafter: &Drafter) -> CascadeBuilder {
        match (self, drafter) {
            (Self::Neural(loaded), Drafter::Neural { model, branching }) => {
                let options = NeuralOptions::new(model.rule, branching.clone());
                builder.neural_with(&model.name, loaded.session(), options)
            }
            (Self::Table(table), Drafter::MaxGram { name, options, .. }) => {
                let max_gram = MaxGram::new().with_options(*options);
                let max_gram = match table {
                    None => max_gram,
                    Some(table) => max_gram.with_bigram(Arc::clone(table)),
                };
                builder.statistical(name, max_gram)
            }
            (Self::Table(Some(table)), Drafter::Bigram { name, width, .. }) => {
                let bigram = Bigram::new(Arc::clone(table)).with_width(*width);
                builder.statistical(name, bigram)
            }
            (
                Self::PromptLookup,
                Drafter::PromptLookup {
                    name,
                    max_ngram,
                    branches,
                },
            ) => {
                let lookup = PromptLookup::new(*max_ngram).with_branches(*branches);
                builder.statistical(name, lookup)
            }
            _ => panic!(
                "drafter `{}` is not the one that was loaded",
                drafter.name()
            ),
        }
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
        let mut drafters = Vec::with_capacity(self.drafters.len());
        for (j, drafter) in self.drafters.iter().enumerate() {
            let (loaded, part) = loader.drafter(&format!("drafters[{j}]"), drafter, &tokenizer)?;
            drafters.push(loaded);
            parts.push(part);
        }
        let loaded = Loaded {
            label: self.label.clone(),
            target,
            drafters,
        };
        Ok(Assembled {
            cascade: loaded.cascade(self, &tokenizer)?,
            tokenizer,
            parts,
            warnings: self.warnings(),
            eos: loaded.eos(self).to_vec(),
            loaded,
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

    fn drafter(
        &self,
        key: &str,
        drafter: &Drafter,
        tokenizer: &Tokenizer,
    ) -> Result<(LoadedDrafter, LoadedPart)> {
        Ok(match drafter {
            Drafter::Neural { model: neural, .. } => {
                let model = self.neural(key, neural)?;
                self.check_vocabulary(neural, &model, tokenizer)?;
                let part = part(neural, &model, Role::Drafter);
                (LoadedDrafter::Neural(Box::new(model)), part)
            }
            Drafter::MaxGram { name, bigram, .. } => {
                let key = format!("{key}.max_gram.bigram");
                let table = bigram
                    .as_ref()
                    .map(|table| self.table(&key, table, tokenizer));
                let table = table.transpose()?;
                let source = match &table {
                    None => "max-gram".to_owned(),
                    Some(table) => format!("max-gram with {}", table.file()),
                };
                (LoadedDrafter::Table(table), statistical(name, source))
            }
            Drafter::Bigram { name, table, .. } => {
                let table = self.table(&format!("{key}.bigram"), table, tokenizer)?;
                let source = table.file().to_owned();
                (LoadedDrafter::Table(Some(table)), statistical(name, source))
            }
            Drafter::PromptLookup {
                name, max_ngram, ..
            } => {
                let source = format!("prompt lookup, n <= {max_ngram}");
                (LoadedDrafter::PromptLookup, statistical(name, source))
            }
        })
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

    fn table(&self, key: &str, table: &Table, tokenizer: &Tokenizer) -> Result<Arc<BigramTable>> {
        let fingerprint = tokenizer.fingerprint();
        let table = match table {
            Table::File(path) => BigramTable::open(PathBuf::from(path), &fingerprint),
            Table::Embedded { name, bytes } => {
                BigramTable::from_static(name.clone(), bytes, &fingerprint)
            }
        };
        table.map(Arc::new).map_err(|source| Error::Table {
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
