//! From a configuration to a cascade.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use cascade_core::{Drafter as StatisticalDrafter, Fingerprint, TokenId};
use cascade_engine::{Cascade, CascadeBuilder, Lenience, NeuralOptions, Role};
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

pub(crate) enum LoadedDrafter {
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
        let builder = Cascade::builder()
            .target_with(
                &config.target.name,
                self.target.session(),
                config.target.rule,
            )
            .eos(self.eos(config).iter().copied())
            .codec(tokenizer.clone());
        with_drafters(builder, &self.drafters, config, &self.label)
    }
}

/// The cascade of a builder that has a target already, and drafters with the settings of `config`.
///
/// # Panics
/// If the drafters of `config` are not those that were loaded.
pub(crate) fn with_drafters(
    builder: CascadeBuilder,
    drafters: &[LoadedDrafter],
    config: &Config,
    label: &str,
) -> Result<Cascade> {
    assert_eq!(
        drafters.len(),
        config.drafters.len(),
        "other drafters than those that were loaded"
    );
    let checked = |lenience: f32| {
        Lenience::new(lenience).map_err(|source| Error::Cascade {
            file: label.to_owned(),
            source: Box::new(source.into()),
        })
    };
    let builder = builder
        .k_matrix(config.k.clone())
        .lenience(checked(config.lenience)?)
        .statistical_lenience(checked(config.statistical_lenience)?)
        .placement(config.placement)
        .max_nodes(config.max_nodes);
    let drafters = drafters.iter().zip(&config.drafters);
    drafters
        .fold(builder, |builder, (loaded, drafter)| {
            loaded.add(builder, drafter)
        })
        .build()
        .map_err(|source| Error::Cascade {
            file: label.to_owned(),
            source: Box::new(source),
        })
}

/// A drafter by itself, with a session of its own.
pub enum DrafterModel {
    /// A neural model.
    Neural(Box<Session>),
    /// A statistical one.
    Statistical(Box<dyn StatisticalDrafter + Send>),
}

impl LoadedDrafter {
    fn add(&self, builder: CascadeBuilder, drafter: &Drafter) -> CascadeBuilder {
        match (self.model(drafter), drafter) {
            (DrafterModel::Neural(session), Drafter::Neural { model, branching }) => {
                let options = NeuralOptions::new(model.rule, branching.clone());
                builder.neural_with(&model.name, *session, options)
            }
            (DrafterModel::Neural(session), _) => builder.neural(drafter.name(), *session),
            (DrafterModel::Statistical(model), _) => builder.statistical(drafter.name(), model),
        }
    }

    /// The drafter with the settings of the configuration.
    ///
    /// # Panics
    /// If `drafter` is not the one that was loaded.
    pub(crate) fn model(&self, drafter: &Drafter) -> DrafterModel {
        match (self, drafter) {
            (Self::Neural(loaded), Drafter::Neural { .. }) => {
                DrafterModel::Neural(Box::new(loaded.session()))
            }
            (Self::Table(table), Drafter::MaxGram { options, .. }) => {
                let max_gram = MaxGram::new().with_options(*options);
                DrafterModel::Statistical(match table {
                    None => Box::new(max_gram),
                    Some(table) => Box::new(max_gram.with_bigram(Arc::clone(table))),
                })
            }
            (Self::Table(Some(table)), Drafter::Bigram { width, .. }) => {
                let bigram = Bigram::new(Arc::clone(table)).with_width(*width);
                DrafterModel::Statistical(Box::new(bigram))
            }
            (
                Self::PromptLookup,
                Drafter::PromptLookup {
                    max_ngram,
                    branches,
                    ..
                },
            ) => {
                let lookup = PromptLookup::new(*max_ngram).with_branches(*branches);
                DrafterModel::Statistical(Box::new(lookup))
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
        let loader = self.loader(options)?;
        let target = loader.neural("target", &self.target)?;
        let tokenizer = Arc::new(target.tokenizer.clone());
        let mut parts = vec![part(&self.target, &target, Role::Target)];
        let drafters = loader.drafters(&tokenizer.fingerprint(), &mut parts)?;
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
    config: &'a Config,
    options: &'a AssembleOptions,
    device: Device,
}

impl Loader<'_> {
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

    /// Loads the drafters, which must speak `vocabulary`, and adds what they are to `parts`.
    pub(crate) fn drafters(
        &self,
        vocabulary: &Fingerprint,
        parts: &mut Vec<LoadedPart>,
    ) -> Result<Vec<LoadedDrafter>> {
        let drafters = self.config.drafters.iter().enumerate();
        let drafters = drafters.map(|(j, drafter)| {
            let (loaded, part) = self.drafter(&format!("drafters[{j}]"), drafter, vocabulary)?;
            parts.push(part);
            Ok(loaded)
        });
        drafters.collect()
    }

    fn drafter(
        &self,
        key: &str,
        drafter: &Drafter,
        vocabulary: &Fingerprint,
    ) -> Result<(LoadedDrafter, LoadedPart)> {
        Ok(match drafter {
            Drafter::Neural { model: neural, .. } => {
                let model = self.neural(key, neural)?;
                self.check_vocabulary(neural, &model, vocabulary)?;
                let part = part(neural, &model, Role::Drafter);
                (LoadedDrafter::Neural(Box::new(model)), part)
            }
            Drafter::MaxGram { name, bigram, .. } => {
                let key = format!("{key}.max_gram.bigram");
                let table = bigram
                    .as_ref()
                    .map(|table| self.table(&key, table, vocabulary));
                let table = table.transpose()?;
                let source = match &table {
                    None => "max-gram".to_owned(),
                    Some(table) => format!("max-gram with {}", table.file()),
                };
                (LoadedDrafter::Table(table), statistical(name, source))
            }
            Drafter::Bigram { name, table, .. } => {
                let table = self.table(&format!("{key}.bigram"), table, vocabulary)?;
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

    fn table(
        &self,
        key: &str,
        table: &Table,
        vocabulary: &Fingerprint,
    ) -> Result<Arc<BigramTable>> {
        let table = match table {
            Table::File(path) => BigramTable::open(PathBuf::from(path), vocabulary),
            Table::Embedded { name, bytes } => {
                BigramTable::from_static(name.clone(), bytes, vocabulary)
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
