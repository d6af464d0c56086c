//! What drafts in a cascade.

use std::fmt;
use std::sync::Arc;

use cascade_core::{Fingerprint, Scorer, TokenId};
use cascade_engine::{
    AssumedTimes, CascadeBuilder, DraftVocabulary, NeuralOptions, Role, StopRule,
};
use cascade_models::LoadedModel;
use cascade_ngram::{DrafterConfig, DrafterFactory};

use crate::assemble::{loaded_warnings, warnings_of, Sessions};
use crate::config::{Config, Drafter, Neural};
use crate::pool::{StandIn, Tables};
use crate::stop_rule::TrainedRule;
use crate::vocabulary::shared;
use crate::{Error, LevelInfo, ModelPool, Result, StopRuleConfig, Target};

/// What makes a drafter of a configuration, any number of times.
#[derive(Clone)]
pub enum DrafterModel {
    /// Weights, which give sessions.
    Neural {
        /// The weights.
        model: Arc<LoadedModel>,
        /// The tokens that mean the same in it and in the target.
        vocabulary: DraftVocabulary,
    },
    /// A statistical drafter's tables and settings.
    Statistical(Arc<dyn DrafterFactory>),
}

/// A drafter, ready to be added to a cascade.
pub(crate) struct DraftLevel {
    pub(crate) info: LevelInfo,
    drafts: Drafts,
    stop_rule: Option<Box<dyn StopRule>>,
    pub(crate) warnings: Vec<String>,
    /// Which tokens it leaves out, in a sentence.
    pub(crate) note: Option<String>,
}

enum Drafts {
    Neural(Box<dyn Scorer + Send>, NeuralOptions),
    Statistical(Box<dyn cascade_core::Drafter + Send>),
}

impl DraftLevel {
    fn new(drafter: &Drafter, source: String, parameters: usize, drafts: Drafts) -> Self {
        let role = match drafts {
            Drafts::Neural(..) => Role::Drafter,
            Drafts::Statistical(_) => Role::Statistical,
        };
        Self {
            info: LevelInfo {
                name: drafter.name().to_owned(),
                source,
                role,
                parameters,
            },
            drafts,
            stop_rule: drafter.stop_rule().and_then(StopRuleConfig::rule),
            warnings: Vec::new(),
            note: None,
        }
    }

    /// Adds the drafter, whose forwards take assumed times if there are any. `neural` counts the
    /// neural drafters so far.
    pub(crate) fn add(
        self,
        builder: CascadeBuilder,
        times: Option<&AssumedTimes>,
        neural: &mut usize,
    ) -> CascadeBuilder {
        let name = self.info.name;
        let builder = match self.drafts {
            Drafts::Neural(scorer, options) => {
                *neural += 1;
                match times {
                    None => builder.neural_with(name, scorer, options),
                    Some(times) => {
                        builder.neural_with(name, times.of_level(*neural, scorer), options)
                    }
                }
            }
            Drafts::Statistical(drafter) => builder.statistical(name, drafter),
        };
        match self.stop_rule {
            Some(rule) => builder.stop_rule(rule),
            None => builder,
        }
    }
}

/// A neural drafter with weights of its own, and what should be known of it.
struct NeuralDrafter {
    model: Arc<LoadedModel>,
    vocabulary: DraftVocabulary,
    /// Which tokens it leaves out, in a sentence.
    note: Option<String>,
    /// The trained network that ends its drafts, if one does, and a warning.
    network: Option<TrainedRule>,
}

/// The entry of a drafter, and what it is opened with.
struct DrafterEntry<'a> {
    pool: &'a ModelPool,
    config: &'a Config,
    key: String,
    drafter: &'a Drafter,
    /// The target's.
    vocabulary: &'a Fingerprint,
}

impl ModelPool {
    fn drafter_entries<'a>(
        &'a self,
        config: &'a Config,
        vocabulary: &'a Fingerprint,
    ) -> impl Iterator<Item = DrafterEntry<'a>> {
        let drafters = config.drafters().iter().enumerate();
        drafters.map(move |(j, drafter)| DrafterEntry {
            pool: self,
            config,
            key: format!("drafters[{j}]"),
            drafter,
            vocabulary,
        })
    }

    /// The drafters of a configuration alone, largest first; they must have the vocabulary of the
    /// target.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble); a head, whose target is not computed here.
    pub fn drafters(&self, config: &Config, vocabulary: &Fingerprint) -> Result<Vec<DrafterModel>> {
        self.drafter_entries(config, vocabulary)
            .map(|entry| entry.model())
            .collect()
    }

    /// The drafters of a cascade: those of the configuration, or what stands for them.
    pub(crate) fn draft_levels(
        &self,
        config: &Config,
        target: &Target,
        sessions: &Sessions<'_>,
    ) -> Result<Vec<DraftLevel>> {
        self.drafter_entries(config, &target.vocabulary)
            .map(|entry| entry.level(target, sessions))
            .collect()
    }
}

impl DrafterEntry<'_> {
    fn model(&self) -> Result<DrafterModel> {
        Ok(match self.drafter {
            Drafter::Neural { model, .. } if model.is_head => {
                return Err(self.no_target("here the target is not computed"));
            }
            Drafter::Neural { model, .. } => {
                let neural = self.neural(model)?;
                DrafterModel::Neural {
                    model: neural.model,
                    vocabulary: neural.vocabulary,
                }
            }
            Drafter::Statistical { config, .. } => {
                DrafterModel::Statistical(self.statistical(&**config)?)
            }
        })
    }

    fn level(&self, target: &Target, sessions: &Sessions<'_>) -> Result<DraftLevel> {
        match self.drafter {
            Drafter::Neural {
                model, branching, ..
            } => {
                let options = NeuralOptions::new(model.rule, branching.clone());
                match self.pool.stand_in(&model.name) {
                    Some(stand_in) => self.stand_in_level(stand_in, options),
                    None if model.is_head => self.head_level(model, target, options),
                    None => self.neural_level(model, sessions, options),
                }
            }
            Drafter::Statistical { config, .. } => {
                let factory = self.statistical(&**config)?;
                let drafts = Drafts::Statistical(factory.drafter());
                Ok(DraftLevel::new(self.drafter, factory.source(), 0, drafts))
            }
        }
    }

    fn stand_in_level(&self, stand_in: &StandIn, options: NeuralOptions) -> Result<DraftLevel> {
        let source = stand_in.source.clone();
        self.check_no_network(&format!("{source} stands for the model"))?;
        let drafts = Drafts::Neural((stand_in.session)(), options);
        let parameters = stand_in.parameters;
        Ok(DraftLevel::new(self.drafter, source, parameters, drafts))
    }

    fn head_level(
        &self,
        neural: &Neural,
        target: &Target,
        options: NeuralOptions,
    ) -> Result<DraftLevel> {
        let Some(model) = &target.model else {
            let what = format!("the target, {}, is not computed", target.source);
            return Err(self.no_target(&what));
        };
        let head = self.pool.head_of(neural, model);
        let head = head.map_err(|source| Error::model(&self.config.label, &self.key, source))?;
        // A head may draft the tokens of its target's tokenizer; rows behind them are padding.
        let tokenizer = self
            .pool
            .target_tokenizer(&self.config.target, self.vocabulary);
        let end = tokenizer.and_then(|tokenizer| TokenId::try_from(tokenizer.id_bound()).ok());
        let vocabulary = end.map_or_else(DraftVocabulary::default, DraftVocabulary::below);
        let options = options.with_vocabulary(vocabulary);
        let drafts = Drafts::Neural(Box::new(head.session()), options);
        let (source, parameters) = (head.name().to_owned(), head.parameters_per_forward());
        let level = DraftLevel::new(self.drafter, source, parameters, drafts);
        let warnings = warnings_of(&neural.name, head.name(), head.warnings());
        Ok(DraftLevel { warnings, ..level })
    }

    fn neural_level(
        &self,
        neural: &Neural,
        sessions: &Sessions<'_>,
        options: NeuralOptions,
    ) -> Result<DraftLevel> {
        let NeuralDrafter {
            model,
            vocabulary,
            note,
            network,
        } = self.neural(neural)?;
        let options = options.with_vocabulary(vocabulary);
        let drafts = Drafts::Neural(sessions.of(&model.model), options);
        let (source, parameters) = (model.name.clone(), model.num_parameters());
        let mut level = DraftLevel::new(self.drafter, source, parameters, drafts);
        level.note = note;
        level.warnings = loaded_warnings(&neural.name, &model);
        if let Some((rule, warning)) = network {
            level.stop_rule = Some(rule);
            level.warnings.extend(warning);
        }
        Ok(level)
    }

    fn neural(&self, neural: &Neural) -> Result<NeuralDrafter> {
        let config = self.config;
        let model = self.pool.neural(config, &self.key, neural)?;
        let shared = shared(
            &config.label,
            (&neural.name, &model.tokenizer),
            (&config.target.name, self.vocabulary),
            || self.pool.target_tokenizer(&config.target, self.vocabulary),
        )?;
        let network = match self.drafter.stop_rule() {
            Some(rule) => rule
                .open_network(&model)
                .map_err(|source| self.no_rule(rule, source))?,
            None => None,
        };
        Ok(NeuralDrafter {
            model,
            vocabulary: shared.vocabulary,
            note: shared.note,
            network,
        })
    }

    fn statistical(&self, own: &dyn DrafterConfig) -> Result<Arc<dyn DrafterFactory>> {
        self.check_no_network("the drafter is statistical")?;
        let (pool, vocabulary) = (self.pool, self.vocabulary);
        own.open(&Tables { pool, vocabulary })
            .map_err(|error| self.unopened(error.key, error.source))
    }

    /// Refuses a stop rule that reads what only a model computes, for a drafter that is none.
    fn check_no_network(&self, what: &str) -> Result<()> {
        let rule = self.drafter.stop_rule();
        match rule.and_then(|rule| Some((rule, rule.network()?))) {
            None => Ok(()),
            Some((rule, network)) => {
                let problem =
                    format!("{what} and computes nothing that a {network} could read; remove it");
                Err(self.no_rule(rule, problem.into()))
            }
        }
    }

    /// The error of a head without a target that it could read.
    fn no_target(&self, what: &str) -> Error {
        Error::Entry {
            file: self.config.label.clone(),
            key: format!("{}.head", self.key),
            problem: format!("a head reads hidden states of its target, and {what}"),
            cure: "run the cascade with its own target, or take another drafter".to_owned(),
        }
    }

    /// The error of a stop rule whose network cannot be used.
    fn no_rule(&self, rule: &StopRuleConfig, source: Source) -> Error {
        let network = rule.network().unwrap_or_default();
        self.unopened(format!("stop_rule.{network}"), source)
    }

    fn unopened(&self, key: impl fmt::Display, source: Source) -> Error {
        Error::Drafter {
            file: self.config.label.clone(),
            key: format!("{}.{key}", self.key),
            source,
        }
    }
}

type Source = Box<dyn std::error::Error + Send + Sync>;
