//! From a request that has been read to its answer.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Response, StatusCode};
use cascade_core::{Prompt, TokenId, seed_of};
use cascade_engine::{Finish, Options};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::logprobs::{Logprobs, Offset};
use super::request::Asked;
use super::usage::Usage;
use super::{App, Read, stream};
use crate::answer::{AnswerReceiver, Done, Event, Failure, channel, finish_reason};
use crate::budget::Held;
use crate::error::{ApiError, ApiResult, json_text};
use crate::faults::Stage;
use crate::owner::Owner;
use crate::prompt_length::too_long;
use crate::scheduler::Job;
use crate::token_text::TokenTexts;

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
    /// Whether the answer goes on with the prompt's text.
    pub(crate) continues: bool,
    /// The prompt as text.
    pub(crate) text: String,
}

/// A request that can be answered.
pub(crate) struct Asking {
    pub(crate) form: Form,
    pub(crate) asked: Asked,
    pub(crate) questions: Vec<Question>,
    /// What the response is called, in the log too.
    pub(crate) id: Arc<str>,
    created: u64,
    model: String,
    /// What the client should know of the answer.
    pub(crate) warnings: Vec<String>,
    /// Tokens of the context.
    room: usize,
}

impl Form {
    /// Log probabilities as the interface has them.
    pub(super) fn logprobs(self, own: &Logprobs, texts: &TokenTexts, offset: &mut Offset) -> Value {
        match self {
            Self::Completion => own.completion(texts, offset),
            Self::Chat => own.chat(texts),
        }
    }
}

impl Question {
    /// The ids of the prompt's tokens.
    fn ids(&self) -> Vec<TokenId> {
        [&*self.prompt.source, &*self.prompt.context].concat()
    }
}

impl Asking {
    /// Checks that prompts fit into the context, and that there are no more answers than are ever
    /// given at once.
    pub(crate) fn new(
        app: &App,
        form: Form,
        asked: Asked,
        questions: Vec<Question>,
        warnings: Vec<String>,
    ) -> ApiResult<Self> {
        let limit = app.max_context();
        let answers = questions.len() * asked.choices;
        let most = app.limits.queue + app.limits.sessions;
        if answers > most {
            return Err(ApiError::invalid(format!(
                "the request asks for more answers at once than the queue ever holds, which is {most}; ask for fewer"
            )));
        }
        for question in &questions {
            let Prompt { source, context } = &question.prompt;
            let length = source.len().max(context.len());
            if length > limit {
                return Err(too_long(&format!("{length} tokens"), limit));
            }
        }
        let kind = match form {
            Form::Completion => "cmpl",
            Form::Chat => "chatcmpl",
        };
        Ok(Self {
            form,
            id: format!("{kind}-{:032x}", rand::random::<u128>()).into(),
            created: crate::unix_seconds(),
            model: app.name.clone(),
            asked,
            questions,
            room: limit,
            warnings,
        })
    }

    /// How the answer to a question is generated: no longer than there is room for it.
    fn options(&self, question: &Question) -> Options {
        let options = self.asked.options.clone();
        let asked = self.asked.max_tokens.unwrap_or(options.max_new_tokens);
        let room = self.room.saturating_sub(question.prompt.context.len());
        options
            .with_max_new_tokens(asked.min(room))
            .with_continuation(question.continues)
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

    /// Adds the ids of tokens to a choice, if they are wanted, and to the `first` part of a text
    /// those of its prompt; of a conversation they are in the [head](Self::head).
    pub(crate) fn add_ids(&self, choice: &mut Value, index: usize, ids: &[TokenId], first: bool) {
        if self.asked.token_ids {
            choice["token_ids"] = ids.into();
            if first && self.form == Form::Completion {
                choice["prompt_token_ids"] = self.question_of(index).ids().into();
            }
        }
    }

    /// What every part of a response begins with; the first one has the warnings, if there are any.
    pub(crate) fn head(&self, object: &str, first: bool) -> Value {
        let mut head = json!({
            "id": &*self.id,
            "object": object,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": concat!("cascade-", env!("CARGO_PKG_VERSION")),
        });
        if first && !self.warnings.is_empty() {
            head["warnings"] = self.warnings.clone().into();
        }
        if first && self.asked.token_ids && self.form == Form::Chat {
            head["prompt_token_ids"] = self.question_of(0).ids().into();
        }
        head
    }
}

/// Answers a request that `read` understands, at once or as a stream.
pub(crate) async fn answer(
    app: Arc<App>,
    request: Request,
    read: Read<Asking>,
) -> ApiResult<Response<Body>> {
    let owner = request
        .extensions()
        .get::<Owner>()
        .copied()
        .unwrap_or_else(|| Owner::of(None, None, request.headers()));
    let mut asking = app.read(request, read).await?;
    let stops = asking
        .asked
        .options
        .stop
        .iter()
        .flat_map(|stops| stops.iter());
    let warnings = stops.filter_map(|stop| app.served.tokenizer.stop_warning(stop));
    asking.warnings.extend(warnings);
    app.log_warnings(&asking.warnings);
    let deadline = Instant::now() + app.limits.answer_time;
    let receivers = submit(&app, &asking, owner, deadline)?;
    match asking.asked.stream {
        Some(options) => Ok(stream::response(app, asking, receivers, options, deadline)),
        None => whole(&app, &asking, receivers, deadline).await,
    }
}

/// One generation for each choice of each prompt, all or none.
fn submit(
    app: &App,
    asking: &Asking,
    owner: Owner,
    deadline: Instant,
) -> ApiResult<Vec<AnswerReceiver>> {
    let salt = asking.asked.salt.as_deref();
    let owner = salt.map_or(owner, |salt| owner.salted(salt));
    let submitted = Instant::now();
    let most_unread = match asking.asked.stream {
        Some(_) => app.limits.unread,
        // The server reads the answer itself, and bounds what it collects.
        None => usize::MAX,
    };
    let (mut jobs, mut receivers) = (Vec::new(), Vec::new());
    for choice in 0..asking.questions.len() * asking.asked.choices {
        let (sender, receiver) = channel(most_unread);
        let question = asking.question_of(choice);
        let options = asking.options(question);
        let seed = seed_of(options.seed, choice as u64);
        jobs.push(Job {
            id: Arc::clone(&asking.id),
            prompt: question.prompt.clone(),
            prompt_logprobs: options.logprobs.filter(|_| question.echo.is_some()),
            options: options.with_seed(seed),
            settings: asking.asked.speculation.settings.clone(),
            owner,
            answer: sender,
            submitted,
            deadline,
        });
        receivers.push(receiver);
    }
    let submitted = app.scheduler.submit(jobs);
    submitted.inspect_err(|_| {
        app.metrics.refused.inc();
    })?;
    Ok(receivers)
}

/// Waits for all choices, which are written as text as soon as they are complete.
async fn whole(
    app: &Arc<App>,
    asking: &Asking,
    receivers: Vec<AnswerReceiver>,
    deadline: Instant,
) -> ApiResult<Response<Body>> {
    let mut usage = asking.usage();
    let mut held = app.responses.hold();
    let mut logprobs: Vec<Logprobs> = receivers.iter().map(|_| Logprobs::default()).collect();
    let mut choices = vec![String::new(); receivers.len()];
    let mut events = stream::events(receivers);
    loop {
        let next = tokio::time::timeout_at(deadline.into(), events.next())
            .await
            .map_err(|_| ApiError::from(Failure::TimedOut))?;
        let Some((index, event)) = next else {
            break;
        };
        app.faults.at(Stage::Writing);
        keep(app, &mut held, event.bytes())?;
        match event {
            Event::Prompt(found) => {
                logprobs[index].add_prompt(&asking.question_of(index).prompt.context, found);
            }
            Event::Step(report) => logprobs[index].add(&report),
            Event::Done(done) => {
                usage.add(&done, index.is_multiple_of(asking.asked.choices));
                let logprobs = std::mem::take(&mut logprobs[index]);
                choices[index] = written(app, asking, index, &done, logprobs).await?;
            }
            Event::Failed(failure) => return Err(failure.into()),
        }
    }
    let kept = Kept {
        text: response_text(asking, &choices, &usage),
        _held: held,
    };
    Ok(json_text(StatusCode::OK, Bytes::from_owner(kept)))
}

/// The text of a response, which is accounted for until it is sent.
struct Kept {
    text: String,
    _held: Held,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Accounts for a part of a response that is collected.
fn keep(app: &App, held: &mut Held, bytes: usize) -> ApiResult<()> {
    let most = app.limits.response;
    if held.bytes() + bytes > most {
        return Err(ApiError::invalid(format!(
            "the answers together are larger than {most} bytes; ask for them as a stream, for fewer, or for fewer \
             log probabilities"
        )));
    }
    if held.grow(bytes) {
        Ok(())
    } else {
        Err(ApiError::busy(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many long answers are being collected; ask again later, or ask for a stream",
            1,
        ))
    }
}

/// A response of choices that are text already.
fn response_text(asking: &Asking, choices: &[String], usage: &Usage) -> String {
    let object = match asking.form {
        Form::Completion => "text_completion",
        Form::Chat => "chat.completion",
    };
    let head = asking.head(object, true).to_string();
    let head = head.trim_end_matches('}');
    let (choices, usage) = (choices.join(","), usage.to_json());
    format!("{head},\"choices\":[{choices}],\"usage\":{usage}}}")
}

/// A choice as text. Log probabilities are written aside: those of a long prompt are megabytes, for
/// which other clients would wait.
async fn written(
    app: &Arc<App>,
    asking: &Asking,
    index: usize,
    done: &Done,
    logprobs: Logprobs,
) -> ApiResult<String> {
    let mut shown = choice(asking, index, done);
    if asking.asked.options.logprobs.is_none() {
        return Ok(shown.to_string());
    }
    let (app, form) = (Arc::clone(app), asking.form);
    let echo = asking.question_of(index).echo.as_deref();
    let mut offset = Offset::after(echo.unwrap_or_default());
    let metrics = Arc::clone(&app.metrics);
    let write = move || {
        shown["logprobs"] = form.logprobs(&logprobs, &app.texts, &mut offset);
        shown.to_string()
    };
    let written = tokio::task::spawn_blocking(move || metrics.guarded(write)).await;
    let written = written.ok().flatten();
    written.ok_or_else(|| Failure::Lost.into())
}

/// A choice without its log probabilities.
fn choice(asking: &Asking, index: usize, done: &Done) -> Value {
    let text = done.output.text.as_deref().unwrap_or_default();
    let mut shown = json!({
        "index": index,
        "logprobs": null,
        "finish_reason": finish_reason(&done.output.finish),
        "stop_reason": stop_reason(&done.output.finish),
    });
    match asking.form {
        Form::Completion => {
            let echo = asking.question_of(index).echo.as_deref();
            shown["text"] = format!("{}{text}", echo.unwrap_or_default()).into();
        }
        Form::Chat => {
            shown["message"] = json!({"role": "assistant", "content": text, "refusal": null});
        }
    }
    asking.add_ids(&mut shown, index, &done.output.tokens, true);
    shown
}

/// The stop sequence, or the token of `stop_token_ids`, that has ended an answer.
pub(crate) fn stop_reason(finish: &Finish) -> Value {
    match finish {
        Finish::StopSequence(text) => text.as_str().into(),
        Finish::StopToken(token) => (*token).into(),
        _ => Value::Null,
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
