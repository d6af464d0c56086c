//! A target without its drafters, and drafters without their target.

use cascade_core::{Fingerprint, Scorer, TokenId};
use cascade_engine::{Cascade, Role};
use cascade_models::LoadedModel;

use crate::assemble::with_drafters;
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

impl Config {
    /// Loads the drafters alone, and puts the cascade together around `target`. The configuration's own target is neither
    /// loaded nor looked for.
    ///
    /// # Errors
    /// As [`assemble`](Self::assemble), the target's own left out.
    pub fn assemble_around<S: Scorer + Send + 'static>(
        &self,
        target: StandIn<S>,
        options: &AssembleOptions,
    ) -> Result<AssembledAround> {
        let builder = Cascade::builder()
            .target_with(&self.target.name, target.scorer, self.target.rule)
            .eos(target.eos);
        let mut parts = vec![LoadedPart {
            name: self.target.name.clone(),
            source: target.source,
            role: Role::Target,
            parameters: 0,
        }];
        let loader = self.loader(options)?;
        let drafters = loader.drafters(&target.vocabulary, &mut parts)?;
        Ok(AssembledAround {
            cascade: with_drafters(builder, &drafters, self, &self.label)?,
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
