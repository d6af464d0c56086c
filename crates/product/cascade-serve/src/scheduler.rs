//! Turns of many generations: a bounded queue, so many sessions, one step at a time for each.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cascade_core::Prompt;
use cascade_engine::{
    Cascade, Finish, Generation, GenerationOutput, Options, StepReport, TokenLogprobs,
};

use crate::answer::{AnswerSender, Done, Failure};
use crate::metrics::Metrics;
use crate::owner::Owner;
use crate::plan::Plan;
use crate::served::Served;
use crate::shelf::{Resting, Shelf};
use crate::{lock, Error, Limits, ServeOptions};

/// Tokens of a prompt that are scored in a turn: with the one before them, as many rows as one
/// forward takes on every device.
const SCORED: usize = 63;

/// A generation that is asked for.
pub(crate) struct Job {
    /// Of the request, for the log.
    pub(crate) id: Arc<str>,
    pub(crate) prompt: Prompt,
    pub(crate) options: Options,
    pub(crate) plan: Plan,
    pub(crate) owner: Owner,
    /// Whether log probabilities of the prompt are wanted, too: with so many alternatives each.
    pub(crate) prompt_logprobs: Option<usize>,
    pub(crate) answer: AnswerSender,
    pub(crate) submitted: Instant,
    pub(crate) deadline: Instant,
}

/// Why jobs are not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// More than ever fit.
    TooMany { most: usize },
    /// The queue is full; so many seconds from now it will have room, about.
    Full { seconds: u64 },
    /// The server is being stopped.
    Stopping,
}

/// What runs and what waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) stopping: bool,
}

/// Hands out turns to threads.
pub(crate) struct Scheduler {
    served: Arc<Served>,
    metrics: Arc<Metrics>,
    limits: Limits,
    log_text: bool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Generations between two turns, the next one first.
    ready: VecDeque<Running>,
    /// Generations that have a session, those in a turn included.
    running: usize,
    shelf: Shelf,
    stopping: bool,
    /// Whether what runs is given up.
    aborting: bool,
    /// Seconds that a generation has its session, averaged over the last ones.
    mean_seconds: f64,
}

/// A generation that has a session.
struct Running {
    generation: Generation<Cascade>,
    id: Arc<str>,
    prompt: Prompt,
    plan: Plan,
    owner: Owner,
    /// Whether what the session knows of the prompt is the owner's own.
    knows_owner: bool,
    /// Log probabilities of the prompt as far as they are known, until all are.
    prompt_scores: Option<PromptScores>,
    answer: AnswerSender,
    submitted: Instant,
    started: Instant,
    first_token: Option<Instant>,
    last_token: Instant,
    deadline: Instant,
}

/// Log probabilities of a prompt that is being scored.
struct PromptScores {
    /// How many of the most probable tokens stand beside each.
    top: usize,
    found: Vec<TokenLogprobs>,
}

impl PromptScores {
    fn new(top: usize) -> Self {
        Self {
            top,
            found: Vec::new(),
        }
    }
}

/// What a thread does next.
enum Turn {
    Start(Box<Admission>),
    Step(Box<Running>),
}

/// A job that gets a session.
struct Admission {
    job: Job,
    /// The cascade that it takes; a new one is made if there is none.
    resting: Option<Resting>,
    /// The one that makes room.
    evicted: Option<Resting>,
}

/// What became of a turn.
enum Outcome {
    Ongoing,
    Ended,
    Abandoned,
    Failed(Failure),
    /// The cascade cannot be used again.
    Broken,
}

impl Scheduler {
    /// A scheduler, and the threads that work for it.
    pub(crate) fn start(
        served: Arc<Served>,
        metrics: Arc<Metrics>,
        options: &ServeOptions,
    ) -> std::io::Result<(Arc<Self>, Vec<JoinHandle<()>>)> {
        let workers = options.limits.workers;
        let state = State {
            shelf: Shelf::new(options.shares_caches()),
            ..State::default()
        };
        let scheduler = Arc::new(Self {
            served,
            metrics,
            limits: options.limits.clone(),
            log_text: options.log_text,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let worker = |index| {
            let scheduler = Arc::clone(&scheduler);
            std::thread::Builder::new()
                .name(format!("turns-{index}"))
                .spawn(move || scheduler.work())
        };
        let threads = (0..workers).map(worker).collect::<Result<_, _>>()?;
        Ok((scheduler, threads))
    }

    /// Queues all of the jobs or none. Those whose clients are gone leave the queue for them.
    pub(crate) fn submit(&self, jobs: Vec<Job>) -> Result<(), Refusal> {
        let most = self.limits.queue + self.limits.sessions;
        if jobs.len() > most {
            return Err(Refusal::TooMany { most });
        }
        let mut state = lock(&self.state);
        if state.stopping {
            return Err(Refusal::Stopping);
        }
        state.waiting.retain(|job| !job.answer.is_abandoned());
        let free = self.limits.sessions.saturating_sub(state.running);
        if state.waiting.len() + jobs.len() > self.limits.queue + free {
            let seconds = state.wait_of(state.waiting.len() + 1, self.limits.sessions);
            return Err(Refusal::Full { seconds });
        }
        state.waiting.extend(jobs);
        self.publish(&state);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    pub(crate) fn load(&self) -> Load {
        let state = lock(&self.state);
        Load {
            running: state.running,
            waiting: state.waiting.len(),
            stopping: state.stopping,
        }
    }

    /// Takes no more jobs. What was taken is finished.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopping = true;
        self.changed.notify_all();
    }

    /// Gives up what is not finished.
    pub(crate) fn abort(&self) {
        let mut state = lock(&self.state);
        state.stopping = true;
        state.aborting = true;
        drop(state);
        self.changed.notify_all();
    }

    /// Keeps a cascade for the first request.
    pub(crate) fn keep(&self, resting: Resting) {
        lock(&self.state).shelf.put(resting);
    }

    fn work(&self) {
        while let Some(turn) = self.next() {
            let begun = Instant::now();
            match turn {
                Turn::Start(admission) => self.begin(*admission),
                Turn::Step(running) => self.step(*running),
            }
            self.metrics.turn(begun.elapsed());
        }
    }

    /// Waits for the next turn; nothing once the server is stopped and all work is done.
    fn next(&self) -> Option<Turn> {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.admit(self.limits.sessions) {
                state.running += 1;
                let others = state.running - 1 + state.shelf.len();
                let room = others < self.limits.sessions;
                let resting = state.shelf.take(&job.plan, &job.prompt, job.owner, room);
                let full = resting.is_none() && !room;
                let evicted = full.then(|| state.shelf.evict()).flatten();
                self.publish(&state);
                return Some(Turn::Start(Box::new(Admission {
                    job,
                    resting,
                    evicted,
                })));
            }
            if let Some(running) = state.ready.pop_front() {
                return Some(Turn::Step(Box::new(running)));
            }
            if state.stopping && state.running == 0 && state.waiting.is_empty() {
                self.changed.notify_all();
                return None;
            }
            state = match self.changed.wait(state) {
                Ok(state) => state,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
    }

    fn begin(&self, admission: Admission) {
        let Admission {
            job,
            resting,
            evicted,
        } = admission;
        drop(evicted);
        let Job {
            id,
            prompt,
            options,
            plan,
            owner,
            prompt_logprobs,
            answer,
            submitted,
            deadline,
        } = job;
        let started = Instant::now();
        if answer.is_abandoned() {
            return self.release(resting, &started);
        }
        let knows_owner = resting
            .as_ref()
            .is_some_and(|resting| resting.owner == Some(owner));
        let generation = guarded(|| {
            let cascade = match resting {
                Some(mut resting) => {
                    if !knows_owner {
                        resting.cascade.forget_texts();
                    }
                    resting.cascade
                }
                None => self.served.cascade(&plan).map_err(refused)?,
            };
            let generation = cascade.into_generation(&prompt, &options);
            generation.map_err(|error| Failure::Model(error.to_string()))
        });
        match generation {
            Some(Ok(generation)) => self.hand_back(Running {
                generation,
                id,
                prompt,
                plan,
                owner,
                // A prompt that is scored is computed anew.
                knows_owner: knows_owner && prompt_logprobs.is_none(),
                prompt_scores: prompt_logprobs.map(PromptScores::new),
                answer,
                submitted,
                started,
                first_token: None,
                last_token: started,
                deadline,
            }),
            failed => {
                let failure = match failed {
                    Some(Err(failure)) => failure,
                    _ => Failure::Lost,
                };
                self.metrics.failed();
                answer.fail(failure);
                self.release(None, &started);
            }
        }
    }

    fn step(&self, mut running: Running) {
        let aborting = lock(&self.state).aborting;
        let outcome = match aborting {
            true => Outcome::Failed(Failure::Stopping),
            false => self.advance(&mut running),
        };
        match outcome {
            Outcome::Ongoing => self.hand_back(running),
            outcome => self.end(running, outcome),
        }
    }

    fn advance(&self, running: &mut Running) -> Outcome {
        if running.answer.is_abandoned() {
            return Outcome::Abandoned;
        }
        if Instant::now() >= running.deadline {
            return Outcome::Failed(Failure::TimedOut);
        }
        if running.answer.is_behind() {
            return Outcome::Failed(Failure::Unread);
        }
        if let Some(scores) = running.prompt_scores.take() {
            return self.score_prompt(running, scores);
        }
        let begun = Instant::now();
        let step = guarded(|| running.generation.step());
        self.metrics.in_models(begun.elapsed());
        match step {
            None => Outcome::Broken,
            Some(Err(error)) => Outcome::Failed(Failure::Model(error.to_string())),
            Some(Ok(None)) => Outcome::Ended,
            Some(Ok(Some(report))) => {
                self.observe(running, &report);
                let ended = report.finish.is_some();
                running.answer.step(report);
                match ended {
                    true => Outcome::Ended,
                    false => Outcome::Ongoing,
                }
            }
        }
    }

    /// Scores some tokens of the prompt, and sends the scores when all are known.
    fn score_prompt(&self, running: &mut Running, mut scores: PromptScores) -> Outcome {
        // The first token follows nothing, and has none.
        let from = scores.found.len() + 1;
        let begun = Instant::now();
        let range = from..from + SCORED;
        let more = guarded(|| running.generation.logprobs_of(range, scores.top));
        self.metrics.in_models(begun.elapsed());
        match more {
            None => return Outcome::Broken,
            Some(Err(error)) => return Outcome::Failed(Failure::Model(error.to_string())),
            Some(Ok(more)) => scores.found.extend(more),
        }
        match scores.found.len() + 1 < running.prompt.context.len() {
            true => running.prompt_scores = Some(scores),
            false => running.answer.prompt(scores.found),
        }
        Outcome::Ongoing
    }

    fn observe(&self, running: &mut Running, report: &StepReport) {
        let now = Instant::now();
        match running.first_token {
            None => {
                running.first_token = Some(now);
                self.metrics.first_token(now - running.submitted);
            }
            Some(_) => self
                .metrics
                .next_tokens(now - running.last_token, report.tokens.len()),
        }
        running.last_token = now;
        self.metrics.step(report);
    }

    /// Puts a generation behind all others that wait for their turns.
    fn hand_back(&self, running: Running) {
        let mut state = lock(&self.state);
        state.ready.push_back(running);
        // Of several threads, one may wait. With one, nobody does.
        if self.limits.workers > 1 {
            drop(state);
            self.changed.notify_one();
        }
    }

    fn end(&self, running: Running, outcome: Outcome) {
        let Running {
            generation,
            id,
            prompt,
            plan,
            owner,
            knows_owner,
            answer,
            submitted,
            started,
            first_token,
            ..
        } = running;
        if let Outcome::Broken = outcome {
            tracing::error!(request = &*id, "a step panicked; its session is given up");
            self.metrics.failed();
            answer.fail(Failure::Lost);
            drop(generation);
            return self.release(None, &started);
        }
        let (output, cascade) = generation.into_output_and_cascade();
        let Prompt {
            source,
            mut context,
        } = prompt;
        // What others said is nobody's business, not even that they said it.
        let cached_tokens = match knows_owner {
            true => cached(&output, context.len()),
            false => 0,
        };
        let prompt_tokens = source.len() + context.len();
        context.extend(&output.tokens);
        let finish = match &outcome {
            Outcome::Abandoned => "abandoned",
            Outcome::Failed(_) => "failed",
            _ => output.finish.as_str(),
        };
        tracing::info!(
            request = &*id,
            finish,
            prompt_tokens,
            cached_tokens,
            tokens = output.tokens.len(),
            forwards = output.steps.len(),
            queue_ms = millis(started - submitted),
            first_token_ms = first_token.map(|at| millis(at - submitted)),
            total_ms = millis(submitted.elapsed()),
            "answered"
        );
        if self.log_text {
            let text = output.text.as_deref().unwrap_or_default();
            tracing::info!(request = &*id, text = ?text, "text");
        }
        self.release(
            Some(Resting {
                cascade,
                plan,
                owner: Some(owner),
                source,
                context,
            }),
            &started,
        );
        match outcome {
            Outcome::Failed(failure) => {
                if let Failure::Model(message) = &failure {
                    tracing::error!(request = &*id, message = ?message, "the models failed");
                }
                self.metrics.failed();
                answer.fail(failure);
            }
            Outcome::Abandoned => {
                self.metrics.abandoned();
                answer.fail(Failure::Lost);
            }
            _ => {
                let latency = submitted.elapsed();
                self.metrics.done(
                    &output,
                    prompt_tokens,
                    cached_tokens,
                    started - submitted,
                    latency,
                );
                answer.done(Done {
                    output,
                    cached_tokens,
                    queued: started - submitted,
                });
            }
        }
    }

    /// Frees a session; its cascade, if there is one, rests.
    fn release(&self, resting: Option<Resting>, started: &Instant) {
        let mut state = lock(&self.state);
        state.running -= 1;
        let seconds = started.elapsed().as_secs_f64();
        state.mean_seconds = match state.mean_seconds {
            0.0 => seconds,
            mean => 0.9 * mean + 0.1 * seconds,
        };
        if let Some(resting) = resting {
            state.shelf.put(resting);
        }
        self.publish(&state);
        drop(state);
        self.changed.notify_all();
    }

    fn publish(&self, state: &State) {
        self.metrics
            .load(state.running, state.waiting.len(), state.shelf.len());
    }
}

impl State {
    /// The next job that somebody waits for, if there is a session for it.
    fn admit(&mut self, sessions: usize) -> Option<Job> {
        while self.running < sessions {
            let job = self.waiting.pop_front()?;
            match (job.answer.is_abandoned(), self.aborting) {
                (true, _) => {}
                (_, true) => job.answer.fail(Failure::Stopping),
                _ if Instant::now() >= job.deadline => job.answer.fail(Failure::TimedOut),
                _ => return Some(job),
            }
        }
        if self.aborting {
            self.waiting
                .drain(..)
                .for_each(|job| job.answer.fail(Failure::Stopping));
        }
        None
    }

    /// Seconds until a job behind so many others gets its session, about.
    fn wait_of(&self, place: usize, sessions: usize) -> u64 {
        let seconds = self.mean_seconds * place as f64 / sessions as f64;
        (seconds.ceil() as u64).clamp(1, 60)
    }
}

/// What `work` returns; nothing if it panics.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Why there is no cascade: the plan of a request, or the models.
fn refused(error: Error) -> Failure {
    match error {
        Error::Config(cascade_config::Error::Cascade { source, .. }) => {
            Failure::Plan(source.to_string())
        }
        error => Failure::Model(error.to_string()),
    }
}

/// Tokens of the prompt that were known. The last one is always computed: its row is the first of
/// the answer.
fn cached(output: &GenerationOutput, context: usize) -> usize {
    let target = output.models.first().map(|target| target.usage);
    match target.filter(|usage| context > 0 && usage.calls > 0) {
        Some(usage) => context.saturating_sub(usage.prefill_rows as usize + 1),
        None => 0,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// OpenAI's name for the end of an answer.
pub(crate) fn finish_reason(finish: &Finish) -> &'static str {
    match finish {
        Finish::Eos | Finish::StopSequence(_) => "stop",
        _ => "length",
    }
}
