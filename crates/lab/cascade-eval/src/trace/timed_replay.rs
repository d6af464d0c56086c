//! A recorded target with the timing of a live model.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cascade_core::{Architecture, Result, Scorer, Scores, TokenId, TokenTree, Want};

use super::{Error, TraceScorer};

/// How long the forwards of a [`TimedReplayScorer`] spent looking up the recorded output: time that
/// a live target would not spend. The cascade owns the scorer, so the log is a handle; clones share
/// the entries.
#[derive(Clone, Debug, Default)]
pub struct LookupLog(Arc<Mutex<Vec<Duration>>>);

impl LookupLog {
    /// Removes and returns the entries so far, one per forward.
    pub(super) fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut self.entries())
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a live model compute every forward, but returns the output of a trace's target: so forwards
/// take realistic time, and drafts are accepted as in the recording, whatever the weights of the
/// live model. Intended for simulations.
///
/// Its number of rows is the smaller one of the two, and so is its number of positions.
///
/// # Errors of `score`
/// Errors of the live model and of a [`TraceScorer`].
#[derive(Debug)]
pub struct TimedReplayScorer<S> {
    live: S,
    recorded: TraceScorer,
    log: LookupLog,
}

impl<S: Scorer> TimedReplayScorer<S> {
    /// Returns the output of `recorded` with the timing of `live`. Look-up times are recorded in
    /// `log`.
    ///
    /// # Errors
    /// [`Error::CannotTime`] if `live` has another architecture than the recorded target, or no row
    /// for a recorded token.
    pub fn new(live: S, recorded: TraceScorer, log: LookupLog) -> super::Result<Self> {
        check_can_time(&live, &recorded)?;
        Ok(Self {
            live,
            recorded,
            log,
        })
    }
}

/// Whether a model's forwards can stand for those of a recording's models.
pub(super) fn check_can_time(live: &impl Scorer, recorded: &TraceScorer) -> super::Result<()> {
    let cannot = |reason: String| Err(Error::CannotTime { reason });
    let (found, needed) = (live.architecture(), recorded.architecture());
    if found != needed {
        return cannot(format!("it is {found}, not {needed}"));
    }
    let (rows, greatest) = (live.vocab_size(), recorded.greatest_token() as usize);
    if rows <= greatest {
        return cannot(format!(
            "it has {rows} tokens, and token {greatest} was recorded"
        ));
    }
    Ok(())
}

impl<S: Scorer> Scorer for TimedReplayScorer<S> {
    fn architecture(&self) -> Architecture {
        self.recorded.architecture()
    }

    fn vocab_size(&self) -> usize {
        self.recorded.vocab_size().min(self.live.vocab_size())
    }

    fn max_context(&self) -> Option<usize> {
        let limits = [self.live.max_context(), self.recorded.max_context()];
        limits.into_iter().flatten().min()
    }

    fn max_nodes(&self) -> Option<usize> {
        let limits = [self.live.max_nodes(), self.recorded.max_nodes()];
        limits.into_iter().flatten().min()
    }

    fn max_top(&self) -> Option<usize> {
        let limits = [self.live.max_top(), self.recorded.max_top()];
        limits.into_iter().flatten().min()
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.live.set_source(source)?;
        self.recorded.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let computed = self.live.score(context, tree, want)?;
        let started = Instant::now();
        let recorded = self.recorded.score(context, tree, want)?;
        self.log.entries().push(started.elapsed());
        Ok(recorded.with_rows_computed(computed.rows_computed))
    }
}
