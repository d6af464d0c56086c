//! A recorded target that takes a live model's time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cascade_core::{Architecture, Result, Scorer, Scores, TokenId, TokenTree, Want};

use super::{Error, TraceScorer};

/// One forward of a [`PacedScorer`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// When it was asked.
    pub(super) entered: Instant,
    /// What the live model took.
    pub(super) forward: Duration,
    /// When it answered.
    pub(super) left: Instant,
}

/// The forwards of a [`PacedScorer`], which a cascade owns, for those who measure it. Clones share the entries.
#[derive(Clone, Debug, Default)]
pub struct CallLog(Arc<Mutex<Vec<Call>>>);

impl CallLog {
    /// The entries so far, which are forgotten.
    pub(super) fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls())
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a live model compute every forward, and answers what the target of a trace said: so forwards cost what they cost, and
/// drafts are kept as in the recording, whatever the weights of the live model. What it is good for is simulation.
///
/// Its vocabulary is the recorded one. It has as many positions as both have.
///
/// # Errors of `score`
/// Those of the live model and of a [`TraceScorer`].
#[derive(Debug)]
pub struct PacedScorer<S> {
    live: S,
    recorded: TraceScorer,
    log: CallLog,
}

impl<S: Scorer> PacedScorer<S> {
    /// Answers of `recorded` in the time of `live`, whose forwards are booked in `log`.
    ///
    /// # Errors
    /// [`Error::CannotPace`] if `live` reads its prompt in another way, or has fewer tokens than were recorded.
    pub fn new(live: S, recorded: TraceScorer, log: CallLog) -> super::Result<Self> {
        let cannot = |reason: String| Err(Error::CannotPace { reason });
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

impl<S: Scorer> Scorer for PacedScorer<S> {
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
        let entered = Instant::now();
        let computed = self.live.score(context, tree, want)?;
        let forward = entered.elapsed();
        let recorded = self.recorded.score(context, tree, want)?;
        self.log.calls().push(Call {
            entered,
            forward,
            left: Instant::now(),
        });
        Ok(Scores {
            rows_computed: computed.rows_computed,
            ..recorded
        })
    }
}
