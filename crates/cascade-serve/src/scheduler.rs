//! Schedules many generations: a bounded queue, and a number of sessions.
//!
//! Where their forwards are shared, each generation is driven to its end by one thread, and there
//! is a thread for each session: a forward waits for all generations that run, so none of them may
//! wait for a thread. Otherwise they take turns of one step on a few threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use cascade_core::{Prompt, common_prefix};
use cascade_engine::{Cascade, Generation, GenerationOutput, Options, StepReport, TokenLogprobs};
use cascade_models::{Participant, SharedPrefixes};

use crate::answer::{AnswerSender, Done, Event, Failure};
use crate::cache_room::{CacheLoad, Reservation, Reservations};
use crate::error::{ApiError, ApiResult};
use crate::faults::{Faults, Stage};
use crate::metrics::Metrics;
use crate::owner::Owner;
use crate::scopes::Scopes;
use crate::served::Served;
use crate::session_pool::{IdleSession, SessionPool};
use crate::speculation::SpeculationSettings;
use crate::{Error, Limits, ServeOptions, lock};

/// Tokens of a prompt that are scored in a step: with the one before them, as many rows as one
/// forward takes on every device.
const SCORED: usize = 63;

/// Tokens that are counted together of what others have read.
const COUNTED: usize = 64;

/// A generation that is asked for.
pub(crate) struct Job {
    /// The request's id, for the log.
    pub(crate) id: Arc<str>,
    pub(crate) prompt: Prompt,
    pub(crate) options: Options,
    pub(crate) settings: SpeculationSettings,
    pub(crate) owner: Owner,
    /// Whether log probabilities of the prompt are wanted, too: the number of alternatives to each
    /// token.
    pub(crate) prompt_logprobs: Option<usize>,
    pub(crate) answer: AnswerSender,
    pub(crate) submitted: Instant,
    pub(crate) deadline: Instant,
}

/// What runs and what waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) running: usize,
    pub(crate) waiting: usize,
    pub(crate) stopping: bool,
}

/// Hands out tasks to threads.
pub(crate) struct Scheduler {
    served: Arc<Served>,
    metrics: Arc<Metrics>,
    limits: Limits,
    shares_forwards: bool,
    log_text: bool,
    faults: Faults,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    /// Generations between two turns, the next one first; none where forwards are shared.
    ready: VecDeque<Running>,
    /// Generations that have a session.
    running: usize,
    /// Memory for those.
    reservations: Reservations,
    pool: SessionPool,
    scopes: Scopes,
    stopping: bool,
    /// Whether what runs is given up.
    aborting: Arc<AtomicBool>,
    /// Seconds that a generation has its session, averaged over the last ones.
    mean_seconds: f64,
}

/// A generation that has a session.
struct Running {
    job: Job,
    generation: Generation<Cascade>,
    participant: Participant,
    lease: Lease,
    /// Tokens of the prompt that the owner has asked about before, at most: [`known_tokens`].
    known: Option<usize>,
    /// Log probabilities of the prompt as far as they are known, until all are; `None` if none are
    /// wanted.
    prompt_scores: Option<Vec<TokenLogprobs>>,
    first_token: Option<Instant>,
    last_token: Instant,
}

/// What a generation has for as long as it runs: a session since a time, and memory.
#[derive(Clone)]
struct Lease {
    started: Instant,
    reservation: Arc<Reservation>,
}

/// What a thread does next.
enum Task {
    Start(Box<Admission>),
    Turn(Box<Running>),
}

impl Task {
    /// The request and what its generation has.
    fn whose(&self) -> (Arc<str>, Lease) {
        let (job, lease) = match self {
            Self::Start(admission) => (&admission.job, &admission.lease),
            Self::Turn(running) => (&running.job, &running.lease),
        };
        (Arc::clone(&job.id), lease.clone())
    }
}

/// A job that gets a session.
struct Admission {
    job: Job,
    /// The cascade that it takes; a new one is made if there is none.
    idle: Option<IdleSession>,
    /// The one that makes room.
    evicted: Option<IdleSession>,
    lease: Lease,
    /// What the owner's answers have read.
    prefixes: Arc<SharedPrefixes>,
    /// Tokens of the prompt that the owner has asked about before, at most: [`known_tokens`].
    known: Option<usize>,
}

/// What became of a step.
enum Outcome {
    Ongoing,
    Ended,
    Abandoned,
    Failed(Failure),
}

impl Scheduler {
    /// A scheduler, and the threads that work for it.
    pub(crate) fn start(
        served: Arc<Served>,
        metrics: Arc<Metrics>,
        options: &ServeOptions,
    ) -> std::io::Result<(Arc<Self>, Vec<JoinHandle<()>>)> {
        let shares_forwards = served.shares_forwards();
        let threads = if shares_forwards {
            options.limits.sessions
        } else {
            options.limits.workers
        };
        let state = State {
            pool: SessionPool::new(options.shares_caches()),
            scopes: Scopes::new(options.shares_caches()),
            ..State::default()
        };
        let scheduler = Arc::new(Self {
            served,
            metrics,
            limits: options.limits.clone(),
            shares_forwards,
            log_text: options.log_text,
            faults: options.faults.clone(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let worker = |index| {
            let scheduler = Arc::clone(&scheduler);
            std::thread::Builder::new()
                .name(format!("answers-{index}"))
                .spawn(move || scheduler.work())
        };
        let threads = (0..threads).map(worker).collect::<Result<_, _>>()?;
        Ok((scheduler, threads))
    }

    /// Queues all of the jobs or none. Those whose clients are gone leave the queue for them.
    pub(crate) fn submit(&self, jobs: Vec<Job>) -> ApiResult<()> {
        if let Some(memory) = self.limits.cache_memory {
            let needed = jobs.iter().map(|job| self.needed(job)).max();
            if let Some(needed) = needed.filter(|&needed| needed > memory) {
                return Err(too_large(needed, memory));
            }
        }
        let mut state = lock(&self.state);
        if state.stopping {
            let message = "the server is being stopped; ask again when it is back";
            return Err(ApiError::busy(StatusCode::SERVICE_UNAVAILABLE, message, 5));
        }
        state.waiting.retain(|job| !job.answer.is_abandoned());
        let free = self.limits.sessions.saturating_sub(state.running);
        if state.waiting.len() + jobs.len() > self.limits.queue + free {
            let seconds = state.wait_of(state.waiting.len() + 1, self.limits.sessions);
            let message = "the queue is full; ask again after the seconds of Retry-After";
            let full = ApiError::busy(StatusCode::TOO_MANY_REQUESTS, message, seconds);
            return Err(full.with_code("rate_limit_exceeded"));
        }
        state.waiting.extend(jobs);
        self.publish(&state);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// What runs and what waits, but for those whose clients are gone.
    pub(crate) fn load(&self) -> Load {
        let mut state = lock(&self.state);
        state.waiting.retain(|job| !job.answer.is_abandoned());
        self.publish(&state);
        Load {
            running: state.running,
            waiting: state.waiting.len(),
            stopping: state.stopping,
        }
    }

    /// The memory of keys and values.
    pub(crate) fn cache_load(&self) -> CacheLoad {
        let reserved = lock(&self.state).reservations.left();
        CacheLoad {
            in_use: self.served.caches.bytes(),
            reserved,
            limit: self.limits.cache_memory,
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
        state.aborting.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    /// Keeps a cascade for the first request.
    pub(crate) fn keep(&self, idle: IdleSession) {
        lock(&self.state).pool.put(idle);
    }

    /// Does tasks until the server is stopped, whatever happens to one of them.
    fn work(&self) {
        while self.metrics.guarded(|| self.work_once()) != Some(false) {}
    }

    /// Does the next task, and says whether there was one. If it panics, its answer ends with a
    /// failure, and its session with it: the next one is new.
    fn work_once(&self) -> bool {
        let Some(task) = self.next() else {
            return false;
        };
        let (request, lease) = task.whose();
        let done = self.metrics.guarded(|| match task {
            Task::Start(admission) => self.begin(*admission),
            Task::Turn(running) => self.turn(*running),
        });
        if done.is_none() {
            self.metrics.failed.inc();
            self.release(None, &lease);
            tracing::error!(
                request = &*request,
                "its work panicked; its session is given up"
            );
        }
        true
    }

    /// Waits for the next task; nothing once the server is stopped and all work is done.
    fn next(&self) -> Option<Task> {
        let mut state = lock(&self.state);
        loop {
            if let Some(admission) = self.admit(&mut state) {
                self.publish(&state);
                return Some(Task::Start(Box::new(admission)));
            }
            if let Some(running) = state.ready.pop_front() {
                return Some(Task::Turn(Box::new(running)));
            }
            if state.stopping && state.running == 0 && state.waiting.is_empty() {
                self.changed.notify_all();
                return None;
            }
            state = self.wait(state);
        }
    }

    /// Waits for a change, and gives back the memory of sessions that have rested for long.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let rest = self.limits.rest;
        let Some(since) = state.pool.idle.first().map(|idle| idle.since) else {
            let woken = self.changed.wait(state);
            return woken.unwrap_or_else(PoisonError::into_inner);
        };
        let left = rest.saturating_sub(since.elapsed());
        let woken = self.changed.wait_timeout(state, left);
        let (mut state, _) = woken.unwrap_or_else(PoisonError::into_inner);
        let rested = state.pool.take_rested(rest);
        if !rested.is_empty() {
            self.publish(&state);
            drop(state);
            drop(rested);
            state = lock(&self.state);
        }
        state
    }

    /// The next job that somebody waits for, if there are a session and memory for it. None
    /// overtakes it.
    fn admit(&self, state: &mut State) -> Option<Admission> {
        let job = state.next_job(self.limits.sessions)?;
        let room = state.running + state.pool.idle.len() < self.limits.sessions;
        let idle = state.pool.take(&job.settings, &job.prompt, job.owner, room);
        let needed = self.needed(&job);
        if !self.make_room(state, needed, idle.as_ref()) {
            idle.into_iter().for_each(|idle| state.pool.put(idle));
            state.waiting.push_front(job);
            return None;
        }
        self.faults.at(Stage::Admission);
        let full = idle.is_none() && state.running + state.pool.idle.len() >= self.limits.sessions;
        let participant = idle.as_ref().map(|idle| &idle.participant);
        let evicted = full.then(|| state.pool.evict()).flatten();
        let prefixes = state.scopes.of(job.owner);
        let known = known_tokens(&job, idle.as_ref(), !state.scopes.has_others(job.owner));
        // Last, and with nothing between them that could panic: what is reserved runs.
        state.running += 1;
        let reservation = state.reservations.add(needed, participant);
        Some(Admission {
            evicted,
            lease: Lease {
                started: Instant::now(),
                reservation,
            },
            prefixes,
            known,
            job,
            idle,
        })
    }

    /// Bytes of keys and values that a job may need.
    fn needed(&self, job: &Job) -> usize {
        let (tokens, nodes) = (job.options.max_new_tokens, job.settings.max_nodes);
        self.served.caches.needed(&job.prompt, tokens, nodes)
    }

    /// Makes room for a job that needs so much memory and goes on with what `own` has: ends idle
    /// sessions, the one that was used longest ago first, if that is enough.
    fn make_room(&self, state: &mut State, needed: usize, own: Option<&IdleSession>) -> bool {
        let Some(limit) = self.limits.cache_memory else {
            return true;
        };
        let bytes = |idle: &IdleSession| idle.participant.cache_bytes();
        let more = needed.saturating_sub(own.map_or(0, bytes));
        let free = |state: &State| {
            let taken = self.served.caches.bytes() + state.reservations.left();
            limit.saturating_sub(taken)
        };
        // One that is alone has been found to fit.
        let alone = state.running == 0;
        let idle: usize = state.pool.idle.iter().map(bytes).sum();
        if more > free(state) + idle && !alone {
            return false;
        }
        while more > free(state) {
            match state.pool.evict() {
                Some(evicted) => drop(evicted),
                // What others share with it is still there.
                None => return alone,
            }
        }
        true
    }

    fn begin(&self, admission: Admission) {
        let Admission {
            job,
            idle,
            evicted,
            lease,
            prefixes,
            known,
        } = admission;
        drop(evicted);
        if job.answer.is_abandoned() {
            return self.release(idle, &lease);
        }
        match self.timed(|| self.generation(&job, idle, prefixes)) {
            Ok((generation, participant)) => {
                lease.reservation.is_for(&participant);
                let running = Running {
                    known,
                    prompt_scores: job.prompt_logprobs.map(|_| Vec::new()),
                    job,
                    generation,
                    participant,
                    first_token: None,
                    last_token: lease.started,
                    lease,
                };
                if self.shares_forwards {
                    self.drive(running)
                } else {
                    self.hand_back(running)
                }
            }
            Err(failure) => {
                self.fail(job.answer, failure);
                self.release(None, &lease);
            }
        }
    }

    /// A generation by the session, or by a new one, and the participant that its models take part
    /// through.
    fn generation(
        &self,
        job: &Job,
        idle: Option<IdleSession>,
        prefixes: Arc<SharedPrefixes>,
    ) -> Result<(Generation<Cascade>, Participant), Failure> {
        self.faults.at(Stage::Beginning);
        let (cascade, participant) = match idle {
            Some(mut idle) => {
                if idle.owner != Some(job.owner) {
                    idle.cascade.forget_texts();
                }
                (idle.cascade, idle.participant)
            }
            None => self.served.cascade(&job.settings).map_err(refused)?,
        };
        participant.share_prefixes(Some(prefixes));
        let (abandoned, deadline) = (job.answer.abandonment(), job.deadline);
        let aborting = Arc::clone(&lock(&self.state).aborting);
        participant.give_up_when(Some(Arc::new(move || {
            abandoned() || aborting.load(Ordering::Relaxed) || Instant::now() >= deadline
        })));
        let generation = cascade
            .into_generation(&job.prompt, &job.options)
            .map_err(|error| Failure::Model(error.to_string()))?;
        Ok((generation, participant))
    }

    /// Takes all steps of a generation. The forwards of the others wait for its calls.
    fn drive(&self, mut running: Running) {
        let takes_part = running.participant.running();
        let outcome = loop {
            match self.timed(|| self.step(&mut running)) {
                Outcome::Ongoing => {}
                outcome => break outcome,
            }
        };
        drop(takes_part);
        self.timed(|| self.end(running, outcome));
    }

    /// Takes one step of a generation.
    fn turn(&self, mut running: Running) {
        self.timed(|| match self.step(&mut running) {
            Outcome::Ongoing => self.hand_back(running),
            outcome => self.end(running, outcome),
        });
    }

    fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = work();
        self.metrics.in_turns.inc_by(begun.elapsed().as_secs_f64());
        done
    }

    fn step(&self, running: &mut Running) -> Outcome {
        if let Some(outcome) = self.given_up(&running.job) {
            return outcome;
        }
        if let Some(scores) = running.prompt_scores.take() {
            return self.score_prompt(running, scores);
        }
        match self.in_models(|| running.generation.step()) {
            // A prompt is given up while it is read, too.
            Err(Outcome::Failed(failure)) => {
                let given_up = self.given_up(&running.job);
                given_up.unwrap_or(Outcome::Failed(failure))
            }
            Err(outcome) => outcome,
            Ok(None) => Outcome::Ended,
            Ok(Some(report)) => {
                self.observe(running, &report);
                let ended = report.finish.is_some();
                running.job.answer.send(Event::Step(Box::new(report)));
                if ended {
                    Outcome::Ended
                } else {
                    Outcome::Ongoing
                }
            }
        }
    }

    /// Why an answer ends that nobody waits for any more.
    fn given_up(&self, job: &Job) -> Option<Outcome> {
        if lock(&self.state).is_aborting() {
            Some(Outcome::Failed(Failure::Stopping))
        } else if job.answer.is_abandoned() {
            Some(Outcome::Abandoned)
        } else if Instant::now() >= job.deadline {
            Some(Outcome::Failed(Failure::TimedOut))
        } else {
            let behind = job.answer.is_behind();
            behind.then_some(Outcome::Failed(Failure::Unread))
        }
    }

    /// Scores some tokens of the prompt, and sends the scores when all are known.
    fn score_prompt(&self, running: &mut Running, mut scores: Vec<TokenLogprobs>) -> Outcome {
        // The first token follows nothing, and has none.
        let from = scores.len() + 1;
        let top = running.job.prompt_logprobs.unwrap_or_default();
        match self.in_models(|| running.generation.logprobs_of(from..from + SCORED, top)) {
            Err(outcome) => return outcome,
            Ok(more) => scores.extend(more),
        }
        if scores.len() + 1 < running.job.prompt.context.len() {
            running.prompt_scores = Some(scores)
        } else {
            running.job.answer.send(Event::Prompt(scores))
        }
        Outcome::Ongoing
    }

    /// Times what the models compute. A failure ends the generation, as the outcome says.
    fn in_models<T>(&self, work: impl FnOnce() -> cascade_engine::Result<T>) -> Result<T, Outcome> {
        let begun = Instant::now();
        self.faults.at(Stage::Step);
        let done = work();
        self.metrics.in_models.inc_by(begun.elapsed().as_secs_f64());
        done.map_err(|error| Outcome::Failed(Failure::Model(error.to_string())))
    }

    fn observe(&self, running: &mut Running, report: &StepReport) {
        self.faults.at(Stage::Report);
        let now = Instant::now();
        if running.first_token.is_some() {
            let since = now - running.last_token;
            self.metrics.next_tokens(since, report.tokens.len());
        } else {
            running.first_token = Some(now);
            let since = now - running.job.submitted;
            self.metrics.first_token.observe(since.as_secs_f64());
            // What it shares with others need not be reserved for it any more.
            self.changed.notify_one();
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

    /// Sends the end of an answer, and frees its session.
    fn end(&self, running: Running, outcome: Outcome) {
        let (job, lease) = (running.job, running.lease);
        self.faults.at(Stage::End);
        let (output, cascade) = running.generation.into_output_and_cascade();
        let done = Done {
            cached_tokens: shown(cached(&output, job.prompt.context.len()), running.known),
            queued: lease.started - job.submitted,
            output,
        };
        let prompt_tokens = job.prompt.len();
        self.log(&job, running.first_token, &outcome, &done);
        let idle = IdleSession {
            cascade,
            participant: running.participant,
            settings: job.settings,
            owner: Some(job.owner),
            source: job.prompt.source,
            context: [job.prompt.context, done.output.tokens.clone()].concat(),
            since: Instant::now(),
        };
        self.release(Some(idle), &lease);
        match outcome {
            Outcome::Failed(failure) => self.fail(job.answer, failure),
            Outcome::Abandoned => {
                self.metrics.abandoned.inc();
                job.answer.fail(Failure::Lost);
            }
            _ => {
                self.metrics.done(&done, prompt_tokens, job.submitted);
                job.answer.done(done);
            }
        }
    }

    fn fail(&self, answer: AnswerSender, failure: Failure) {
        self.metrics.failed.inc();
        answer.fail(failure);
    }

    fn log(&self, job: &Job, first_token: Option<Instant>, outcome: &Outcome, done: &Done) {
        let (id, output) = (&*job.id, &done.output);
        let finish = match outcome {
            Outcome::Abandoned => "abandoned",
            Outcome::Failed(_) => "failed",
            _ => output.finish.as_str(),
        };
        tracing::info!(
            request = id,
            finish,
            prompt_tokens = job.prompt.len(),
            cached_tokens = done.cached_tokens,
            tokens = output.tokens.len(),
            forwards = output.steps.len(),
            queue_ms = millis(done.queued),
            first_token_ms = first_token.map(|at| millis(at - job.submitted)),
            total_ms = millis(job.submitted.elapsed()),
            "answered"
        );
        if self.log_text {
            let text = output.text.as_deref().unwrap_or_default();
            tracing::info!(request = id, text = ?text, "text");
        }
        if let Outcome::Failed(Failure::Model(message)) = outcome {
            tracing::error!(request = id, message = ?message, "the models failed");
        }
    }

    /// Frees a session, once; its cascade, if there is one, is kept.
    fn release(&self, idle: Option<IdleSession>, lease: &Lease) {
        let mut state = lock(&self.state);
        if !state.reservations.remove(&lease.reservation) {
            return;
        }
        state.running -= 1;
        let seconds = lease.started.elapsed().as_secs_f64();
        state.mean_seconds = match state.mean_seconds {
            0.0 => seconds,
            mean => 0.9 * mean + 0.1 * seconds,
        };
        if let Some(idle) = idle {
            state.pool.put(idle);
        }
        self.publish(&state);
        drop(state);
        self.changed.notify_all();
    }

    fn publish(&self, state: &State) {
        self.metrics
            .load(state.running, state.waiting.len(), state.pool.idle.len());
    }
}

impl State {
    fn is_aborting(&self) -> bool {
        self.aborting.load(Ordering::Relaxed)
    }

    /// The next job that somebody waits for, if there is a session for it.
    fn next_job(&mut self, sessions: usize) -> Option<Job> {
        while self.running < sessions {
            let job = self.waiting.pop_front()?;
            match (job.answer.is_abandoned(), self.is_aborting()) {
                (true, _) => {}
                (_, true) => job.answer.fail(Failure::Stopping),
                _ if Instant::now() >= job.deadline => job.answer.fail(Failure::TimedOut),
                _ => return Some(job),
            }
        }
        if self.is_aborting() {
            self.waiting
                .drain(..)
                .for_each(|job| job.answer.fail(Failure::Stopping));
        }
        None
    }

    /// Seconds until the job at a place in the queue gets its session, about.
    fn wait_of(&self, place: usize, sessions: usize) -> u64 {
        let seconds = self.mean_seconds * place as f64 / sessions as f64;
        (seconds.ceil() as u64).clamp(1, 60)
    }
}

/// The error of a job that may take more memory than there is for those of all.
fn too_large(needed: usize, memory: usize) -> ApiError {
    ApiError::invalid(format!(
        "keys and values of the prompt and its answer may take {:.1} MB, more than the {:.1} MB that the server has \
         for those of all answers; ask for fewer tokens, shorten the prompt, or raise the server's --cache-memory",
        needed as f64 / 1e6,
        memory as f64 / 1e6
    ))
    .with_code("context_length_exceeded")
}

/// Why there is no cascade: the settings of a request, or the models.
fn refused(error: Error) -> Failure {
    match error {
        Error::Config(cascade_config::Error::Cascade { source, .. }) => {
            Failure::Settings(source.to_string())
        }
        error => Failure::Model(error.to_string()),
    }
}

/// Tokens of a job's prompt that its owner has asked about before, at most, if the job goes on with
/// an idle session; `are_own` says whether what the session finds is the owner's own. `None` for a
/// prompt that is scored, and so computed anew.
fn known_tokens(job: &Job, idle: Option<&IdleSession>, are_own: bool) -> Option<usize> {
    // Of a session that is nobody's, the warm-up has read the start token.
    let is_nobodys = idle.is_some_and(|idle| idle.owner.is_none());
    let known = match idle.filter(|idle| idle.owner == Some(job.owner)) {
        _ if are_own && !is_nobodys => usize::MAX,
        None => 0,
        Some(own) => common_prefix(&own.context, &job.prompt.context),
    };
    job.prompt_logprobs.is_none().then_some(known)
}

/// The tokens that were known, as far as the client may see: what others said is counted in whole
/// pages, so that nobody finds it out token by token.
fn shown(cached: usize, known: Option<usize>) -> usize {
    known.map_or(0, |known| cached.min(known.max(cached / COUNTED * COUNTED)))
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
