//! The way of an answer from the thread that takes its steps to the client's handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cascade_engine::{Finish, GenerationOutput, StepReport, TokenLogprobs};
use tokio::sync::mpsc;

/// Something that happened to an answer.
#[derive(Debug)]
pub(crate) enum Event {
    /// The log probabilities of the prompt's tokens but the first, before all steps.
    Prompt(Vec<TokenLogprobs>),
    /// A step was taken.
    Step(Box<StepReport>),
    /// It is complete.
    Done(Box<Done>),
    /// It will not be.
    Failed(Failure),
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) output: GenerationOutput,
    /// Tokens of the prompt that were in the session's cache.
    pub(crate) cached_tokens: usize,
    /// Time in the queue.
    pub(crate) queued: Duration,
}

/// OpenAI's name for the end of an answer.
pub(crate) fn finish_reason(finish: &Finish) -> &'static str {
    match finish {
        Finish::Eos | Finish::StopSequence(_) | Finish::StopToken(_) => "stop",
        _ => "length",
    }
}

/// Why an answer will not be complete.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The models failed.
    #[error("{0}")]
    Model(String),
    /// The engine refuses what was asked of it.
    #[error("`speculation`: {0}")]
    Settings(String),
    /// The deadline has passed.
    #[error(
        "the answer took longer than it may; ask for fewer tokens, or raise the server's --timeout"
    )]
    TimedOut,
    /// The server is being stopped.
    #[error("the server is being stopped; ask again when it is back")]
    Stopping,
    /// The client does not read.
    #[error(
        "the answer was not read as fast as it was written; read it, or raise the server's --max-unread"
    )]
    Unread,
    /// A defect of the program.
    #[error("the server failed to answer; its log says more")]
    Lost,
}

/// The writing end. Never waits: what has not been read is counted instead.
pub(crate) struct AnswerSender {
    events: mpsc::UnboundedSender<(usize, Event)>,
    unread: Arc<AtomicUsize>,
    most_unread: usize,
    ended: bool,
}

/// The reading end. Dropping it cancels the answer.
pub(crate) struct AnswerReceiver {
    events: mpsc::UnboundedReceiver<(usize, Event)>,
    unread: Arc<AtomicUsize>,
}

/// Both ends of an answer, whose reader may be `most_unread` bytes behind.
pub(crate) fn channel(most_unread: usize) -> (AnswerSender, AnswerReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let unread = Arc::new(AtomicUsize::new(0));
    let sender = AnswerSender {
        events: sender,
        unread: Arc::clone(&unread),
        most_unread,
        ended: false,
    };
    let receiver = AnswerReceiver {
        events: receiver,
        unread,
    };
    (sender, receiver)
}

impl AnswerSender {
    /// Whether nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.events.is_closed()
    }

    /// What says whether nobody waits for the answer any more.
    pub(crate) fn abandonment(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let events = self.events.clone();
        move || events.is_closed()
    }

    /// Whether more has been sent and not been read than may be.
    pub(crate) fn is_behind(&self) -> bool {
        self.unread.load(Ordering::Relaxed) > self.most_unread
    }

    pub(crate) fn done(mut self, done: Done) {
        self.ended = true;
        self.send(Event::Done(Box::new(done)));
    }

    pub(crate) fn fail(mut self, failure: Failure) {
        self.ended = true;
        self.send(Event::Failed(failure));
    }

    /// Sends an event that does not end the answer.
    pub(crate) fn send(&self, event: Event) {
        let bytes = match &event {
            // It comes at once, before everything else: it is none of what piles up.
            Event::Prompt(_) => 0,
            event => event.bytes(),
        };
        self.unread.fetch_add(bytes, Ordering::Relaxed);
        // A reader that is gone needs nothing.
        let _ = self.events.send((bytes, event));
    }
}

/// However an answer is given up, its reader learns that it ends.
impl Drop for AnswerSender {
    fn drop(&mut self) {
        if !self.ended {
            self.send(Event::Failed(Failure::Lost));
        }
    }
}

impl AnswerReceiver {
    /// The next event. After the last one, waits for ever or returns a failure.
    pub(crate) async fn next(&mut self) -> Event {
        match self.events.recv().await {
            Some((bytes, event)) => {
                self.unread.fetch_sub(bytes, Ordering::Relaxed);
                event
            }
            None => Event::Failed(Failure::Lost),
        }
    }
}

impl Event {
    /// About what the event takes as text.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Step(report) => {
                let text: usize = report.text.iter().map(|piece| piece.text.len()).sum();
                let logprobs = of_logprobs(&report.logprobs);
                256 + text + 32 * report.tokens.len() + logprobs + 64 * report.draft.len()
            }
            Self::Prompt(logprobs) => 256 + of_logprobs(logprobs),
            Self::Done(_) | Self::Failed(_) => 256,
        }
    }
}

fn of_logprobs(logprobs: &[TokenLogprobs]) -> usize {
    logprobs.iter().map(|one| 64 + 64 * one.top.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    }

    #[test]
    fn what_is_read_is_no_longer_counted() {
        let (sender, mut receiver) = channel(0);
        assert!(!sender.is_behind());
        let unread = Arc::clone(&sender.unread);
        sender.fail(Failure::TimedOut);
        assert!(unread.load(Ordering::Relaxed) > 0);
        let event = runtime().block_on(receiver.next());
        assert!(matches!(event, Event::Failed(Failure::TimedOut)));
        assert_eq!(unread.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_answer_that_is_dropped_ends() {
        let (sender, mut receiver) = channel(0);
        drop(sender);
        let event = runtime().block_on(receiver.next());
        assert!(matches!(event, Event::Failed(Failure::Lost)));
        let (sender, receiver) = channel(0);
        assert!(!sender.is_abandoned());
        drop(receiver);
        assert!(sender.is_abandoned());
    }
}
