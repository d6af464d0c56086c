//! One generation that is checked.

use cascade_config::Config;
use cascade_core::{
    Decoding, Noise, PenalizedScorer, PenalizedText, Prompt, Scorer, SeededNoise, TokenId, seed_of,
};
use cascade_engine::{Cascade, Options};

use super::{Rescored, Tolerance, rescore, rescore_sampled};
use crate::Result;

/// Tokens generated beyond those that are compared, so that drafts are deep.
const FURTHER_TOKENS: usize = 5;

/// The prompt and settings of one generation.
pub struct Trial {
    /// Its number, from 0: part of its seed.
    pub number: usize,
    /// The settings.
    pub config: Config,
    /// The prompt.
    pub prompt: Prompt,
    /// The configuration's cascade.
    pub cascade: Cascade,
    /// The tokens that end an answer.
    pub eos: Vec<TokenId>,
}

impl Trial {
    /// How it is generated, with a seed of its own.
    pub fn options(&self) -> Options {
        let options = self.config.generation.options();
        let seed = seed_of(options.seed, self.number as u64);
        options.with_seed(seed)
    }

    pub(super) fn generate(&mut self, options: &Options) -> Result<Vec<TokenId>> {
        let generation = self.cascade.generate_tokens(&self.prompt, options)?;
        Ok(generation.tokens)
    }

    pub(super) fn rescore(
        &self,
        target: &mut dyn Scorer,
        tokens: &[TokenId],
        tolerance: Tolerance,
    ) -> Result<Rescored> {
        let target = &mut self.penalized(target);
        let options = self.options();
        Ok(match options.decoding {
            Decoding::Greedy => rescore(target, &self.prompt, tokens, tolerance)?,
            Decoding::Sampled(sampling) => {
                let noise: &dyn Noise = &SeededNoise::new(options.seed);
                let races = (&sampling, noise);
                rescore_sampled(target, &self.prompt, tokens, races, tolerance)?
            }
        })
    }

    /// The target with the rows that its text's penalties leave.
    pub(super) fn penalized<'a>(&self, target: &'a mut dyn Scorer) -> PenalizedScorer<'a> {
        let prompt = self.prompt.context.len();
        PenalizedScorer::new(
            target,
            PenalizedText::new(self.options().penalties, prompt, None),
        )
    }

    /// Texts of the first `length` tokens, each of a seed of its own.
    pub(super) fn samples(
        &mut self,
        count: u64,
        length: usize,
        mut on_sample: impl FnMut(),
    ) -> Result<Vec<Vec<TokenId>>> {
        let options = self.options();
        let longer = options
            .clone()
            .with_max_new_tokens(length + FURTHER_TOKENS)
            .with_stop(None);
        (0..count)
            .map(|i| {
                on_sample();
                let options = longer.clone().with_seed(seed_of(options.seed, i));
                let mut tokens = self.generate(&options)?;
                tokens.truncate(length);
                Ok(tokens)
            })
            .collect()
    }
}
