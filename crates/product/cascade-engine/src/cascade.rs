//! The cascade and its generation loop.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use cascade_core::{Decoding, Draft, LevelId, Prompt, Scorer, SeededRandom, TextCodec, TokenId};
use cascade_verify::{LeniencePolicy, Verdict};

use crate::choosing::Choosing;
use crate::level::{Level, Neural};
use crate::recursion::Recursion;
use crate::text::TextStream;
use crate::{
    Branching, CascadeBuilder, Error, Finish, Generation, ModelUsage, Result, Role, Step,
    StopSequences,
};

/// A target and the drafters that guess for it.
///
/// The output is the target's own. Greedy decoding: every emitted token is the target's most probable one after those
/// before it, according to the very forward that reviewed it. Sampling: every emitted token has the target's distribution
/// after those before it, exactly, whatever is drafted.
///
/// # Example
/// ```
/// use std::ops::ControlFlow;
/// use cascade_core::{toy::ToyScorer, Prompt};
/// use cascade_engine::{Cascade, Convention, KMatrix, Options};
///
/// let mut cascade = Cascade::builder()
///     .target("target", ToyScorer::target("target", 16, 7))
///     .neural("base", ToyScorer::drafter("base", 16, 7, 1, 200))
///     .neural("small", ToyScorer::drafter("small", 16, 7, 2, 150))
///     .k_matrix(KMatrix::new(vec![vec![3, 2], vec![0, 1]], Convention::Added)?)
///     .lenience(3.0)
///     .build()?;
/// let prompt = Prompt { context: vec![1, 2, 3], ..Prompt::default() };
/// let options = Options { max_new_tokens: 32, ..Options::default() };
/// let fast = cascade.generate_tokens(&prompt, &options, |_| ControlFlow::Continue(()))?;
/// let plain = cascade.generate_tokens(
///     &prompt,
///     &Options { speculate: false, ..options },
///     |_| ControlFlow::Continue(()),
/// )?;
/// assert_eq!(fast.tokens, plain.tokens);
/// assert!(fast.steps.len() < plain.steps.len());
/// # Ok::<(), cascade_engine::Error>(())
/// ```
pub struct Cascade {
    pub(crate) target: Neural,
    pub(crate) drafters: Vec<Level>,
    pub(crate) recursion: Recursion,
    pub(crate) codec: Option<Arc<dyn TextCodec>>,
}

/// What a generation is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tokens at most; the count is exact.
    pub max_new_tokens: usize,
    /// Texts that end the generation.
    pub stop: Option<StopSequences>,
    /// Whether to draft at all. Without, the target decodes plainly, one token per forward.
    pub speculate: bool,
    /// How tokens are chosen, by the target and by its drafters alike.
    pub decoding: Decoding,
    /// Of the pseudo-random numbers that samples are drawn by: the same seed, prompt and cascade give the same output (with
    /// the same numbers from the models). Another cascade, or none, gives other samples of the same distribution.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_new_tokens: 256,
            stop: None,
            speculate: true,
            decoding: Decoding::Greedy,
            seed: 0,
        }
    }
}

/// What happens while a generation runs. The receiver may end it by [`ControlFlow::Break`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A token was emitted.
    Token {
        /// The token.
        token: TokenId,
        /// The model that proposed it first.
        proposer: LevelId,
    },
    /// Text became final. It may lag behind the tokens: while a character is incomplete, or while the text may still turn
    /// out to be a stop sequence.
    Text {
        /// The text, never empty.
        text: &'a str,
        /// The model that first proposed the token it came from.
        proposer: LevelId,
    },
    /// The target reviewed a draft. Comes before the tokens that it gave.
    Step(Step),
}

impl Cascade {
    /// Starts putting a cascade together.
    pub fn builder() -> CascadeBuilder {
        CascadeBuilder::default()
    }

    /// Names of all levels, the target first; the index is the [`LevelId`].
    pub fn level_names(&self) -> Vec<&str> {
        std::iter::once(self.target.name.as_str())
            .chain(self.drafters.iter().map(Level::name))
            .collect()
    }

    /// Names of drafters that the K matrix never asks for a token.
    pub fn idle_drafters(&self) -> Vec<&str> {
        self.recursion
            .k
            .idle_drafters(|j| self.drafters[j].is_neural())
            .into_iter()
            .map(|j| self.drafters[j].name())
            .collect()
    }

    /// Continues or answers a text.
    ///
    /// # Errors
    /// As [`generate_tokens`](Self::generate_tokens); [`Error::NoCodec`]; [`Error::EmptyPrompt`] if `prompt` is blank.
    pub fn generate(
        &mut self,
        prompt: &str,
        options: &Options,
        on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        let prompt = self.encode(prompt)?;
        self.generate_tokens(&prompt, options, on_event)
    }

    /// The tokens of a text prompt, where the target reads them.
    ///
    /// # Errors
    /// [`Error::NoCodec`]; [`Error::EmptyPrompt`] if `prompt` is blank; the tokenizer's own.
    pub fn encode(&self, prompt: &str) -> Result<Prompt> {
        let codec = self.codec.as_ref().ok_or(Error::NoCodec)?;
        if prompt.trim().is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let tokens = codec.encode(prompt).map_err(Error::Codec)?;
        Ok(Prompt::new(self.target.scorer.architecture(), tokens))
    }

    /// Generates from tokens.
    ///
    /// # Errors
    /// [`Error::EmptyPrompt`], [`Error::PromptTooLong`]; [`Error::NoCodec`] if there are stop sequences and no codec;
    /// [`Error::Model`] if a model fails. The cascade stays usable.
    pub fn generate_tokens(
        &mut self,
        prompt: &Prompt,
        options: &Options,
        on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Generation> {
        self.check(prompt)?;
        let stops = match &options.stop {
            Some(stops) => stops.clone(),
            None => StopSequences::new(Vec::<String>::new())?,
        };
        let codec = self.codec.clone();
        if codec.is_none() && !stops.is_empty() {
            return Err(Error::NoCodec);
        }
        let mut output = Output {
            tokens: Vec::new(),
            proposers: Vec::new(),
            text: codec.map(|codec| TextStream::new(codec.decoder(), stops.stream())),
            stops: &stops,
            eos: &self.recursion.eos.clone(),
            max_new_tokens: options.max_new_tokens,
            on_event,
            cancelled: false,
        };
        let started = Instant::now();
        self.begin(prompt)?;
        let (steps, finish) = self.run(prompt, options, &mut output)?;
        let finish = match finish {
            stopped @ Finish::StopSequence(_) => stopped,
            other => output.flush()?.unwrap_or(other),
        };
        Ok(Generation {
            tokens: output.tokens,
            proposers: output.proposers,
            text: output.text.map(TextStream::into_text),
            finish,
            steps,
            models: self.usage(),
            wall: started.elapsed(),
        })
    }

    fn check(&self, prompt: &Prompt) -> Result<()> {
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        match self.target.scorer.max_context() {
            Some(limit) if prompt.context.len() > limit => Err(Error::PromptTooLong {
                tokens: prompt.context.len(),
                target: self.target.name.clone(),
                limit,
            }),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, prompt: &Prompt) -> Result<()> {
        self.target.set_source(&prompt.source)?;
        self.drafters
            .iter_mut()
            .try_for_each(|level| level.set_source(&prompt.source))
    }

    fn run<F: FnMut(Event<'_>) -> ControlFlow<()>>(
        &mut self,
        prompt: &Prompt,
        options: &Options,
        output: &mut Output<'_, F>,
    ) -> Result<(Vec<Step>, Finish)> {
        let mut chance = SeededRandom::new(options.seed);
        let mut choosing = Choosing {
            decoding: options.decoding,
            chance: &mut chance,
        };
        let mut context = prompt.context.clone();
        let mut steps = Vec::new();
        loop {
            let remaining = output.max_new_tokens - output.tokens.len();
            if remaining == 0 {
                return Ok((steps, Finish::MaxNewTokens));
            }
            let Some(room) = self.target.room(context.len()) else {
                return Ok((steps, Finish::ContextFull));
            };
            // One token less than is wanted, since the target adds its own.
            let limit = if options.speculate {
                (remaining - 1).min(room)
            } else {
                0
            };
            let (draft, verdict) = self.step(&mut context, limit, &mut choosing)?;
            let step = Step {
                drafted: draft.len(),
                accepted: verdict.kept.len(),
            };
            steps.push(step);
            output.send(Event::Step(step));
            if let Some(finish) = output.emit_all(&draft, &verdict, &mut context)? {
                return Ok((steps, finish));
            }
        }
    }

    /// Drafts at most `limit` tokens deep and lets the target review them, strictly.
    fn step(
        &mut self,
        context: &mut Vec<TokenId>,
        limit: usize,
        choosing: &mut Choosing<'_>,
    ) -> Result<(Draft, Verdict)> {
        let budget = self.recursion.budget(limit);
        let draft = self
            .recursion
            .draft(&mut self.drafters, 0, context, budget, choosing)?;
        let want = choosing.want(LeniencePolicy::STRICT, &Branching::chain());
        let scores = self
            .target
            .scorer
            .score(context, draft.tree(), want)
            .map_err(|source| self.target.failed(source))?;
        let verdict = choosing
            .read(&scores)
            .review(&draft, None, &*self.target.rule, LeniencePolicy::STRICT)
            .map_err(|source| self.target.failed(source))?;
        Ok((draft, verdict))
    }

    fn usage(&self) -> Vec<ModelUsage> {
        let target = ModelUsage {
            name: self.target.name.clone(),
            role: Role::Target,
            usage: self.target.scorer.usage(),
        };
        let drafters = self.drafters.iter().map(|level| ModelUsage {
            name: level.name().to_owned(),
            role: if level.is_neural() {
                Role::Drafter
            } else {
                Role::Statistical
            },
            usage: level.usage(),
        });
        std::iter::once(target).chain(drafters).collect()
    }
}

/// Everything that leaves the loop.
struct Output<'a, F> {
    tokens: Vec<TokenId>,
    proposers: Vec<LevelId>,
    text: Option<TextStream<'a>>,
    stops: &'a StopSequences,
    eos: &'a [TokenId],
    max_new_tokens: usize,
    on_event: F,
    cancelled: bool,
}

impl<F: FnMut(Event<'_>) -> ControlFlow<()>> Output<'_, F> {
    /// Emits the kept tokens and the target's own, and says whether that ends the generation.
    fn emit_all(
        &mut self,
        draft: &Draft,
        verdict: &Verdict,
        context: &mut Vec<TokenId>,
    ) -> Result<Option<Finish>> {
        let kept = verdict
            .kept
            .iter()
            .map(|&node| (draft.tree().token(node), draft.proposer(node)));
        let own = std::iter::once((verdict.next, LevelId::TARGET));
        for (token, proposer) in kept.chain(own) {
            context.push(token);
            if let Some(finish) = self.emit(token, proposer)? {
                return Ok(Some(finish));
            }
        }
        Ok(None)
    }

    fn emit(&mut self, token: TokenId, proposer: LevelId) -> Result<Option<Finish>> {
        self.tokens.push(token);
        self.proposers.push(proposer);
        self.send(Event::Token { token, proposer });
        let stop = self.with_text(|text, show| text.push(token, proposer, show))?;
        Ok(match stop {
            Some(stop) => Some(stop),
            None if self.cancelled => Some(Finish::Cancelled),
            None if self.eos.contains(&token) => Some(Finish::Eos),
            None if self.tokens.len() == self.max_new_tokens => Some(Finish::MaxNewTokens),
            None => None,
        })
    }

    /// Shows the text still held back, unless a stop sequence ended it.
    fn flush(&mut self) -> Result<Option<Finish>> {
        self.with_text(|text, show| text.finish(show))
    }

    fn with_text(
        &mut self,
        work: impl FnOnce(&mut TextStream<'_>, &mut dyn FnMut(&str, LevelId)) -> Result<Option<usize>>,
    ) -> Result<Option<Finish>> {
        let Self {
            text,
            on_event,
            cancelled,
            ..
        } = self;
        let Some(text) = text else {
            return Ok(None);
        };
        let stop = work(text, &mut |text, proposer| {
            *cancelled |= on_event(Event::Text { text, proposer }).is_break();
        })?;
        Ok(stop.map(|index| Finish::StopSequence(self.stops.get(index).to_owned())))
    }

    fn send(&mut self, event: Event<'_>) {
        self.cancelled |= (self.on_event)(event).is_break();
    }
}
