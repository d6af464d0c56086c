//! From a request that has been read to its answer.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use cascade_core::Prompt;
use cascade_engine::Finish;
use serde_json::{json, Value};

use super::logprobs::Logprobs;
use super::request::Asked;
use super::usage::Usage;
use super::{stream, App};
use crate::answer::{channel, AnswerReceiver, Done, Event};
use crate::error::{json_response, ApiError, ApiResult};
use crate::fields::Fields;
use crate::scheduler::{finish_reason, Job, Refusal};

/// Which interface a response is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Completion,
    Chat,
}

/// A prompt of a request.
pub(crate) struct Question {
    pub(crate) prompt: Prompt,
    /// What precedes the answer in the response.
    pub(crate) echo: Option<String>,
    /// The prompt as text.
    pub(crate) text: String,
}

/// A request that can be answered.
pub(crate) struct Asking {
    pub(crate) form: Form,
    pub(crate) asked: Asked,
    pub(crate) questions: Vec<Question>,
    pub(crate) head: Head,
}

/// What every part of a response begins with.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) id: Arc<str>,
    created: u64,
    model: String,
}

impl Asking {
    /// Checks that prompts and answers fit into the context.
    pub(crate) fn new(
        app: &App,
        form: Form,
        mut asked: Asked,
        questions: Vec<Question>,
    ) -> ApiResult<Self> {
        let limit = app.max_context();
        let mut room = usize::MAX;
        for question in &questions {
            let Prompt { source, context } = &question.prompt;
            let length = source.len().max(context.len());
            let needed = context.len() + asked.max_tokens.unwrap_or(0).min(limit + 1);
            if length > limit || needed > limit {
                return Err(too_long(length, asked.max_tokens, limit));
            }
            room = room.min(limit - context.len());
        }
        let length = asked
            .max_tokens
            .unwrap_or(asked.options.max_new_tokens)
            .min(room);
        asked.options = asked.options.with_max_new_tokens(length);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let kind = match form {
            Form::Completion => "cmpl",
            Form::Chat => "chatcmpl",
        };
        Ok(Self {
            form,
            head: Head {
                id: format!(
                    "{kind}-{:016x}{:016x}",
                    rand::random::<u64>(),
                    rand::random::<u64>()
                )
                .into(),
                created: since.map_or(0, |since| since.as_secs()),
                model: app.name.clone(),
            },
            asked,
            questions,
        })
    }

    /// What the answers took, when none has come yet.
    pub(crate) fn usage(&self) -> Usage {
        let tokens = self
            .questions
            .iter()
            .map(|question| question.prompt.len())
            .sum();
        Usage::new(
            tokens,
            self.asked.speculation.enabled,
            self.asked.options.seed,
        )
    }

    /// The prompt that a choice answers.
    pub(crate) fn question_of(&self, choice: usize) -> &Question {
        &self.questions[choice / self.asked.choices]
    }
}

fn too_long(prompt: usize, asked: Option<usize>, limit: usize) -> ApiError {
    let answer = asked.map_or(String::new(), |asked| {
        format!(", and {asked} tokens are asked for")
    });
    ApiError::invalid(format!(
        "the prompt has {prompt} tokens{answer}: the context has room for {limit}; shorten the prompt, ask for \
         fewer tokens, or raise the server's --max-context if the model has more positions"
    ))
    .with_code("context_length_exceeded")
}

/// Works on a thread where it keeps nobody waiting.
pub(super) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(crate::answer::Failure::Lost.into()),
    }
}

/// Answers a request that `read` understands, at once or as a stream.
pub(crate) async fn answer(
    app: Arc<App>,
    request: Request,
    read: fn(&App, Fields) -> ApiResult<Asking>,
) -> ApiResult<Response<Body>> {
    let fields = app.bodies.read(request).await?;
    let reader = Arc::clone(&app);
    let asking = aside(move || read(&reader, fields)).await?;
    let deadline = Instant::now() + app.limits.answer_time;
    let receivers = submit(&app, &asking, deadline)?;
    match asking.asked.stream {
        Some(options) => Ok(stream::response(app, asking, receivers, options, deadline)),
        None => whole(&app, &asking, receivers, deadline).await,
    }
}

/// One generation for each choice of each prompt, all or none.
fn submit(app: &App, asking: &Asking, deadline: Instant) -> ApiResult<Vec<AnswerReceiver>> {
    let submitted = Instant::now();
    let (mut jobs, mut receivers) = (Vec::new(), Vec::new());
    for choice in 0..asking.questions.len() * asking.asked.choices {
        let (sender, receiver) = channel();
        let options = asking.asked.options.clone();
        let seed = options.seed.wrapping_add(choice as u64);
        jobs.push(Job {
            id: Arc::clone(&asking.head.id),
            prompt: asking.question_of(choice).prompt.clone(),
            options: options.with_seed(seed),
            plan: asking.asked.speculation.plan.clone(),
            answer: sender,
            submitted,
            deadline,
        });
        receivers.push(receiver);
    }
    let refused = |refusal| {
        app.metrics.refused();
        match refusal {
            Refusal::TooMany { most } => ApiError::invalid(format!(
                "the request asks for more answers at once than the queue ever holds, which is {most}; ask for fewer"
            )),
            Refusal::Full { seconds } => ApiError::busy(
                StatusCode::TOO_MANY_REQUESTS,
                "the queue is full; ask again after the seconds of Retry-After",
                seconds,
            )
            .with_code("rate_limit_exceeded"),
            Refusal::Stopping => ApiError::busy(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server is being stopped; ask again when it is back",
                5,
            ),
        }
    };
    app.scheduler.submit(jobs).map_err(refused)?;
    Ok(receivers)
}

/// Waits for all choices.
async fn whole(
    app: &App,
    asking: &Asking,
    receivers: Vec<AnswerReceiver>,
    deadline: Instant,
) -> ApiResult<Response<Body>> {
    let mut usage = asking.usage();
    let mut choices = Vec::new();
    for (index, mut receiver) in receivers.into_iter().enumerate() {
        let waiting = collect(&mut receiver);
        let collected = tokio::time::timeout_at(deadline.into(), waiting).await;
        let (done, logprobs) = collected.unwrap_or(Err(crate::answer::Failure::TimedOut.into()))?;
        usage.add(&done, index.is_multiple_of(asking.asked.choices));
        choices.push(choice(app, asking, index, &done, &logprobs));
    }
    let object = match asking.form {
        Form::Completion => "text_completion",
        Form::Chat => "chat.completion",
    };
    let mut response = asking.head.to_json(object);
    response["choices"] = choices.into();
    response["usage"] = usage.to_json();
    Ok(json_response(StatusCode::OK, &response))
}

async fn collect(receiver: &mut AnswerReceiver) -> ApiResult<(Box<Done>, Logprobs)> {
    let mut logprobs = Logprobs::default();
    loop {
        match receiver.next().await {
            Event::Step(report) => logprobs.add(&report),
            Event::Done(done) => return Ok((done, logprobs)),
            Event::Failed(failure) => return Err(failure.into()),
        }
    }
}

fn choice(app: &App, asking: &Asking, index: usize, done: &Done, logprobs: &Logprobs) -> Value {
    let text = done.output.text.as_deref().unwrap_or_default();
    let wanted = asking.asked.options.logprobs.is_some();
    let mut shown = json!({
        "index": index,
        "logprobs": null,
        "finish_reason": finish_reason(&done.output.finish),
        "stop_reason": stop_reason(&done.output.finish),
    });
    match asking.form {
        Form::Completion => {
            let echo = asking
                .question_of(index)
                .echo
                .as_deref()
                .unwrap_or_default();
            shown["text"] = format!("{echo}{text}").into();
            if wanted {
                let mut offset = echo.chars().count();
                shown["logprobs"] = logprobs.completion(&app.texts, &mut offset);
            }
        }
        Form::Chat => {
            shown["message"] = json!({"role": "assistant", "content": text, "refusal": null});
            if wanted {
                shown["logprobs"] = logprobs.chat(&app.texts);
            }
        }
    }
    shown
}

/// The stop sequence that has ended an answer.
pub(crate) fn stop_reason(finish: &Finish) -> Option<&str> {
    match finish {
        Finish::StopSequence(text) => Some(text),
        _ => None,
    }
}

impl Head {
    pub(crate) fn to_json(&self, object: &str) -> Value {
        json!({
            "id": &*self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": concat!("cascade-", env!("CARGO_PKG_VERSION")),
        })
    }
}

impl App {
    /// Logs the texts of prompts, if that was asked for.
    pub(crate) fn log_prompts(&self, questions: &[Question]) {
        if self.log_text {
            for question in questions {
                tracing::info!(prompt = ?question.text, "asked");
            }
        }
    }
}
