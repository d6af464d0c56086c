//! A cascade: its models and policies, ready to generate.

use std::ops::ControlFlow;
use std::sync::Arc;

use cascade_core::{Prompt, TextCodec};

use crate::idle::idle_drafters;
use crate::level::{Level, Models};
use crate::recursion::Recursion;
use crate::{CascadeBuilder, Clock, Error, Event, Generation, GenerationOutput, Options, Result};

/// A target and its drafters.
///
/// The output is the target's own. Greedy decoding: every emitted token is the target's most
/// probable one after the preceding tokens, according to the forward that verified it. Sampling:
/// every emitted token has exactly the target's distribution given the preceding tokens, whatever
/// is drafted. [`Options::lossy`] gives that up, within a budget that the output states.
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
    /// Returns an empty builder.
    pub fn builder() -> CascadeBuilder {
        CascadeBuilder::default()
    }

    /// Names of all levels, the target first; the index is the [`LevelId`](cascade_core::LevelId).
    pub fn level_names(&self) -> Vec<&str> {
        self.models.names().collect()
    }

    /// Names of drafters that the schedule never uses.
    pub fn idle_drafters(&self) -> Vec<&str> {
        let drafters = &self.models.drafters;
        let schedule = &self.recursion.schedule;
        let idle = idle_drafters(
            drafters.len(),
            |reviewer, drafter| schedule.may_pair(reviewer, drafter),
            |level| matches!(drafters[level.0 - 1], Level::Neural(_)),
        );
        let name = |level: cascade_core::LevelId| drafters[level.0 - 1].name();
        idle.into_iter().map(name).collect()
    }

    /// Generates from a text prompt.
    ///
    /// # Errors
    /// As [`generate_tokens`](Self::generate_tokens); [`Error::NoCodec`]; [`Error::EmptyPrompt`] if
    /// `prompt` is blank.
    pub fn generate(&mut self, prompt: &str, options: &Options) -> Result<GenerationOutput> {
        self.start(prompt, options)?.run()
    }

    /// As [`generate`](Self::generate), and calls `on_event` for every event as it happens; the
    /// callback may end the generation.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn generate_with(
        &mut self,
        prompt: &str,
        options: &Options,
        on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<GenerationOutput> {
        self.start(prompt, options)?.run_with(on_event)
    }

    /// Generates from a tokenized prompt.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::PromptTooLong`]; [`Error::NoCodec`] if there are stop
    /// sequences and no codec; [`Error::Model`] if a model fails or violates its contract;
    /// [`Error::ScheduledDrafter`] if the schedule does. The cascade remains usable.
    pub fn generate_tokens(
        &mut self,
        prompt: &Prompt,
        options: &Options,
    ) -> Result<GenerationOutput> {
        self.start_tokens(prompt, options)?.run()
    }

    /// As [`generate_tokens`](Self::generate_tokens), and calls `on_event` for every event as it
    /// happens; the callback may end the generation.
    ///
    /// # Errors
    /// As [`generate_tokens`](Self::generate_tokens).
    pub fn generate_tokens_with(
        &mut self,
        prompt: &Prompt,
        options: &Options,
        on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<GenerationOutput> {
        self.start_tokens(prompt, options)?.run_with(on_event)
    }

    /// Starts a generation from a text prompt. Nothing is computed before the first
    /// [`step`](Generation::step), except the encoding of the source in encoder-decoder models that
    /// do not defer it.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn start(&mut self, prompt: &str, options: &Options) -> Result<Generation<&mut Self>> {
        let prompt = self.encode(prompt)?;
        self.start_tokens(&prompt, options)
    }

    /// Starts a generation from a tokenized prompt.
    ///
    /// # Errors
    /// As [`generate_tokens`](Self::generate_tokens).
    pub fn start_tokens(
        &mut self,
        prompt: &Prompt,
        options: &Options,
    ) -> Result<Generation<&mut Self>> {
        Generation::new(self, prompt, options)
    }

    /// Starts a generation that owns the cascade, for callers that run several generations
    /// concurrently. [`Generation::into_cascade`] returns the cascade.
    ///
    /// # Errors
    /// As [`generate_tokens`](Self::generate_tokens). The cascade is dropped on an error; check the
    /// prompt first with [`check`](Self::check).
    pub fn into_generation(self, prompt: &Prompt, options: &Options) -> Result<Generation<Self>> {
        Generation::new(self, prompt, options)
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

    /// Lets drafters forget the texts that they have observed, so that no later draft shows
    /// anything of them. Caches of models stay: they change no draft. What was learned of times and
    /// acceptance stays too, and so does speed as far as it comes from that.
    pub fn forget_texts(&mut self) {
        self.models.forget_texts();
    }

    /// The tokenizer, if there is one.
    pub fn codec(&self) -> Option<&Arc<dyn TextCodec>> {
        self.codec.as_ref()
    }

    /// Lets everything that decides what is drafted forget what it has learned.
    pub(crate) fn forget(&mut self) {
        self.models.forget();
        self.recursion.schedule.forget();
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
