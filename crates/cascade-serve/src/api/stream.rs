//! Answers as server-sent events, a chunk for each step.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::Response;
use axum::response::IntoResponse;
use cascade_engine::{StepReport, TextPiece, TokenLogprobs};
use futures_util::FutureExt;
use futures_util::stream::{self, SelectAll, Stream, StreamExt};
use serde_json::{Value, json};

use super::App;
use super::generate::{Asking, Form, stop_reason};
use super::logprobs::{Logprobs, Offset};
use super::request::StreamOptions;
use super::usage::Usage;
use crate::answer::{AnswerReceiver, Done, Event, Failure, finish_reason};
use crate::error::ApiError;
use crate::faults::Stage;

/// While nothing comes, comments tell proxies and clients that the connection lives.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

pub(super) type Events = Pin<Box<dyn Stream<Item = (usize, Event)> + Send>>;

struct Chunks {
    app: Arc<App>,
    asking: Asking,
    options: StreamOptions,
    events: SelectAll<Events>,
    choices: Vec<Choice>,
    usage: Usage,
    deadline: Instant,
    ready: VecDeque<Bytes>,
    /// Whether the first chunk is made.
    begun: bool,
    ended: bool,
}

/// How far a choice has come.
#[derive(Clone, Default)]
struct Choice {
    /// Bytes of text that were sent.
    sent: usize,
    /// The offset of the next token, for log probabilities.
    offset: Offset,
    steps: usize,
    tokens: usize,
}

/// A response whose body follows the answers.
pub(crate) fn response(
    app: Arc<App>,
    asking: Asking,
    receivers: Vec<AnswerReceiver>,
    options: StreamOptions,
    deadline: Instant,
) -> Response<Body> {
    let mut chunks = Chunks {
        usage: asking.usage(),
        choices: vec![Choice::default(); receivers.len()],
        events: events(receivers),
        app,
        asking,
        options,
        deadline,
        ready: VecDeque::new(),
        begun: false,
        ended: false,
    };
    chunks.begin();
    let body = stream::unfold(chunks, |mut chunks| async move {
        let next = AssertUnwindSafe(chunks.next()).catch_unwind().await;
        let next = next.unwrap_or_else(|_| chunks.panicked());
        next.map(|bytes| (Ok::<_, Infallible>(bytes), chunks))
    });
    let headers = [
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        // Proxies such as nginx would gather chunks otherwise.
        ("x-accel-buffering", "no"),
    ];
    (headers, Body::from_stream(body)).into_response()
}

/// The events of all choices as they come.
pub(super) fn events(receivers: Vec<AnswerReceiver>) -> SelectAll<Events> {
    receivers.into_iter().enumerate().map(events_of).collect()
}

/// The events of a choice, up to its end.
fn events_of((index, receiver): (usize, AnswerReceiver)) -> Events {
    Box::pin(stream::unfold(Some(receiver), move |receiver| async move {
        let mut receiver = receiver?;
        let event = receiver.next().await;
        let goes_on = matches!(event, Event::Step(_) | Event::Prompt(_));
        Some(((index, event), goes_on.then_some(receiver)))
    }))
}

impl Chunks {
    /// What comes before all steps: the role, and the prompt where it is echoed.
    fn begin(&mut self) {
        for index in 0..self.choices.len() {
            match self.asking.form {
                Form::Chat => {
                    let delta = json!({"role": "assistant", "content": "", "refusal": null});
                    self.send_choice(json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null}), None);
                }
                Form::Completion => {
                    // With log probabilities it is sent when they are known.
                    if self.asking.asked.options.logprobs.is_none() {
                        self.echo(index, Value::Null);
                    }
                }
            }
        }
    }

    /// The prompt, where it is echoed.
    fn echo(&mut self, index: usize, logprobs: Value) {
        if let Some(echo) = self.asking.question_of(index).echo.clone() {
            self.choices[index].offset = Offset::after(&echo);
            let choice = self.choice(index, &echo, logprobs, Value::Null);
            self.send_choice(choice, None);
        }
    }

    fn prompt(&mut self, index: usize, found: Vec<TokenLogprobs>) {
        let mut logprobs = Logprobs::default();
        logprobs.add_prompt(&self.asking.question_of(index).prompt.context, found);
        let shown = logprobs.completion(&self.app.texts, &mut Offset::default());
        self.echo(index, shown);
    }

    /// The next chunk; nothing after the last one.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(chunk);
            }
            if self.ended {
                return None;
            }
            let until = self.deadline.min(Instant::now() + SIGN_OF_LIFE);
            match tokio::time::timeout_at(until.into(), self.events.next()).await {
                Ok(Some((index, event))) => self.take(index, event),
                Ok(None) => self.finish(),
                Err(_) if Instant::now() >= self.deadline => self.fail(Failure::TimedOut),
                Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }

    /// Ends a stream of which a chunk could not be made.
    fn panicked(&mut self) -> Option<Bytes> {
        self.app.metrics.panics.inc();
        self.fail(Failure::Lost);
        self.ready.pop_front()
    }

    fn take(&mut self, index: usize, event: Event) {
        self.app.faults.at(Stage::Writing);
        match event {
            Event::Prompt(found) => self.prompt(index, found),
            Event::Step(report) => self.step(index, &report),
            Event::Done(done) => self.done(index, &done),
            Event::Failed(failure) => self.fail(failure),
        }
    }

    fn step(&mut self, index: usize, report: &StepReport) {
        let text = report.text();
        let logprobs = self.logprobs(index, report);
        self.choices[index].sent += text.len();
        self.choices[index].steps += 1;
        self.choices[index].tokens += report.tokens.len();
        let drafts = self
            .options
            .include_drafts
            .then(|| self.drafts(index, report));
        // A step whose text is held back may have nothing to say.
        let ids = self.asking.asked.token_ids;
        if text.is_empty() && logprobs.is_null() && drafts.is_none() && !ids {
            return;
        }
        let mut choice = self.choice(index, &text, logprobs, Value::Null);
        let first = self.choices[index].steps == 1;
        self.asking
            .add_ids(&mut choice, index, &report.tokens, first);
        self.send_choice(choice, drafts);
    }

    fn logprobs(&mut self, index: usize, report: &StepReport) -> Value {
        let mut logprobs = Logprobs::default();
        logprobs.add(report);
        if logprobs.is_empty() {
            return Value::Null;
        }
        let offset = &mut self.choices[index].offset;
        self.asking
            .form
            .logprobs(&logprobs, &self.app.texts, offset)
    }

    /// Our own extension: who drafted what in a step, and what was kept.
    fn drafts(&self, index: usize, report: &StepReport) -> Value {
        let texts = &self.app.texts;
        let piece = |piece: &TextPiece| json!({"text": piece.text, "level": piece.proposer.0});
        let nodes = report.draft.iter().map(|node| {
            json!({
                "token": texts.of(node.token).text,
                "parent": node.parent,
                "level": node.proposer.0,
                "accepted": node.accepted,
            })
        });
        let emitted = report
            .tokens
            .iter()
            .zip(&report.proposers)
            .map(|(&token, level)| json!({"token": texts.of(token).text, "level": level.0}));
        let levels = report.levels.iter().map(|level| {
            json!({
                "drafted": level.drafted,
                "accepted": level.accepted,
                "calls": level.usage.calls,
                "seconds": level.usage.time.as_secs_f64(),
            })
        });
        json!({
            "step": self.choices[index].steps,
            "pieces": report.text.iter().map(piece).collect::<Vec<_>>(),
            "tokens": emitted.collect::<Vec<_>>(),
            "draft": nodes.collect::<Vec<_>>(),
            "levels": levels.collect::<Vec<_>>(),
            "seconds": report.timings.total().as_secs_f64(),
        })
    }

    fn done(&mut self, index: usize, done: &Done) {
        self.usage
            .add(done, index.is_multiple_of(self.asking.asked.choices));
        let text = done.output.text.as_deref().unwrap_or_default();
        // What was held back to the end without a step.
        let rest = text
            .get(self.choices[index].sent..)
            .unwrap_or_default()
            .to_owned();
        let finish = &done.output.finish;
        let mut choice = self.choice(index, &rest, Value::Null, finish_reason(finish).into());
        choice["stop_reason"] = stop_reason(finish);
        let first = self.choices[index].steps == 0;
        self.asking.add_ids(&mut choice, index, &[], first);
        self.send_choice(choice, None);
    }

    /// Ends the stream, after the last event of the last choice.
    fn finish(&mut self) {
        self.ended = true;
        if self.options.include_usage {
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = self.usage.to_json();
            self.send(&chunk);
        }
        self.ready
            .push_back(Bytes::from_static(b"data: [DONE]\n\n"));
    }

    /// Ends the stream with an error. There is no `[DONE]`: the answer is not.
    fn fail(&mut self, failure: Failure) {
        self.ended = true;
        self.send(&ApiError::from(failure).to_json());
    }

    fn choice(&self, index: usize, text: &str, logprobs: Value, finish: Value) -> Value {
        let mut choice = json!({"index": index, "logprobs": logprobs, "finish_reason": finish});
        match self.asking.form {
            Form::Completion => choice["text"] = text.into(),
            Form::Chat if text.is_empty() => choice["delta"] = json!({}),
            Form::Chat => choice["delta"] = json!({"content": text}),
        }
        choice
    }

    fn chunk(&mut self, choices: Value) -> Value {
        let object = match self.asking.form {
            Form::Completion => "text_completion",
            Form::Chat => "chat.completion.chunk",
        };
        let mut chunk = self.asking.head(object, !self.begun);
        self.begun = true;
        chunk["choices"] = choices;
        if self.options.continuous_usage {
            let tokens = self.choices.iter().map(|choice| choice.tokens).sum();
            chunk["usage"] = self.usage.so_far(tokens);
        } else if self.options.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn send_choice(&mut self, choice: Value, drafts: Option<Value>) {
        let mut chunk = self.chunk(json!([choice]));
        if let Some(drafts) = drafts {
            chunk["cascade"] = drafts;
        }
        self.send(&chunk);
    }

    fn send(&mut self, value: &Value) {
        self.ready
            .push_back(Bytes::from(format!("data: {value}\n\n")));
    }
}
