//! `/v1/chat/completions`: conversations that are continued.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use cascade_config::Message;
use serde_json::Value;

use super::generate::{self, Asking, Form, Question};
use super::neutral::{take_neutral, CHAT_NEUTRAL};
use super::request::Asked;
use super::App;
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;

/// Tokens beside each emitted one whose log probabilities are given at most.
const MOST_LOGPROBS: usize = 20;

pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Response<Body>> {
    generate::answer(app, request, read).await
}

fn read(app: &App, mut fields: Fields) -> ApiResult<Asking> {
    let mut asked = Asked::read(app, &mut fields, true)?;
    asked.max_tokens = read_length(&mut fields)?;
    asked.options = asked.options.with_logprobs(read_logprobs(&mut fields)?);
    let messages = fields.required("messages")?;
    take_neutral(&mut fields, &CHAT_NEUTRAL)?;
    fields.finish()?;
    let (prompt, text) = app.served.conversation(&read_messages(messages)?)?;
    let questions = vec![Question {
        prompt,
        echo: None,
        text,
    }];
    app.log_prompts(&questions);
    Asking::new(app, Form::Chat, asked, questions)
}

/// `max_completion_tokens`, or `max_tokens` as it was called.
fn read_length(fields: &mut Fields) -> ApiResult<Option<usize>> {
    let new = fields.count("max_completion_tokens", 1, usize::MAX)?;
    let old = fields.count("max_tokens", 1, usize::MAX)?;
    match (new, old) {
        (Some(new), Some(old)) if new != old => Err(fields.wrong(
            "max_tokens",
            format!("it is {old}, and `max_completion_tokens` is {new}; give one of them"),
        )),
        (new, old) => Ok(new.or(old)),
    }
}

fn read_logprobs(fields: &mut Fields) -> ApiResult<Option<usize>> {
    let wanted = fields.boolean("logprobs")?.unwrap_or(false);
    let top = fields.count("top_logprobs", 0, MOST_LOGPROBS)?;
    match (wanted, top) {
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(fields.wrong("top_logprobs", "also give `logprobs`: true")),
    }
}

pub(super) fn read_messages(messages: Value) -> ApiResult<Vec<Message>> {
    let wrong = |problem: String| ApiError::field("messages", problem);
    let Value::Array(messages) = messages else {
        return Err(wrong("give a list of messages".to_owned()));
    };
    let message =
        |message: Value| Message::from_json(message).map_err(|error| wrong(error.to_string()));
    messages.into_iter().map(message).collect()
}
