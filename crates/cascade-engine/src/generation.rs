//! A generation: the decoding of one prompt by a cascade, step by step.

use std::borrow::BorrowMut;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::time::Duration;

use cascade_core::{
    Draft, HiddenLayers, LevelId, Noise, Observation, Prompt, RandomSource, Scores, Want,
};
use cascade_verify::{LeniencePolicy, Verdict};

use crate::clock::Laps;
use crate::context_stack::ContextStack;
use crate::decoding::DecodingState;
use crate::emission::{Emission, OnEvent};
use crate::logprobs;
use crate::policy::{ForwardCost, NewText, Outcome};
use crate::recursion::Drafted;
use crate::report::{LevelStep, StepReport, StepTimings};
use crate::{
    Branching, Cascade, Error, Event, Finish, GenerationOutput, Options, Result, Step,
    TokenLogprobs, Usage,
};

/// The decoding of one prompt by a cascade.
///
/// [`step`](Self::step) drafts, lets the target verify the draft and emits the resulting tokens.
/// Between steps a generation uses no CPU and can be paused indefinitely; it can be dropped at any
/// time, which leaves the cascade ready for the next prompt. As an iterator it yields its steps.
///
/// `C` is the cascade itself ([`Cascade::into_generation`]) or a borrow of it ([`Cascade::start`]).
///
/// ```
/// use cascade_core::{toy::ToyScorer, Prompt};
/// use cascade_engine::{Cascade, Options};
///
/// let mut cascade = Cascade::builder()
///     .target("target", ToyScorer::target("target", 16, 7))
///     .build()?;
/// let prompt = Prompt { context: vec![1, 2, 3], ..Prompt::default() };
/// let options = Options::default().with_max_new_tokens(8);
/// let mut generation = cascade.start_tokens(&prompt, &options)?;
/// let mut tokens = Vec::new();
/// while let Some(step) = generation.step()? {
///     tokens.extend(step.tokens);
/// }
/// assert_eq!(tokens, generation.into_output().tokens);
/// # Ok::<(), cascade_engine::Error>(())
/// ```
pub struct Generation<C = Cascade> {
    cascade: C,
    options: Options,
    decoding: DecodingState,
    context: ContextStack,
    emission: Emission,
    steps: Vec<Step>,
    finish: Option<Finish>,
    wall: Duration,
    /// The part of it that the first step took, and what precedes it.
    first: Duration,
}

impl Cascade {
    /// Generates from a text prompt. [`start`](Self::start) and
    /// [`run_with`](Generation::run_with) do so with a callback for each event.
    ///
    /// # Errors
    /// As [`generate_tokens`](Self::generate_tokens); [`Error::NoCodec`]; [`Error::EmptyPrompt`] if
    /// `prompt` is blank.
    pub fn generate(&mut self, prompt: &str, options: &Options) -> Result<GenerationOutput> {
        self.start(prompt, options)?.run()
    }

    /// Generates from a tokenized prompt. [`start_tokens`](Self::start_tokens) and
    /// [`run_with`](Generation::run_with) do so with a callback for each event.
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
    /// concurrently. [`Generation::into_output_and_cascade`] returns the cascade.
    ///
    /// # Errors
    /// As [`generate_tokens`](Self::generate_tokens). The cascade is dropped on an error; check the
    /// prompt first with [`check`](Self::check).
    pub fn into_generation(self, prompt: &Prompt, options: &Options) -> Result<Generation<Self>> {
        Generation::new(self, prompt, options)
    }
}

impl<C: BorrowMut<Cascade>> Generation<C> {
    fn new(mut cascade: C, prompt: &Prompt, options: &Options) -> Result<Self> {
        let models = cascade.borrow_mut();
        models.check(prompt)?;
        let emission = Emission::new(options, models.codec.clone(), &prompt.context)?;
        let started = models.wall.now();
        models.models.set_source(&prompt.source)?;
        let eos = &models.recursion.settings.eos;
        let text = options
            .ends
            .penalized(options.penalties, prompt.context.len(), eos);
        models.models.set_penalized(text);
        let coupled = models.models.target.rule.is_coupled();
        let decoding = DecodingState::new(options.decoding, options.seed, coupled);
        models.begin(NewText {
            is_drawn: decoding.is_drawn(),
            temperature: f64::from(options.decoding.temperature()),
        });
        let wall = models.wall.now().saturating_sub(started);
        Ok(Self {
            cascade,
            options: options.clone(),
            decoding,
            context: ContextStack::new(prompt.context.clone()),
            emission,
            steps: Vec::new(),
            finish: None,
            wall,
            first: wall,
        })
    }

    /// Draws from this source of randomness in place of the seed's, and in place of noise if
    /// reviews are [coupled](cascade_verify::coupled). For tests that enumerate what may be drawn.
    pub fn with_random(mut self, random: impl RandomSource + Send + 'static) -> Self {
        self.cascade.borrow_mut().begin(NewText {
            is_drawn: true,
            temperature: f64::from(self.options.decoding.temperature()),
        });
        Self {
            decoding: self.decoding.with_random(random),
            ..self
        }
    }

    /// Races with this noise in place of the seed's: tokens are the winners of its races, whatever
    /// the rules of the models.
    pub fn with_noise(self, noise: impl Noise + Send + 'static) -> Self {
        Self {
            decoding: self.decoding.with_noise(noise),
            ..self
        }
    }

    /// Takes the next step; `None` once the generation has ended.
    ///
    /// # Errors
    /// [`Error::Model`] if a model fails or violates its contract, [`Error::ScheduledDrafter`] if
    /// the schedule does; [`Error::Codec`]. The models remain usable.
    pub fn step(&mut self) -> Result<Option<StepReport>> {
        self.step_with(&mut |_| ControlFlow::Continue(()))
    }

    /// As [`step`](Self::step), and calls `on_event` for the step and each of its tokens and pieces
    /// of text. The callback may end the generation within the step; no further token is emitted
    /// then.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn step_with(
        &mut self,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Option<StepReport>> {
        if self.finish.is_some() {
            return Ok(None);
        }
        let clock = Arc::clone(&self.cascade.borrow().wall);
        let started = clock.now();
        let report = match self.draft_limit() {
            Err(finish) => {
                self.finish = Some(self.emission.flush(finish, on_event)?);
                None
            }
            Ok(limit) => Some(self.verified_step(limit, on_event)?),
        };
        self.wall += clock.now().saturating_sub(started);
        if self.steps.len() <= 1 {
            self.first = self.wall;
        }
        Ok(report)
    }

    /// The maximum depth of the next draft, or why there is no next step.
    fn draft_limit(&self) -> std::result::Result<usize, Finish> {
        let remaining = self.emission.remaining();
        if remaining == 0 {
            return Err(Finish::MaxNewTokens);
        }
        let target = &self.cascade.borrow().models.target;
        let Some(room) = target.room(self.context.tokens().len()) else {
            return Err(Finish::ContextFull);
        };
        // One token less than remains, since the target adds a bonus token.
        Ok(if self.options.speculate {
            (remaining - 1).min(room)
        } else {
            0
        })
    }

    fn verified_step(&mut self, limit: usize, on_event: OnEvent<'_>) -> Result<StepReport> {
        let before = self.cascade.borrow().models.usage();
        let first = self.emission.tokens.len();
        let clock = Arc::clone(&self.cascade.borrow().recursion.clock);
        let mut clock = Laps::start(&*clock);
        let drafted = self.draft(limit)?;
        let drafting = clock.lap();
        let verified = self.verify(&drafted.draft)?;
        let verification = clock.lap().saturating_sub(verified.forward.time);
        let finish = self.emit(&drafted.draft, &verified.verdict, on_event)?;
        self.learn(&drafted, &verified, first)?;
        let timings = StepTimings {
            drafting,
            forward: verified.forward.time,
            verification,
            emission: clock.lap(),
        };
        let step = Step {
            drafted: drafted.draft.len(),
            accepted: verified.verdict.kept.len(),
        };
        self.steps.push(step);
        self.finish = finish.clone();
        Ok(StepReport {
            tokens: self.emission.tokens[first..].to_vec(),
            proposers: self.emission.proposers[first..].to_vec(),
            text: self.emission.take_pieces(),
            step,
            levels: self.level_steps(&drafted.draft, &verified.verdict, &before),
            timings,
            logprobs: self.step_logprobs(&verified, first),
            draft: if self.options.report_drafts {
                logprobs::nodes(&drafted.draft, &verified.verdict)
            } else {
                Vec::new()
            },
            finish,
        })
    }

    /// Log probabilities of the tokens that a step emitted, those from `first` on, if they are
    /// reported.
    fn step_logprobs(&self, verified: &Verified, first: usize) -> Vec<TokenLogprobs> {
        let emitted = &self.emission.tokens[first..];
        match (self.options.logprobs, &verified.scores.logits) {
            (Some(top), Some(logits)) => {
                logprobs::of_emitted(logits, &verified.verdict, emitted, top)
            }
            _ => Vec::new(),
        }
    }

    /// Drafts at most `limit` tokens deep.
    fn draft(&mut self, limit: usize) -> Result<Drafted> {
        let cascade = self.cascade.borrow_mut();
        let budget = cascade.recursion.settings.budget(limit);
        cascade.recursion.texts = if self.decoding.is_drawn() {
            1
        } else {
            cascade.models.target.texts()
        };
        cascade.recursion.draft(
            &mut cascade.models.drafters,
            LevelId::TARGET,
            &mut self.context,
            budget,
            &mut self.decoding,
        )
    }

    /// Lets the target review a draft, strictly if nothing else was asked for.
    fn verify(&mut self, draft: &Draft) -> Result<Verified> {
        let cascade = self.cascade.borrow_mut();
        let (observed, hidden) = if self.options.speculate {
            let schedule = &*cascade.recursion.schedule;
            (
                cascade.models.observed_top(schedule),
                cascade.models.observed_hidden(),
            )
        } else {
            (0, HiddenLayers::NONE)
        };
        let target = &mut cascade.models.target;
        let want = self
            .decoding
            .want(LeniencePolicy::STRICT, &Branching::chain());
        let mut want = want.union(want.with_top(observed)).with_hidden(hidden);
        let context = self.context.tokens();
        if !hidden.is_empty() && self.steps.is_empty() {
            let from = target.states_from(context, self.decoding.is_drawn());
            want = want.with_hidden_after(Some(from));
        }
        if self.options.logprobs.is_some() {
            want = want.union(Want::LOGITS);
        }
        let (scores, forward) = target.score(context, draft.tree(), want)?;
        let mut view = self.decoding.view(&scores, context.len());
        let verdict = view
            .review(draft, None, &*target.rule, LeniencePolicy::STRICT)
            .map_err(|source| target.failed(source))?;
        Ok(Verified {
            scores,
            forward,
            verdict,
        })
    }

    /// Policies learn from the target's verdict, and statistical drafters from what was emitted of
    /// it: the tokens from `first` on.
    fn learn(&mut self, drafted: &Drafted, verified: &Verified, first: usize) -> Result<()> {
        if !self.options.speculate {
            return Ok(());
        }
        let cascade = self.cascade.borrow_mut();
        let Verified {
            scores,
            forward,
            verdict,
        } = verified;
        let outcome = Outcome {
            reviewer: LevelId::TARGET,
            draft: &drafted.draft,
            turns: &drafted.turns,
            start: None,
            accepted: &verdict.kept,
            next: verdict.next,
            forward: *forward,
        };
        let drafters = &mut cascade.models.drafters;
        let drawn = self.decoding.is_drawn();
        cascade.recursion.observe(drafters, &outcome, drawn);
        let emitted = &self.emission.tokens[first..];
        let context = self.context.tokens();
        let observation = Observation::new(
            &context[..context.len() - emitted.len()],
            drafted.draft.tree(),
            &verdict.kept,
            emitted,
            &scores.argmax,
        );
        let hidden = Some(&scores.hidden).filter(|hidden| !hidden.is_empty());
        let observation = observation
            .with_top(scores.top.as_ref())
            .with_hidden(hidden);
        let schedule = &*cascade.recursion.schedule;
        cascade.models.observe_step(&observation, schedule)
    }

    fn emit(
        &mut self,
        draft: &Draft,
        verdict: &Verdict,
        on_event: OnEvent<'_>,
    ) -> Result<Option<Finish>> {
        let settings = &self.cascade.borrow().recursion.settings;
        let ends = &self.options.ends;
        let finish = self.emission.emit_step(
            draft,
            verdict,
            &mut self.context,
            |token| ends.finish(token, settings.is_eos(token)),
            on_event,
        )?;
        let flush = |finish| self.emission.flush(finish, on_event);
        finish.map(flush).transpose()
    }

    fn level_steps(&self, draft: &Draft, verdict: &Verdict, before: &[Usage]) -> Vec<LevelStep> {
        let after = self.cascade.borrow().models.usage();
        let used = after.iter().zip(before);
        let mut levels: Vec<LevelStep> = used
            .map(|(after, before)| LevelStep {
                usage: after.since(before),
                ..LevelStep::default()
            })
            .collect();
        for node in 0..draft.len() {
            levels[draft.proposer(node).0].drafted += 1;
        }
        for &node in &verdict.kept {
            levels[draft.proposer(node).0].accepted += 1;
        }
        levels
    }

    /// Takes all remaining steps.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run(self) -> Result<GenerationOutput> {
        self.run_with(|_| ControlFlow::Continue(()))
    }

    /// As [`run`](Self::run), and calls `on_event` for every event as it happens; the callback may
    /// end the generation.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run_with(
        mut self,
        mut on_event: impl FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<GenerationOutput> {
        while self.step_with(&mut on_event)?.is_some() {}
        Ok(self.into_output())
    }

    /// Log probabilities of tokens of the text so far, each after all before it and with `top` of
    /// the most probable ones: of those at the places `range` of the context, from which places
    /// beyond its end are left out. The first token of a decoder-only model has none, and is left
    /// out too. Places of an encoder's source are none of the context.
    ///
    /// Costs one forward of so many rows of the target, whose logits are all copied: ask for 63
    /// tokens or fewer at a time.
    ///
    /// # Errors
    /// [`Error::Model`] if the target fails. It remains usable.
    pub fn logprobs_of(&mut self, range: Range<usize>, top: usize) -> Result<Vec<TokenLogprobs>> {
        let target = &mut self.cascade.borrow_mut().models.target;
        let tokens = self.context.tokens();
        let first = target.first_row();
        let range = range.start.max(first)..range.end.min(tokens.len());
        if range.is_empty() {
            Ok(Vec::new())
        } else {
            logprobs::of_tokens(target, tokens, range, top)
        }
    }

    /// Why the generation ended, if it has.
    pub fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    /// Returns what has been generated. A generation that has not ended counts as
    /// [cancelled](Finish::Cancelled).
    pub fn into_output(self) -> GenerationOutput {
        self.into_parts().0
    }

    fn into_parts(self) -> (GenerationOutput, C) {
        let models = self.cascade.borrow().models.named_usage();
        let (tokens, proposers, text) = self.emission.into_text();
        let output = GenerationOutput {
            tokens,
            proposers,
            text,
            finish: self.finish.unwrap_or(Finish::Cancelled),
            steps: self.steps,
            models,
            wall: self.wall,
            first: self.first,
        };
        (output, self.cascade)
    }
}

impl Generation<Cascade> {
    /// Returns what has been generated, as [`into_output`](Self::into_output), and the cascade,
    /// ready for the next prompt.
    pub fn into_output_and_cascade(self) -> (GenerationOutput, Cascade) {
        self.into_parts()
    }
}

impl<C: BorrowMut<Cascade>> Iterator for Generation<C> {
    type Item = std::result::Result<StepReport, Error>;

    /// The next step. The iterator ends after an error.
    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.finish = Some(Finish::Cancelled);
        }
        step.transpose()
    }
}

/// A verified draft.
struct Verified {
    scores: Scores,
    forward: ForwardCost,
    verdict: Verdict,
}
