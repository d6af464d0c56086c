//! What drafts in a cascade.

use std::fmt;
use std::sync::Arc;

use cascade_core::{Fingerprint, Scorer, TokenId};
use cascade_engine::{CascadeBuilder, DraftVocabulary, NeuralOptions, Role, StopRule};
use cascade_models::LoadedModel;
use cascade_ngram::{DrafterConfig, DrafterFactory};

use crate::assemble::{Sessions, loaded_warnings, warnings_of};
use crate::config::{Config, Drafter, Neural};
use crate::pool::{StandIn, Tables};
use crate::vocabulary::{VocabularyMatch, shared};
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

/// A cascade to which drafters are added, and what should be known of it.
#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) builder: CascadeBuilder,
    /// The target first.
    pub(crate) levels: Vec<LevelInfo>,
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Parts {
    /// The session of the next level, whose forwards take assumed times if the target's do.
    fn timed(&self, target: &Target, session: Box<dyn Scorer + Send>) -> Box<dyn Scorer + Send> {
        let Some(times) = &target.times else {
            return session;
        };
        let levels = self.levels.iter();
        let neural = levels.filter(|level| level.role != Role::Statistical);
        Box::new(times.of_level(neural.count(), session))
    }
}

/// What drafts in the place of a neural drafter, and what should be known of it.
struct NeuralDrafts {
    source: String,
    parameters: usize,
    session: Box<dyn Scorer + Send>,
    vocabulary: DraftVocabulary,
    warnings: Vec<String>,
    /// Which tokens it leaves out, in a sentence.
    note: Option<String>,
    /// The trained network that ends its drafts, if one does.
    network: Option<Box<dyn StopRule>>,
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
        config.check_networks()?;
        self.drafter_entries(config, vocabulary)
            .map(|entry| entry.model())
            .collect()
    }

    /// Adds the drafters of the configuration, or what stands for them.
    pub(crate) fn add_drafters(
        &self,
        parts: &mut Parts,
        config: &Config,
        target: &Target,
        sessions: &Sessions<'_>,
    ) -> Result<()> {
        self.drafter_entries(config, &target.vocabulary)
            .try_for_each(|entry| entry.add(parts, target, sessions))
    }
}

impl DrafterEntry<'_> {
    fn model(&self) -> Result<DrafterModel> {
        match self.drafter {
            Drafter::Neural { model, .. } if model.is_head => {
                Err(self.no_target("here the target is not computed"))
            }
            Drafter::Neural { model, .. } => {
                let (model, VocabularyMatch { vocabulary, .. }) = self.loaded(model)?;
                Ok(DrafterModel::Neural { model, vocabulary })
            }
            Drafter::Statistical { config, .. } => {
                self.statistical(&**config).map(DrafterModel::Statistical)
            }
        }
    }

    fn add(&self, parts: &mut Parts, target: &Target, sessions: &Sessions<'_>) -> Result<()> {
        let name = self.drafter.name();
        let mut rule = self.drafter.stop_rule().and_then(StopRuleConfig::rule);
        let builder = std::mem::take(&mut parts.builder);
        let (builder, source, role, parameters) = match self.drafter {
            Drafter::Neural {
                model, branching, ..
            } => {
                let drafts = self.neural(model, target, sessions)?;
                parts.warnings.extend(drafts.warnings);
                parts.notes.extend(drafts.note);
                rule = drafts.network.or(rule);
                let options = NeuralOptions::new(model.rule, branching.clone())
                    .with_vocabulary(drafts.vocabulary);
                let session = parts.timed(target, drafts.session);
                let builder = builder.neural_with(name, session, options);
                (builder, drafts.source, Role::Drafter, drafts.parameters)
            }
            Drafter::Statistical { config, .. } => {
                let factory = self.statistical(&**config)?;
                let builder = builder.statistical(name, factory.drafter());
                (builder, factory.source(), Role::Statistical, 0)
            }
        };
        parts.builder = match rule {
            Some(rule) => builder.stop_rule(rule),
            None => builder,
        };
        parts.levels.push(LevelInfo {
            name: name.to_owned(),
            source,
            role,
            parameters,
        });
        Ok(())
    }

    fn neural(
        &self,
        neural: &Neural,
        target: &Target,
        sessions: &Sessions<'_>,
    ) -> Result<NeuralDrafts> {
        if let Some(stand_in) = self.pool.stand_in(&neural.name) {
            return self.stand_in(stand_in);
        }
        if neural.is_head {
            return self.head(neural, target);
        }
        let (model, VocabularyMatch { vocabulary, note }) = self.loaded(neural)?;
        let network = match self.drafter.stop_rule() {
            Some(rule) => rule
                .open_network(&model)
                .map_err(|source| self.no_rule(rule, source.into()))?,
            None => None,
        };
        let (network, warning) = network.unzip();
        let mut warnings = loaded_warnings(&neural.name, &model);
        warnings.extend(warning.flatten());
        Ok(NeuralDrafts {
            source: model.name.clone(),
            parameters: model.num_parameters(),
            session: sessions.of(&model.model),
            vocabulary,
            warnings,
            note,
            network,
        })
    }

    fn stand_in(&self, stand_in: &StandIn) -> Result<NeuralDrafts> {
        let source = stand_in.source.clone();
        let rule = self.drafter.stop_rule();
        if let Some((rule, network)) = rule.and_then(|rule| Some((rule, rule.network()?))) {
            let problem = format!(
                "{source} stands for the model and computes nothing that a {network} could read; \
                 remove it"
            );
            return Err(self.no_rule(rule, problem.into()));
        }
        Ok(NeuralDrafts {
            source,
            parameters: stand_in.parameters,
            session: (stand_in.session)(),
            vocabulary: DraftVocabulary::default(),
            warnings: Vec::new(),
            note: None,
            network: None,
        })
    }

    fn head(&self, neural: &Neural, target: &Target) -> Result<NeuralDrafts> {
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
        Ok(NeuralDrafts {
            source: head.name().to_owned(),
            parameters: head.parameters_per_forward(),
            session: Box::new(head.session()),
            vocabulary: end.map_or_else(DraftVocabulary::default, DraftVocabulary::below),
            warnings: warnings_of(&neural.name, head.name(), head.warnings()),
            note: None,
            network: None,
        })
    }

    /// The model of a neural drafter, and what it may draft.
    fn loaded(&self, neural: &Neural) -> Result<(Arc<LoadedModel>, VocabularyMatch)> {
        let config = self.config;
        let model = self.pool.neural(config, &self.key, neural)?;
        let shared = shared(
            &config.label,
            (&neural.name, &model.tokenizer),
            (&config.target.name, self.vocabulary),
            || self.pool.target_tokenizer(&config.target, self.vocabulary),
        )?;
        Ok((model, shared))
    }

    fn statistical(&self, own: &dyn DrafterConfig) -> Result<Arc<dyn DrafterFactory>> {
        let (pool, vocabulary) = (self.pool, self.vocabulary);
        own.open(&Tables { pool, vocabulary })
            .map_err(|error| self.unopened(error.key, error.source))
    }

    /// The error of a head without a target that it could read.
    fn no_target(&self, what: &str) -> Error {
        Error::entry(
            &self.config.label,
            format!("{}.head", self.key),
            format!("a head reads hidden states of its target, and {what}"),
            "run the cascade with its own target, or take another drafter",
        )
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
