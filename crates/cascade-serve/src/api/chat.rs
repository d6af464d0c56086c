//! `/v1/chat/completions`: conversations that are continued.

use cascade_config::{Message, Role, Variables};
use serde_json::Value;

use super::App;
use super::generate::{Asking, Form, Question};
use super::neutral::{self, take_neutral};
use super::request::Asked;
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::reading::Waiting;

/// Tokens beside each emitted one whose log probabilities are given at most.
const MOST_LOGPROBS: usize = 20;

/// Messages and parts of their contents at most: each costs a template time, whatever it says.
const MOST_PARTS: usize = 10_000;

pub(super) fn read(app: &App, mut fields: Fields, waiting: &Waiting) -> ApiResult<Asking> {
    let mut asked = Asked::read(app, &mut fields, true)?;
    asked.max_tokens = read_length(&mut fields)?;
    asked.options = asked.options.with_logprobs(read_logprobs(&mut fields)?);
    let messages = fields.required("messages")?;
    let variables = read_variables(&mut fields)?;
    let continued = read_continued(&mut fields)?;
    take_neutral(&mut fields, &neutral::CHAT)?;
    fields.finish()?;
    let messages = read_messages(messages)?;
    check_end(&messages, continued)?;
    let room = app.prompt_room();
    let asked_in = app
        .served
        .conversation(&messages, variables, room, waiting)?;
    let questions = vec![Question {
        prompt: asked_in.prompt,
        echo: None,
        continues: asked_in.continues,
        text: asked_in.text,
    }];
    app.log_prompts(&questions);
    let mut asking = Asking::new(app, Form::Chat, asked, questions)?;
    asking.warnings = asked_in.warnings;
    Ok(asking)
}

/// `chat_template_kwargs`: variables of the template.
pub(super) fn read_variables(fields: &mut Fields) -> ApiResult<Variables> {
    let object = fields.map("chat_template_kwargs")?.unwrap_or_default();
    let variables = Variables::new(object);
    variables.map_err(|error| fields.wrong("chat_template_kwargs", error.to_string()))
}

/// Whether the last message is to be continued, if the request says.
fn read_continued(fields: &mut Fields) -> ApiResult<Option<bool>> {
    let continued = fields.boolean("continue_final_message")?;
    let prompted = fields.boolean("add_generation_prompt")?;
    match (continued, prompted) {
        (Some(true), Some(true)) => Err(fields.wrong(
            "add_generation_prompt",
            "it is true, and `continue_final_message` too; give one of them",
        )),
        (None | Some(false), Some(false)) => Err(fields.wrong(
            "add_generation_prompt",
            "it is false; also give `continue_final_message`: true, or leave it out",
        )),
        (None, Some(true)) => Ok(Some(false)),
        (continued, _) => Ok(continued),
    }
}

/// A last message of the assistant is continued, unless that is not wanted.
fn check_end(messages: &[Message], continued: Option<bool>) -> ApiResult<()> {
    let begun = messages.last().map(Message::role) == Some(Role::Assistant);
    let wrong = |problem: &str| Err(ApiError::field("messages", problem));
    match continued {
        Some(true) if !begun => {
            wrong("`continue_final_message` is given; end them with the assistant's message")
        }
        Some(false) if begun => wrong(
            "they end with the assistant's message, which is not to be continued; end them with the user's",
        ),
        _ => Ok(()),
    }
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
    let parts = |message: &Value| message["content"].as_array().map_or(1, Vec::len);
    let all: usize = messages.iter().map(parts).sum();
    if all.max(messages.len()) > MOST_PARTS {
        return Err(wrong(format!(
            "there are {} of {all} parts; give {MOST_PARTS} at most",
            messages.len()
        )));
    }
    let message =
        |message: Value| Message::from_json(message).map_err(|error| wrong(error.to_string()));
    messages.into_iter().map(message).collect()
}
