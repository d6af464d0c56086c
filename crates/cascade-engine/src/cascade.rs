//! A cascade: its models and policies, ready to generate.

use std::sync::Arc;

use cascade_core::{Prompt, TextCodec};

use crate::k_matrix::idle_drafters;
use crate::level::{Level, Models};
use crate::policy::NewText;
use crate::recursion::Recursion;
use crate::{Clock, Error, Result};

/// A target and its drafters.
///
/// The output is the target's own. Greedy decoding: every emitted token is the target's most
/// probable one after the preceding tokens, according to the forward that verified it. Sampling:
/// every emitted token has exactly the target's distribution given the preceding tokens, whatever
/// is drafted.
///
/// # Example
/// ```
/// use cascade_core::{toy::ToyScorer, Prompt};
/// use cascade_engine::{Cascade, Convention, KMatrix, Lenience, Options};
///
/// let mut cascade = Cascade::builder()
///     .target("target", ToyScorer::target("target", 16, 7))
///     .neural("base", ToyScorer::drafter("base", 16, 7, 1, 200))
///     .neural("small", ToyScorer::drafter("small", 16, 7, 2, 150))
///     .k_matrix(KMatrix::new(vec![vec![3, 2], vec![0, 1]], Convention::Added)?)
///     .lenience(Lenience::new(3.0)?)
///     .build()?;
/// let prompt = Prompt { context: vec![1, 2, 3], ..Prompt::default() };
/// let options = Options::default().with_max_new_tokens(32);
/// let fast = cascade.generate_tokens(&prompt, &options)?;
/// let plain = cascade.generate_tokens(&prompt, &options.with_speculation(false))?;
/// assert_eq!(fast.tokens, plain.tokens);
/// assert!(fast.steps.len() < plain.steps.len());
/// # Ok::<(), cascade_engine::Error>(())
/// ```
pub struct Cascade {
    pub(crate) models: Models,
    pub(crate) recursion: Recursion,
    /// What generations are timed by.
    pub(crate) wall: Arc<dyn Clock>,
    pub(crate) codec: Option<Arc<dyn TextCodec>>,
}

impl Cascade {
    /// Names of all levels, the target first; the index is the [`LevelId`](cascade_core::LevelId).
    pub fn level_names(&self) -> Vec<&str> {
        self.models.names().collect()
    }

    /// Names of drafters that the schedule never uses.
    pub fn idle_drafters(&self) -> Vec<&str> {
        let drafters = &self.models.drafters;
        let plan = &self.recursion.plan;
        let idle = idle_drafters(
            drafters.len(),
            |reviewer, drafter| plan.may_pair(reviewer, drafter),
            |level| matches!(drafters[level.0 - 1], Level::Neural(_)),
        );
        let name = |level: cascade_core::LevelId| drafters[level.0 - 1].name();
        idle.into_iter().map(name).collect()
    }

    /// Tokenizes a text prompt, for the target's encoder or its context depending on its
    /// architecture.
    ///
    /// # Errors
    /// [`Error::NoCodec`]; [`Error::EmptyPrompt`] if `prompt` is blank; the tokenizer's own.
    pub fn encode(&self, prompt: &str) -> Result<Prompt> {
        let codec = self.codec.as_ref().ok_or(Error::NoCodec)?;
        if prompt.trim().is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let tokens = codec.encode(prompt).map_err(|error| match error {
            cascade_core::Error::PromptTooLong { .. } => Error::PromptLimit(error),
            error => Error::Codec(error),
        })?;
        let architecture = self.models.target.info().architecture;
        Ok(Prompt::new(architecture, tokens))
    }

    /// As [`encode`](Self::encode), for a text that holds all special tokens itself, as chat
    /// templates write it: none are put around it.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn encode_verbatim(&self, prompt: &str) -> Result<Prompt> {
        let codec = self.codec.as_ref().ok_or(Error::NoCodec)?;
        if prompt.trim().is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let tokens = codec.encode_verbatim(prompt).map_err(Error::Codec)?;
        let architecture = self.models.target.info().architecture;
        Ok(Prompt::new(architecture, tokens))
    }

    /// Lets drafters forget the texts that they have observed, and stop rules what they learned of
    /// them, so that no later draft shows anything of them. Caches of models stay: they change no
    /// draft. What the schedule learned of times and acceptance stays too, and so does speed as far
    /// as it comes from that.
    pub fn forget_texts(&mut self) {
        self.models.forget_texts();
    }

    /// The tokenizer, if there is one.
    pub fn codec(&self) -> Option<&Arc<dyn TextCodec>> {
        self.codec.as_ref()
    }

    /// Lets everything that decides what is drafted know that another text begins, and forget what
    /// it has learned if its samples depend on that.
    pub(crate) fn begin(&mut self, text: NewText) {
        if text.is_drawn {
            self.models.forget();
        }
        self.recursion.schedule.begin(&text);
    }

    /// Checks that the target can process a prompt.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::PromptTooLong`].
    pub fn check(&self, prompt: &Prompt) -> Result<()> {
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let target = &self.models.target;
        match target.info().max_context {
            Some(limit) if prompt.context.len() > limit => Err(Error::PromptTooLong {
                tokens: prompt.context.len(),
                target: target.name.clone(),
                limit,
            }),
            _ => Ok(()),
        }
    }
}
