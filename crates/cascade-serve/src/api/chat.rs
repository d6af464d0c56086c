//! `/v1/chat/completions`: conversations that are continued.

use cascade_config::{Message, Role, Variables};
use serde_json::{Value, json};

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
    asked.options = asked.options.with_logprobs(read_logprobs(&mut fields)?);
    let messages = fields.required("messages")?;
    let variables = read_variables(&mut fields)?;
    let continued = read_continued(&mut fields)?;
    take_neutral(&mut fields, neutral::CHAT)?;
    let strict = fields.is_strict();
    let mut warnings = fields.finish()?;
    let messages = read_messages(messages, strict)?;
    check_end(&messages, continued, strict)?;
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
    warnings.extend(asked_in.warnings);
    Asking::new(app, Form::Chat, asked, questions, warnings)
}

/// `chat_template_kwargs`: variables of the template. Clients also send some of them outside, where
/// they are the template's too; a warning names those that it does not read.
pub(super) fn read_variables(fields: &mut Fields) -> ApiResult<Variables> {
    let mut object = fields.map("chat_template_kwargs")?.unwrap_or_default();
    if !fields.is_strict() {
        for name in ["reasoning_effort", "enable_thinking"] {
            let value = fields.take(name).filter(|value| value != "none");
            if let Some(value) = value {
                object.entry(name).or_insert(value);
            }
        }
    }
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

/// A last message of the assistant is continued, unless that is not wanted, and one of the system
/// is answered as the user's, unless the server is strict.
fn check_end(messages: &[Message], continued: Option<bool>, strict: bool) -> ApiResult<()> {
    let last = messages.last().map(Message::role);
    let begun = last == Some(Role::Assistant);
    let wrong = |problem: &str| Err(ApiError::field("messages", problem));
    match continued {
        Some(true) if !begun => {
            wrong("`continue_final_message` is given; end them with the assistant's message")
        }
        Some(false) if begun => wrong(
            "they end with the assistant's message, which is not to be continued; end them with the user's",
        ),
        _ if strict && last == Some(Role::System) => {
            wrong("they end with the system's message; end them with the user's")
        }
        _ => Ok(()),
    }
}

/// Whether log probabilities are wanted, and of how many alternatives to each token; as of
/// completions, a number asks for both.
fn read_logprobs(fields: &mut Fields) -> ApiResult<Option<usize>> {
    let number = match fields.take_boolean("logprobs") {
        Some(wanted) => wanted.then_some(0),
        None if fields.is_strict() => fields.boolean("logprobs")?.map(|_| 0),
        None => fields.count("logprobs", 0, MOST_LOGPROBS)?,
    };
    let top = fields.count("top_logprobs", 0, MOST_LOGPROBS)?;
    let wanted = number.is_some();
    let top = top.or(number.filter(|&number| number > 0));
    match (wanted, top) {
        (true, top) => Ok(Some(top.unwrap_or(0))),
        (false, None | Some(0)) => Ok(None),
        (false, Some(_)) => Err(fields.wrong("top_logprobs", "also give `logprobs`: true")),
    }
}

pub(super) fn read_messages(messages: Value, strict: bool) -> ApiResult<Vec<Message>> {
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
    let message = |mut message: Value| {
        if let (Value::Object(object), false) = (&mut message, strict) {
            object.retain(|name, value| !is_no_tool(name, value));
        }
        Message::from_json(message).map_err(|error| wrong(error.to_string()))
    };
    messages.into_iter().map(message).collect()
}

/// Whether a member of a message says that there is no call of a tool.
fn is_no_tool(name: &str, value: &Value) -> bool {
    let empty = [json!(null), json!([]), json!({}), json!(""), json!("none")];
    ["tool_calls", "tool_call_id", "function_call"].contains(&name) && empty.contains(value)
}
