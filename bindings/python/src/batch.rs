//! Several texts at a time, whose forwards are shared.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cascade::config::ChatTemplate;
use cascade::{Batch, Cascade, ModelPool, Options, Prompt};
use pyo3::prelude::*;

use crate::error::{CascadeError, to_python};
use crate::output::Answer;

/// How soon Ctrl-C is noticed.
const SIGNALS: Duration = Duration::from_millis(50);

/// What cascades for several texts are made of, and those that there are.
pub struct Many {
    config: cascade::Config,
    chat: Option<ChatTemplate>,
    pool: ModelPool,
    batch: Mutex<Option<Batch>>,
}

impl Many {
    pub fn new(config: cascade::Config, chat: Option<ChatTemplate>, pool: ModelPool) -> Self {
        Self {
            config,
            chat,
            pool,
            batch: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Batch>> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets earlier texts.
    pub fn forget(&self) {
        *self.kept() = None;
    }

    /// The answers in the order of the prompts. Called without the interpreter's lock.
    pub fn answers(
        &self,
        items: &[(Prompt, Options)],
        texts: NonZeroUsize,
        done: &Py<PyAny>,
    ) -> PyResult<Vec<Answer>> {
        let kept = self.kept().take();
        let mut batch = match kept.filter(|batch| batch.texts() == texts.get()) {
            Some(batch) => batch,
            None => self
                .pool
                .assemble_batch(&self.config, self.chat.as_ref(), texts)
                .map_err(to_python)?,
        };
        let answers = generate(&mut batch, items, done);
        *self.kept() = Some(batch);
        answers
    }
}

/// Generates on threads of the batch, while this one takes answers and looks for signals.
fn generate(
    batch: &mut Batch,
    items: &[(Prompt, Options)],
    done: &Py<PyAny>,
) -> PyResult<Vec<Answer>> {
    let stop = &AtomicBool::new(false);
    let (send, receive) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let one = |cascade: &mut Cascade, item: &(Prompt, Options)| answer(cascade, item, stop);
            batch.for_each(items, one, |answer| {
                // Nobody receives any more if the other side has failed.
                match send.send(answer) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
        });
        let mut answers = Vec::with_capacity(items.len());
        loop {
            let taken = match receive.recv_timeout(SIGNALS) {
                Ok(Ok(answer)) => {
                    answers.push(answer);
                    Python::attach(|py| done.call1(py, (answers.len(),)).map(drop))
                }
                Ok(Err(error)) => {
                    let number = answers.len();
                    let error = to_python(error);
                    Err(CascadeError::new_err(format!("prompt {number}: {error}")))
                }
                Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals()),
                Err(RecvTimeoutError::Disconnected) => return Ok(answers),
            };
            if let Err(error) = taken {
                stop.store(true, Ordering::Relaxed);
                drop(receive);
                return Err(error);
            }
        }
    })
}

/// One answer, as far as nobody stops it.
fn answer(
    cascade: &mut Cascade,
    (prompt, options): &(Prompt, Options),
    stop: &AtomicBool,
) -> cascade::Result<Answer> {
    let mut generation = cascade.start_tokens(prompt, options)?;
    let mut logprobs = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        match generation.step()? {
            Some(report) => logprobs.extend(report.logprobs),
            None => break,
        }
    }
    Ok((generation.into_output(), logprobs))
}
