//! A recorded target with the timing of a live model.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cascade_core::{Result, Scorer, ScorerInfo, Scores, TokenId, TokenTree, Want};

use super::TraceScorer;
use crate::{Error, ErrorKind};

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
/// live model. Intended for simulations. Hidden states are those of the live model.
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
    /// [`ErrorKind::OtherModel`] if `live` has another architecture than the recorded target, or
    /// no row for a recorded token.
    pub fn new(live: S, recorded: TraceScorer, log: LookupLog) -> crate::Result<Self> {
        check_can_time(&live, &recorded)?;
        Ok(Self {
            live,
            recorded,
            log,
        })
    }
}

/// Whether a model's forwards can stand for those of a recording's models.
pub(super) fn check_can_time(live: &impl Scorer, recorded: &TraceScorer) -> crate::Result<()> {
    let cannot = |reason: String| {
        let message = format!(
            "the model cannot stand in for the recorded target: {reason}; use a model of the same \
             family"
        );
        Err(Error::new(ErrorKind::OtherModel, message))
    };
    let (found, needed) = (live.info().architecture, recorded.info().architecture);
    if found != needed {
        return cannot(format!("it is {found}, not {needed}"));
    }
    let (rows, greatest) = (live.info().vocab_size, recorded.greatest_token() as usize);
    if rows <= greatest {
        return cannot(format!(
            "it has {rows} tokens, and token {greatest} was recorded"
        ));
    }
    Ok(())
}

impl<S: Scorer> Scorer for TimedReplayScorer<S> {
    fn info(&self) -> ScorerInfo {
        let (recorded, live) = (self.recorded.info(), self.live.info());
        let least = |limits: [Option<usize>; 2]| limits.into_iter().flatten().min();
        recorded
            .with_vocab_size(recorded.vocab_size.min(live.vocab_size))
            .with_max_context(least([live.max_context, recorded.max_context]))
            .with_max_nodes(least([live.max_nodes, recorded.max_nodes]))
            .with_max_top(least([live.max_top, recorded.max_top]))
            .with_hidden(live.hidden)
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        self.live.set_source(source)?;
        self.recorded.set_source(source)
    }

    fn score(&mut self, context: &[TokenId], tree: &TokenTree, want: Want) -> Result<Scores> {
        let computed = self.live.score(context, tree, want)?;
        let started = Instant::now();
        let recorded = self.recorded.score(context, tree, want.without_hidden())?;
        self.log.entries().push(started.elapsed());
        let recorded = recorded.with_hidden(computed.hidden);
        Ok(recorded.with_rows_computed(computed.rows_computed))
    }
}
