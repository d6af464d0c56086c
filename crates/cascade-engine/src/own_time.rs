//! The time of one generation whose forwards are shared with others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use cascade_core::{Result, Scorer, ScorerInfo, Scores, SharedForward, TokenId, TokenTree, Want};

use crate::{Clock, SystemClock, ThreadClock};

/// A clock of a generation that shares forwards. In a call of a [counted](Self::counting) scorer it
/// moves by what the generation pays for the call, not by how long it waits; between calls by the
/// CPU time of its thread. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct OwnTime(Arc<Calls>);

/// Nanoseconds of the calls so far.
#[derive(Debug, Default)]
struct Calls {
    /// CPU time of the thread, which computes for other generations, too.
    cpu: AtomicU64,
    /// What the generation pays.
    paid: AtomicU64,
}

impl OwnTime {
    /// `scorer`, with its calls counted. `unpaid` says how much time of all calls so far other
    /// generations pay.
    pub fn counting(
        &self,
        scorer: impl Into<Box<dyn Scorer + Send>>,
        unpaid: impl Fn() -> Duration + Send + 'static,
    ) -> Box<dyn Scorer + Send> {
        Box::new(CountedScorer {
            scorer: scorer.into(),
            unpaid,
            calls: Arc::clone(&self.0),
        })
    }
}

impl Clock for OwnTime {
    fn now(&self) -> Duration {
        let of = |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.load(Relaxed));
        ThreadClock.now().saturating_sub(of(&self.0.cpu)) + of(&self.0.paid)
    }
}

/// A scorer that counts the time of its calls for [`OwnTime`].
struct CountedScorer<U> {
    scorer: Box<dyn Scorer + Send>,
    unpaid: U,
    calls: Arc<Calls>,
}

impl<U: Fn() -> Duration> Scorer for CountedScorer<U> {
    fn info(&self) -> ScorerInfo {
        self.scorer.info()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.scorer.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let paid = || SystemClock.now().saturating_sub((self.unpaid)());
        let (cpu, before) = (ThreadClock.now(), paid());
        let scores = self.scorer.score(context, tree, want);
        let add = |to: &AtomicU64, time: Duration| to.fetch_add(time.as_nanos() as u64, Relaxed);
        add(&self.calls.paid, paid().saturating_sub(before));
        add(&self.calls.cpu, ThreadClock.now().saturating_sub(cpu));
        scores
    }

    fn texts(&self) -> usize {
        self.scorer.texts()
    }

    fn cached(&mut self, context: &[TokenId]) -> usize {
        self.scorer.cached(context)
    }

    fn shared_forward(&self) -> Option<SharedForward> {
        self.scorer.shared_forward()
    }
}
