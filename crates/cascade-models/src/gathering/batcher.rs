//! Generations on threads of their own, whose calls meet in forwards.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use cascade_core::{
    Error, Result, Scorer, ScorerInfo, Scores, SharedForward, TokenId, TokenTree, Want,
};

use super::ledger::divide;
use super::{Company, Forward, Pieces, forward};
use crate::Model;
use crate::prefixes::SharedPrefixes;
use crate::session::{Scoring, Session};

/// Gathers the calls of several generations into forwards, so that the weights of a model are read
/// once for all of them.
///
/// Each generation runs on a thread of its own and takes part through a [`Participant`], whose
/// [sessions](Participant::session) are scorers like any others: a call blocks until it is
/// answered, with the bits that a [`Session`] of its own answers with. A forward starts when every
/// participant that is [running](Participant::running) is blocked in a call; the thread that came
/// last computes it for all. Generations must not run on threads of a rayon pool, which forwards
/// need. If calls are for several models, those of the smallest are computed first, so that texts
/// whose drafters still draft meet the others at the target.
///
/// The error of a call concerns that call alone, and a participant that is dropped, or whose thread
/// panics, holds up nobody. If a forward of several calls panics, each of them is computed again by
/// itself, and one whose forward panics then, too, fails with an error.
///
/// Models on GPUs gather nothing ([`Model::gathers`]): their sessions take turns.
///
/// ```
/// # use cascade_core::{Scorer, TokenTree, Want};
/// # use cascade_models::{random_model, Batcher, LoadOptions};
/// # let config = serde_json::json!({
/// #     "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
/// #     "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 208,
/// # });
/// let model = random_model(config, &LoadOptions::default())?;
/// let batcher = Batcher::default();
/// // Before any thread starts, so that the first forward waits for all of them.
/// let texts: Vec<_> = (0..4).map(|text| (text, batcher.join().running())).collect();
/// std::thread::scope(|scope| {
///     for (text, running) in texts {
///         let mut session = running.participant().session(&model);
///         scope.spawn(move || {
///             let _running = running;
///             let mut tokens = vec![1, 2, text];
///             for _ in 0..8 {
///                 let scores = session.score(&tokens, &TokenTree::new(), Want::ARGMAX).unwrap();
///                 tokens.push(scores.argmax[0]);
///             }
///         });
///     }
/// });
/// assert_eq!(batcher.counts().forwards, 8);
/// assert_eq!(batcher.counts().calls, 32);
/// # Ok::<(), cascade_models::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batcher {
    shared: Arc<SharedBatcher>,
}

/// What a [`Batcher`] has computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchCounts {
    /// Forwards.
    pub forwards: u64,
    /// Calls that they answered.
    pub calls: u64,
    /// Rows that they computed for these.
    pub rows: u64,
    /// Forwards that panicked.
    pub panics: u64,
}

impl Batcher {
    /// One that shows each forward, once it is computed, to `observe`, with the model that computed
    /// it and while all who take part wait: it should do little.
    pub fn with_observer(
        observe: impl Fn(&Arc<Model>, &SharedForward) + Send + Sync + 'static,
    ) -> Self {
        Self::new(Observer(Box::new(observe)), Pieces::default())
    }

    /// As [`with_observer`](Self::with_observer), for texts that somebody reads as they are
    /// written: prompts are read in small pieces, so that a forward holds nobody up for long.
    pub fn of_streams(
        observe: impl Fn(&Arc<Model>, &SharedForward) + Send + Sync + 'static,
    ) -> Self {
        Self::new(Observer(Box::new(observe)), Pieces::OF_STREAMS)
    }

    fn new(observer: Observer, pieces: Pieces) -> Self {
        Self {
            shared: Arc::new(SharedBatcher {
                state: Mutex::default(),
                observer,
                pieces,
            }),
        }
    }

    /// A generation that takes part. It holds up nobody until it is
    /// [running](Participant::running).
    pub fn join(&self) -> Participant {
        let mut state = self.shared.lock();
        let number = state.next_number();
        state.members.insert(number, Member::default());
        Participant(Arc::new(Seat {
            shared: Arc::clone(&self.shared),
            number,
            unpaid: AtomicU64::new(0),
            cache_bytes: Arc::default(),
            prefixes: Mutex::default(),
            given_up: Mutex::default(),
        }))
    }

    /// What has been computed so far.
    pub fn counts(&self) -> BatchCounts {
        self.shared.lock().counts
    }
}

/// A generation that takes part in the forwards of a [`Batcher`]. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Participant(Arc<Seat>);

impl Participant {
    /// A session that has seen nothing yet, whose calls share forwards with those of other
    /// participants. Allocates nothing.
    pub fn session(&self, model: &Arc<Model>) -> BatchedSession {
        BatchedSession {
            seat: Arc::clone(&self.0),
            model: Arc::clone(model),
            session: Some(self.0.session(model)),
            forward: None,
        }
    }

    /// Has its sessions share what they read with those of others, or with nobody: see
    /// [`SharedPrefixes`].
    pub fn share_prefixes(&self, prefixes: Option<Arc<SharedPrefixes>>) {
        *locked(&self.0.prefixes) = prefixes;
    }

    /// Gives up calls of its sessions when this says so, which is asked before each forward: they
    /// fail with [`Error::GivenUp`], and what the sessions have read so far stays. `None` gives up
    /// none. What is asked must return at once, and use nothing of the batcher's.
    pub fn give_up_when(&self, given_up: Option<Arc<dyn Fn() -> bool + Send + Sync>>) {
        *locked(&self.0.given_up) = GivenUp(given_up);
    }

    /// Bytes of the keys and values of its sessions, as of their last calls; those that they share
    /// with others included. On the CPU: elsewhere they are not counted.
    pub fn cache_bytes(&self) -> usize {
        self.0.cache_bytes.load(Ordering::Relaxed)
    }

    /// Says that calls are coming: as long as the guard is there, forwards wait for them. Drop it
    /// before waiting for anything but calls: a queue, a client, a lock that another generation
    /// holds. Calls without it are answered too, and meet others by chance.
    ///
    /// A guard for each of several threads may be there at a time.
    #[must_use = "forwards wait for calls as long as the guard is there"]
    pub fn running(&self) -> TakesPart {
        self.0.change(|member| member.running += 1);
        TakesPart {
            participant: self.clone(),
        }
    }

    /// How long its calls have taken beyond their part of their forwards: waiting for others, and
    /// for the rows of others. A text pays its rows at the price that one more row in the forwards
    /// of late has had, and an equal part of the rest, so the parts of all texts add up to the time
    /// of the forwards. Never falls. Calls of several threads at a time count one by one, so only
    /// for a generation on one thread is it a part of the time that has passed.
    pub fn unpaid(&self) -> Duration {
        Duration::from_nanos(self.0.unpaid.load(Ordering::Relaxed))
    }
}

/// While it is there, forwards wait for the calls of a participant.
#[derive(Debug)]
pub struct TakesPart {
    participant: Participant,
}

impl TakesPart {
    /// Who is running.
    pub fn participant(&self) -> &Participant {
        &self.participant
    }
}

impl Drop for TakesPart {
    fn drop(&mut self) {
        let seat = &self.participant.0;
        seat.change(|member| member.running -= 1);
    }
}

/// A [`Scorer`] like a [`Session`], whose calls share forwards with those of others: see
/// [`Batcher`]. A call waits for the other generations, and for all rows of its forwards; what of
/// that is not its own, [`Participant::unpaid`] says.
#[derive(Debug)]
pub struct BatchedSession {
    seat: Arc<Seat>,
    model: Arc<Model>,
    /// Away only while a call is under way.
    session: Option<Session>,
    /// The last one that answered a call.
    forward: Option<SharedForward>,
}

impl BatchedSession {
    /// The model it scores with.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The session, or one that has seen nothing if a panic has taken it along.
    fn session(&mut self) -> &mut Session {
        let (seat, model) = (&self.seat, &self.model);
        self.session.get_or_insert_with(|| seat.session(model))
    }

    /// The session, which shares what its participant shares.
    fn sharing(&mut self) -> &mut Session {
        let prefixes = locked(&self.seat.prefixes).clone();
        let session = self.session();
        session.share_prefixes(prefixes);
        session
    }
}

impl Scorer for BatchedSession {
    fn info(&self) -> ScorerInfo {
        self.model.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.session().set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        if !self.model.gathers() {
            let given_up = locked(&self.seat.given_up).clone();
            return self
                .session()
                .score_unless(|| given_up.is_true(), (context, tree), want);
        }
        let scoring = self.sharing().begin(context, tree, want)?;
        let Some(session) = self.session.take() else {
            return self.session().score(context, tree, want);
        };
        let (call, answer) = self.seat.answer(session, scoring);
        self.session = Some(call.session);
        self.forward = call.forward;
        answer
    }

    fn texts(&self) -> usize {
        if !self.model.gathers() {
            return 1;
        }
        let state = self.seat.shared.lock();
        let running = state.members.values().filter(|it| it.running > 0);
        running.count().max(1)
    }

    fn cached(&mut self, context: &[TokenId]) -> usize {
        self.sharing().cached(context)
    }

    fn shared_forward(&self) -> Option<SharedForward> {
        self.forward
    }
}

/// A place among the members, given up when the last of a participant and its sessions goes.
#[derive(Debug)]
struct Seat {
    shared: Arc<SharedBatcher>,
    number: u64,
    /// Nanoseconds that calls took and others pay.
    unpaid: AtomicU64,
    /// Bytes of the keys and values of the sessions of this participant.
    cache_bytes: Arc<AtomicUsize>,
    /// The prefixes that sessions of this participant share.
    prefixes: Mutex<Option<Arc<SharedPrefixes>>>,
    given_up: Mutex<GivenUp>,
}

/// Whoever says that calls are given up.
#[derive(Clone, Default)]
struct GivenUp(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl GivenUp {
    fn is_true(&self) -> bool {
        self.0.as_ref().is_some_and(|given_up| given_up())
    }
}

impl fmt::Debug for GivenUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("GivenUp")
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.members.remove(&self.number);
        state.wake_one_if_ready();
    }
}

impl Seat {
    /// A session that has seen nothing, counted here.
    fn session(&self, model: &Arc<Model>) -> Session {
        model.session().counted_in(&self.cache_bytes)
    }

    /// Changes what is known of the member, for which forwards may have waited.
    fn change(&self, change: impl FnOnce(&mut Member)) {
        let mut state = self.shared.lock();
        state.members.entry(self.number).and_modify(change);
        state.wake_one_if_ready();
    }

    /// Answers a call: waits until others are there, or computes the forward for all.
    fn answer(&self, session: Session, scoring: Scoring) -> (Call, Result<Scores>) {
        let wake = Arc::new(Condvar::new());
        let begun = Instant::now();
        let mut state = self.shared.lock();
        let number = state.next_number();
        let members = &mut state.members;
        members
            .entry(self.number)
            .and_modify(|member| member.blocked += 1);
        state.waiting.push(Call {
            number,
            member: self.number,
            session,
            scoring,
            part: Duration::ZERO,
            forward: None,
            continued: false,
            by_itself: false,
            given_up: locked(&self.given_up).clone(),
            wake: Arc::clone(&wake),
        });
        loop {
            if let Some((call, answer)) = state.answered.remove(&number) {
                let unpaid = begun.elapsed().saturating_sub(call.part).as_nanos();
                let unpaid = u64::try_from(unpaid).unwrap_or(u64::MAX);
                self.unpaid.fetch_add(unpaid, Ordering::Relaxed);
                return (call, answer);
            }
            state = if state.is_ready() {
                self.shared.compute(state)
            } else {
                wake.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }
}

/// What clones of a [`Batcher`] and its participants have in common.
#[derive(Debug, Default)]
struct SharedBatcher {
    state: Mutex<State>,
    observer: Observer,
    pieces: Pieces,
}

type Observe = dyn Fn(&Arc<Model>, &SharedForward) + Send + Sync;

/// Whoever is shown each forward.
struct Observer(Box<Observe>);

impl Default for Observer {
    fn default() -> Self {
        Self(Box::new(|_, _| ()))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Observer")
    }
}

/// A panic of a thread that has a lock leaves nothing half done: nothing that panics is called
/// between two changes.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A participant: forwards wait for it if it is running and not blocked.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    /// Guards that there are.
    running: usize,
    /// Calls that are not answered.
    blocked: usize,
}

/// A call, until its answer is taken.
#[derive(Debug)]
struct Call {
    number: u64,
    member: u64,
    session: Session,
    scoring: Scoring,
    /// What of its forwards it pays.
    part: Duration,
    /// The last forward in which it had rows.
    forward: Option<SharedForward>,
    /// Whether forwards have computed a part of it.
    continued: bool,
    /// Whether a forward with others panicked, so that it is not computed with others again.
    by_itself: bool,
    given_up: GivenUp,
    wake: Arc<Condvar>,
}

impl Call {
    fn model(&self) -> &Arc<Model> {
        self.session.model()
    }
}

#[derive(Debug, Default)]
struct State {
    numbers: u64,
    members: HashMap<u64, Member>,
    /// Calls that no forward is computing, the oldest first.
    waiting: Vec<Call>,
    answered: HashMap<u64, (Call, Result<Scores>)>,
    /// Whether a thread is computing a forward.
    computing: bool,
    /// The model of the last forward.
    last: Weak<Model>,
    counts: BatchCounts,
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Whether the next forward can start.
    fn is_ready(&self) -> bool {
        let awaited = |member: &Member| member.running > member.blocked;
        !self.computing && !self.waiting.is_empty() && !self.members.values().any(awaited)
    }

    /// Lets a thread that waits compute the next forward, if it can start.
    fn wake_one_if_ready(&self) {
        if self.is_ready() {
            self.waiting[0].wake.notify_one();
        }
    }

    /// The model whose calls are computed next: the one that reads the fewest weights. One of whose
    /// calls all are long prompts, of which it has just computed a part, lets others go first.
    fn next_model(&self) -> Option<Arc<Model>> {
        let just_ran = |model: &Arc<Model>| self.last.as_ptr() == Arc::as_ptr(model);
        let only_prompts = |model: &Arc<Model>| {
            let mut own = self
                .waiting
                .iter()
                .filter(|call| Arc::ptr_eq(call.model(), model));
            own.all(|call| call.continued)
        };
        let models = self.waiting.iter().map(Call::model);
        let next = models.min_by_key(|model| {
            let waits = just_ran(model) && only_prompts(model);
            (waits, model.bytes_per_forward(1))
        });
        next.cloned()
    }

    /// Takes the calls of the next forward out of those that wait, and says whether others do.
    fn begin(&mut self) -> (Vec<Call>, Company) {
        let calls: Vec<Call> = match self.waiting.iter().position(|call| call.by_itself) {
            Some(place) => vec![self.waiting.remove(place)],
            None => {
                let model = self.next_model();
                let is_next = |call: &mut Call| {
                    let model = model.as_ref();
                    model.is_some_and(|model| Arc::ptr_eq(call.model(), model))
                };
                self.waiting.extract_if(.., is_next).collect()
            }
        };
        let model = calls.first().map(Call::model);
        self.last = model.map(Arc::downgrade).unwrap_or_default();
        self.computing = true;
        let company = if self.waiting.is_empty() {
            Company::Alone
        } else {
            Company::OthersWait
        };
        (calls, company)
    }

    /// Hands out the answers of a forward. Calls without one wait on.
    fn end(&mut self, calls: Vec<Call>, answers: Vec<Option<Result<Scores>>>) {
        self.computing = false;
        self.counts.forwards += 1;
        for (mut call, answer) in calls.into_iter().zip(answers) {
            let Some(answer) = answer else {
                call.continued = true;
                self.waiting.push(call);
                continue;
            };
            self.counts.calls += 1;
            let rows = answer.as_ref().map_or(0, |scores| scores.rows_computed);
            self.counts.rows += rows as u64;
            self.answer(call, answer);
        }
        self.waiting.sort_by_key(|call| call.number);
        self.wake_one_if_ready();
    }

    fn answer(&mut self, call: Call, answer: Result<Scores>) {
        let member = self.members.entry(call.member);
        member.and_modify(|member| member.blocked -= 1);
        call.wake.notify_one();
        self.answered.insert(call.number, (call, answer));
    }

    /// Answers the calls that nobody waits for with an error. Whether there were any: then their
    /// participants are awaited.
    fn give_up(&mut self) -> bool {
        let given_up = |call: &mut Call| call.given_up.is_true();
        let calls: Vec<_> = self.waiting.extract_if(.., given_up).collect();
        let any = !calls.is_empty();
        for call in calls {
            self.answer(call, Err(Error::GivenUp));
        }
        self.wake_one_if_ready();
        any
    }

    /// Ends a forward that panicked. Sessions begin anew, because it may have left them half done;
    /// of several calls nobody knows whose rows it was, so each is computed by itself.
    fn fail(&mut self, mut calls: Vec<Call>) {
        self.counts.panics += 1;
        let alone = calls.len() == 1;
        for call in &mut calls {
            call.session.forget();
            call.scoring.restart();
            call.by_itself = true;
        }
        let failed = |_: &Call| alone.then(|| Err(Error::backend(ForwardPanicked)));
        let answers = calls.iter().map(failed).collect();
        self.end(calls, answers);
    }
}

/// Lets the calls of a forward pay for it, by the rows that each had in it.
fn charge(calls: &mut [Call], forward: &Forward, shared: SharedForward) {
    let Some(model) = calls.first().map(Call::model) else {
        return;
    };
    let parts = divide(model.forward_times(), shared.time, &forward.rows);
    for ((call, part), &rows) in calls.iter_mut().zip(parts).zip(&forward.rows) {
        call.part += part;
        call.forward = Some(shared).filter(|_| rows > 0).or(call.forward);
    }
}

impl SharedBatcher {
    fn lock(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Computes the next forward, without the lock.
    fn compute<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if state.give_up() {
            return state;
        }
        let (mut calls, company) = state.begin();
        drop(state);
        let computed = catch_unwind(AssertUnwindSafe(|| self.forward(&mut calls, company)));
        let mut state = self.lock();
        match computed {
            Ok((forward, shared)) => {
                charge(&mut calls, &forward, shared);
                state.end(calls, forward.answers);
            }
            // The panic's own message has been printed.
            Err(_) => state.fail(calls),
        }
        state
    }

    /// The forward, and what is known of it.
    fn forward(&self, calls: &mut [Call], company: Company) -> (Forward, SharedForward) {
        let begun = Instant::now();
        let together = calls
            .iter_mut()
            .map(|call| (&mut call.session, &mut call.scoring));
        let forward = forward(together.collect(), company, self.pieces);
        let shared = SharedForward {
            texts: forward.rows.iter().filter(|&&rows| rows > 0).count(),
            rows: forward.rows.iter().sum(),
            time: begun.elapsed(),
            reads_prompt: forward.reads_prompt,
        };
        if let Some(call) = calls.first() {
            (self.observer.0)(call.model(), &shared);
        }
        (forward, shared)
    }
}

/// Why a call fails whose forward panics, whoever's thread computed it.
#[derive(Debug, thiserror::Error)]
#[error("the forward that computed this call panicked; see the message of the panic")]
struct ForwardPanicked;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::{LoadOptions, random_model};

    fn model() -> Arc<Model> {
        let config = json!({
            "model_type": "llama", "hidden_size": 32, "intermediate_size": 32,
            "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1,
            "vocab_size": 40,
        });
        random_model(config, &LoadOptions::default()).unwrap()
    }

    fn score(session: &mut impl Scorer, context: &[TokenId]) -> Result<Scores> {
        session.score(context, &TokenTree::new(), Want::LOGITS)
    }

    /// A text that asks twice for the scores of a context.
    fn asking(
        running: TakesPart,
        model: &Arc<Model>,
        context: &'static [TokenId],
    ) -> mpsc::Receiver<Result<Scores>> {
        let mut session = running.participant().session(model);
        let (send, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let _running = running;
            for _ in 0..2 {
                send.send(score(&mut session, context)).unwrap();
            }
        });
        answers
    }

    /// Lets the forward panic that so many calls wait for.
    fn panicked(batcher: &Batcher, calls: usize) {
        loop {
            let mut state = batcher.shared.lock();
            if state.waiting.len() == calls {
                let (calls, _) = state.begin();
                return state.fail(calls);
            }
            drop(state);
            std::thread::yield_now();
        }
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_call_whose_forward_panics_fails_and_its_session_goes_on() {
        let (model, batcher) = (model(), Batcher::default());
        let [first, second] = [batcher.join().running(), batcher.join().running()];
        let answers = asking(first, &model, &[1, 2]);
        panicked(&batcher, 1);
        let failed = answers.recv_timeout(PATIENCE).unwrap();
        let message = failed.unwrap_err().to_string();
        assert!(message.contains("panicked"), "{message}");
        drop(second);
        let answer = answers.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!(answer, score(&mut model.session(), &[1, 2]).unwrap());
    }

    /// Whoever was in the forward of another that panics is answered.
    #[test]
    fn calls_of_a_forward_that_panics_are_computed_one_by_one() {
        let (model, batcher) = (model(), Batcher::default());
        let holding = batcher.join().running();
        let contexts: [&[TokenId]; 3] = [&[1, 2], &[3; 70], &[4, 5, 6]];
        let texts = contexts
            .map(|context| (context, batcher.join().running()))
            .map(|(context, running)| (context, asking(running, &model, context)));
        panicked(&batcher, 3);
        // The oldest of them panics by itself, too; which one that is depends on the threads.
        panicked(&batcher, 3);
        drop(holding);
        let mut failed = 0;
        for (context, answers) in texts {
            let alone = score(&mut model.session(), context).unwrap();
            match answers.recv_timeout(PATIENCE).unwrap() {
                Ok(scores) => assert_eq!(scores, alone),
                Err(_) => failed += 1,
            }
            let next = answers.recv_timeout(PATIENCE).unwrap().unwrap();
            assert_eq!(next.logits, alone.logits);
        }
        assert_eq!(failed, 1);
    }

    /// Asked before each forward, and what was read up to there is kept.
    #[test]
    fn a_call_is_given_up_before_its_next_piece() {
        let model = model();
        let forwards = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&forwards);
        let batcher = Batcher::of_streams(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let text = batcher.join();
        let asked = Arc::clone(&forwards);
        text.give_up_when(Some(Arc::new(move || asked.load(Ordering::Relaxed) == 2)));
        let mut session = text.session(&model);
        let context = [3; 400];
        let answer = score(&mut session, &context);
        assert!(matches!(answer, Err(Error::GivenUp)), "{answer:?}");
        assert_eq!(forwards.load(Ordering::Relaxed), 2);
        text.give_up_when(None);
        let scores = score(&mut session, &context).unwrap();
        let alone = score(&mut model.session(), &context).unwrap();
        assert_eq!(scores.logits, alone.logits);
        assert!(scores.rows_computed < 400, "{}", scores.rows_computed);
    }

    #[test]
    fn others_go_on_beside_a_call_that_is_given_up() {
        let (model, batcher) = (model(), Batcher::default());
        let [gone, staying] = [batcher.join().running(), batcher.join().running()];
        gone.participant().give_up_when(Some(Arc::new(|| true)));
        let gone = asking(gone, &model, &[3; 200]);
        let staying = asking(staying, &model, &[1, 2]);
        let alone = score(&mut model.session(), &[1, 2]).unwrap();
        for _ in 0..2 {
            let answer = gone.recv_timeout(PATIENCE).unwrap();
            assert!(matches!(answer, Err(Error::GivenUp)));
            let answer = staying.recv_timeout(PATIENCE).unwrap().unwrap();
            assert_eq!(answer.logits, alone.logits);
        }
    }

    /// What texts pay adds up to the forwards, however long each of them waited.
    #[test]
    fn calls_take_their_part_of_forwards_and_no_more() {
        let model = model();
        let spent = Arc::new(Mutex::new(Duration::ZERO));
        let adding = Arc::clone(&spent);
        let batcher = Batcher::with_observer(move |_, forward| {
            *adding.lock().unwrap() += forward.time;
        });
        let holding = batcher.join().running();
        let contexts: [&[TokenId]; 3] = [&[1, 2], &[3; 200], &[4, 5, 6]];
        let texts = contexts
            .map(|context| (batcher.join().running(), context))
            .map(|(running, context)| {
                let model = Arc::clone(&model);
                std::thread::spawn(move || {
                    let text = running.participant().clone();
                    let mut session = text.session(&model);
                    let begun = Instant::now();
                    score(&mut session, context).unwrap();
                    let passed = begun.elapsed();
                    (passed - text.unpaid(), passed)
                })
            });
        while batcher.shared.lock().waiting.len() < 3 {
            std::thread::yield_now();
        }
        let wait = Duration::from_millis(200);
        std::thread::sleep(wait);
        drop(holding);
        let texts = texts.map(|text| text.join().unwrap());
        let [short, long, _] = texts.map(|(paid, _)| paid);
        assert!(short < long, "{short:?} for 2 rows and {long:?} for 200");
        let paid: Duration = texts.iter().map(|(paid, _)| *paid).sum();
        let spent = *spent.lock().unwrap();
        let rounded = paid + Duration::from_micros(1);
        assert!(rounded >= spent, "{paid:?} of {spent:?}");
        for (paid, passed) in texts {
            assert!(
                passed >= wait && paid <= passed - wait,
                "{paid:?} of {passed:?}"
            );
        }
    }

    #[test]
    fn forwards_are_shown() {
        let model = model();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&seen);
        let batcher = Batcher::with_observer(move |_, forward| {
            let seen = (forward.texts, forward.rows);
            shown.lock().unwrap().push(seen);
        });
        let holding = batcher.join().running();
        let contexts: [&[TokenId]; 2] = [&[1, 2], &[3; 70]];
        let texts = contexts
            .map(|context| (batcher.join().running(), context))
            .map(|(running, context)| asking(running, &model, context));
        while batcher.shared.lock().waiting.len() < 2 {
            std::thread::yield_now();
        }
        drop(holding);
        for answers in texts {
            assert_eq!(answers.into_iter().flatten().count(), 2);
        }
        let seen = seen.lock().unwrap();
        assert_eq!(
            seen[0],
            (2, 2 + 64),
            "a piece of the prompt beside the other text"
        );
        let rows: usize = seen.iter().map(|(_, rows)| rows).sum();
        // The last token of a context is computed again.
        assert_eq!(rows, (2 + 1) + (70 + 1));
    }
    /// What comes after a forward may panic, too, when its answers are there: the call is computed
    /// again with all of its nodes.
    #[test]
    fn a_tree_outlives_a_panic_behind_its_forward() {
        let panics = std::sync::atomic::AtomicBool::new(true);
        let batcher = Batcher::with_observer(move |_, _| {
            assert!(!panics.swap(false, Ordering::Relaxed), "on purpose");
        });
        let model = model();
        let holding = batcher.join().running();
        let texts = [&[4, 5, 6][..], &[]].map(|draft| {
            let (running, model) = (batcher.join().running(), Arc::clone(&model));
            std::thread::spawn(move || {
                let tree = TokenTree::chain(draft.to_vec());
                let score =
                    |session: &mut dyn Scorer| session.score(&[1, 2, 3], &tree, Want::LOGITS);
                let found = score(&mut running.participant().session(&model)).unwrap();
                assert_eq!(found.logits, score(&mut model.session()).unwrap().logits);
            })
        });
        while batcher.shared.lock().waiting.len() < texts.len() {
            std::thread::yield_now();
        }
        drop(holding);
        texts.into_iter().for_each(|text| text.join().unwrap());
        assert_eq!(batcher.shared.lock().counts.panics, 1);
    }
}
