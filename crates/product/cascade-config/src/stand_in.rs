//! A target without its drafters, and drafters without their target.

use cascade_core::{Fingerprint, Scorer, TokenId};
use cascade_engine::{Cascade, Role};
use cascade_models::LoadedModel;

use crate::assemble::{with_drafters, DrafterModel, LoadedDrafter};
use crate::{AssembleOptions, Config, LoadedPart, Result};

/// Something that scores in the target's place, so that the target need not be there: a recording of it, say.
pub struct StandIn<S> {
    /// What answers.
    pub scorer: S,
    /// Where it came from, for reports.
    pub source: String,
    /// The vocabulary that it speaks; drafters and tables must speak it too.
    pub vocabulary: Fingerprint,
    /// Tokens that end a text.
    pub eos: Vec<TokenId>,
}

/// A cascade around a stand-in. It has no tokenizer: it answers tokens, not texts.
pub struct AssembledAround {
    /// The cascade, ready to generate.
    pub cascade: Cascade,
    /// Its models, the stand-in first, under the target's name.
    pub parts: Vec<LoadedPart>,
    /// What is allowed but hardly meant, in sentences.
    pub warnings: Vec<String>,
}

/// The drafters of a configuration, without a target.
pub struct LoadedDrafters {
    /// What they are, largest first.
    pub parts: Vec<LoadedPart>,
    label: String,
    drafters: Vec<LoadedDrafter>,
}

impl LoadedDrafters {
    /// Each drafter by itself, largest first, with the settings of `config`: the configuration that they were loaded for,
    /// changed in settings only.
    ///
    /// # Panics
    /// If the drafters of `config` are not those that were loaded.
    pub fn models(&self, config: &Config) -> Vec<DrafterModel> {
        let drafters = self.drafters.iter().zip(&config.drafters);
        drafters
            .map(|(loaded, drafter)| loaded.model(drafter))
            .collect()
    }

    /// A cascade of these drafters around `target`, with the settings of `config`.
    ///
    /// # Errors
    /// Settings that do not fit together.
    ///
    /// # Panics
    /// As [`models`](Self::models).
    pub fn around<S: Scorer + Send + 'static>(
        &self,
        target: StandIn<S>,
        config: &Config,
    ) -> Result<Cascade> {
        let builder = Cascade::builder()
            .target_with(&config.target.name, target.scorer, config.target.rule)
            .eos(target.eos);
        with_drafters(builder, &self.drafters, config, &self.label)
    }
}

impl Config {
    /// Loads the drafters alone; they must speak `vocabulary`.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble), the target's own left out.
    pub fn load_drafters(
        &self,
        vocabulary: &Fingerprint,
        options: &AssembleOptions,
    ) -> Result<LoadedDrafters> {
        let mut parts = Vec::with_capacity(self.drafters.len());
        let drafters = self.loader(options)?.drafters(vocabulary, &mut parts)?;
        Ok(LoadedDrafters {
            parts,
            label: self.label.clone(),
            drafters,
        })
    }

    /// Loads the drafters alone, and puts the cascade together around `target`. The configuration's own target is neither
    /// loaded nor looked for.
    ///
    /// # Errors
    /// As [`load_drafters`](Self::load_drafters).
    pub fn assemble_around<S: Scorer + Send + 'static>(
        &self,
        target: StandIn<S>,
        options: &AssembleOptions,
    ) -> Result<AssembledAround> {
        let loaded = self.load_drafters(&target.vocabulary, options)?;
        let mut parts = vec![LoadedPart {
            name: self.target.name.clone(),
            source: target.source.clone(),
            role: Role::Target,
            parameters: 0,
        }];
        parts.extend(loaded.parts.iter().cloned());
        Ok(AssembledAround {
            cascade: loaded.around(target, self)?,
            parts,
            warnings: self.warnings(),
        })
    }

    /// Loads the target alone.
    ///
    /// # Errors
    /// A device that is not there; a model that cannot be loaded.
    pub fn load_target(&self, options: &AssembleOptions) -> Result<LoadedModel> {
        self.loader(options)?.neural("target", &self.target)
    }
}
