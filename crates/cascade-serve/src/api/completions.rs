//! `/v1/completions`: texts that are continued.

use serde_json::Value;

use super::App;
use super::generate::{Asking, Form, Question};
use super::neutral::{self, take_neutral};
use super::request::Asked;
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::prompt_length::too_long;
use crate::reading::Waiting;

/// Tokens beside each emitted one whose log probabilities are given at most.
const MOST_LOGPROBS: usize = 20;
/// Prompts of a request at most.
const MOST_PROMPTS: usize = 128;

/// A prompt as a request writes it.
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

pub(super) fn read(app: &App, mut fields: Fields, waiting: &Waiting) -> ApiResult<Asking> {
    let mut asked = Asked::read(app, &mut fields, false)?;
    let echo = fields.boolean("echo")?.unwrap_or(false);
    let logprobs = read_logprobs(&mut fields)?;
    if echo && logprobs.is_some() && app.served.has_encoder() {
        return Err(fields.wrong(
            "echo",
            "an encoder reads the prompt at once, so its tokens have no log probabilities; leave out `echo` or \
             `logprobs`",
        ));
    }
    asked.options = asked.options.with_logprobs(logprobs);
    let prompt = fields.required("prompt")?;
    take_neutral(&mut fields, neutral::COMPLETION)?;
    let warnings = fields.finish()?;
    let questions = prompts(prompt)?
        .into_iter()
        .map(|prompt| question(app, prompt, echo, waiting))
        .collect::<ApiResult<Vec<_>>>()?;
    app.log_prompts(&questions);
    Asking::new(app, Form::Completion, asked, questions, warnings)
}

/// How many alternatives to each token are wanted; as of chats, true asks for log probabilities
/// too, with one of them.
fn read_logprobs(fields: &mut Fields) -> ApiResult<Option<usize>> {
    if fields.is_strict() {
        return fields.count("logprobs", 0, MOST_LOGPROBS);
    }
    let top = fields.count("top_logprobs", 0, MOST_LOGPROBS)?;
    match fields.take_boolean("logprobs") {
        Some(wanted) => Ok(wanted.then_some(top.unwrap_or(1))),
        None => Ok(fields.count("logprobs", 0, MOST_LOGPROBS)?.or(top)),
    }
}

/// A text, a list of texts, a list of tokens, or a list of such lists.
fn prompts(prompt: Value) -> ApiResult<Vec<Prompt>> {
    let wrong = || {
        let problem =
            "give a text, a list of texts, a list of tokens, or a list of lists of tokens";
        ApiError::field("prompt", problem)
    };
    let list = match prompt {
        Value::String(text) => return Ok(vec![Prompt::Text(text)]),
        Value::Array(list) => list,
        _ => return Err(wrong()),
    };
    if list.iter().all(Value::is_number) {
        let tokens = tokens(&list).ok_or_else(wrong)?;
        return Ok(vec![Prompt::Tokens(tokens)]);
    }
    if list.len() > MOST_PROMPTS {
        return Err(ApiError::field(
            "prompt",
            format!(
                "there are {} prompts; give {MOST_PROMPTS} at most",
                list.len()
            ),
        ));
    }
    let one = |prompt: Value| match prompt {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(list) => tokens(&list).map(Prompt::Tokens).ok_or_else(wrong),
        _ => Err(wrong()),
    };
    list.into_iter().map(one).collect()
}

pub(super) fn tokens(list: &[Value]) -> Option<Vec<u32>> {
    let token = |token: &Value| u32::try_from(token.as_u64()?).ok();
    list.iter().map(token).collect()
}

fn question(app: &App, prompt: Prompt, echo: bool, waiting: &Waiting) -> ApiResult<Question> {
    let room = app.prompt_room();
    let (prompt, text) = match prompt {
        Prompt::Text(text) => (app.served.prompt(&text, room, waiting)?, text),
        Prompt::Tokens(tokens) => {
            let wrong = |problem: String| ApiError::field("prompt", problem);
            if tokens.is_empty() {
                return Err(wrong("it is empty; give a text or tokens".to_owned()));
            }
            if tokens.len() > room.context {
                let length = format!("{} tokens", tokens.len());
                return Err(too_long(&length, room.context));
            }
            app.served.check_tokens(&tokens).map_err(wrong)?;
            let text = app
                .served
                .tokenizer
                .decode(&tokens)
                .map_err(|error| wrong(error.to_string()))?;
            (app.served.prompt_of(tokens), text)
        }
    };
    Ok(Question {
        prompt,
        echo: echo.then(|| text.clone()),
        continues: true,
        text,
    })
}
