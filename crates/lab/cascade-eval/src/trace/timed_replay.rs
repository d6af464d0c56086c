//! A recorded target that takes a live model's time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cascade_core::{Architecture, Result, Scorer, Scores, TokenId, TokenTree, Want};

use super::{Error, TraceScorer};

/// How long the forwards of a [`TimedReplayScorer`], which a cascade owns, looked for the recorded
/// answer: time that a live target would not spend. Clones share the entries.
#[derive(Clone, Debug, Default)]
pub struct LookupLog(Arc<Mutex<Vec<Duration>>>);

impl LookupLog {
    /// The entries so far, one for each forward, which are forgotten.
    pub(super) fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut self.entries())
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a live model compute every forward, and answers what the target of a trace said: so
/// forwards cost what they cost, and drafts are kept as in the recording, whatever the weights of
/// the live model. What it is good for is simulation.
///
/// Its vocabulary is the recorded one. It has as many positions as both have.
///
/// # Errors of `score`
/// Those of the live model and of a [`TraceScorer`].
#[derive(Debug)]
pub struct TimedReplayScorer<S> {
    live: S,
    recorded: TraceScorer,
    log: LookupLog,
}

impl<S: Scorer> TimedReplayScorer<S> {
    /// Answers of `recorded` in the time of `live`, whose look-ups are booked in `log`.
    ///
    /// # Errors
    /// [`Error::CannotTime`] if `live` reads its prompt in another way, or has fewer tokens than
    /// were recorded.
    pub fn new(live: S, recorded: TraceScorer, log: LookupLog) -> super::Result<Self> {
        let cannot = |reason: String| Err(Error::CannotTime { reason });
        let name = |architecture| match architecture {
            Architecture::EncoderDecoder => "an encoder-decoder model",
            Architecture::DecoderOnly => "a decoder-only model",
        };
        let (found, needed) = (live.architecture(), recorded.architecture());
        if found != needed {
            return cannot(format!("it is {}, not {}", name(found), name(needed)));
        }
        let (found, needed) = (live.vocab_size(), recorded.vocab_size());
        if found < needed {
            return cannot(format!("it has {found} tokens, not {needed}"));
        }
        Ok(Self {
            live,
            recorded,
            log,
        })
    }
}

impl<S: Scorer> Scorer for TimedReplayScorer<S> {
    fn architecture(&self) -> Architecture {
        self.recorded.architecture()
    }

    fn vocab_size(&self) -> usize {
        self.recorded.vocab_size()
    }

    fn max_context(&self) -> Option<usize> {
        let limits = [self.live.max_context(), self.recorded.max_context()];
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
