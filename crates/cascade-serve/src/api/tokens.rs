//! `/tokenize` and `/detokenize`: what a text is to the model.

use cascade_core::TokenId;
use serde_json::{Value, json};

use super::chat::{read_messages, read_variables};
use super::{App, completions};
use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;
use crate::reading::Waiting;

/// The tokens of `prompt`, or of `messages` in the chat template.
pub(super) fn tokens_of(app: &App, mut fields: Fields, waiting: &Waiting) -> ApiResult<Value> {
    app.read_model(&mut fields)?;
    let special = fields.boolean("add_special_tokens")?;
    let strings = fields.boolean("return_token_strs")?.unwrap_or(false);
    let tokens = read_tokens(app, &mut fields, special, waiting)?;
    let warnings = fields.finish()?;
    let written = strings.then(|| {
        let written = tokens.iter().map(|&token| app.texts.of(token).text);
        written.collect::<Vec<_>>()
    });
    app.log_warnings(&warnings);
    Ok(json!({
        "count": tokens.len(),
        "max_model_len": app.max_context(),
        "tokens": tokens,
        "token_strs": written,
    }))
}

fn read_tokens(
    app: &App,
    fields: &mut Fields,
    special: Option<bool>,
    waiting: &Waiting,
) -> ApiResult<Vec<TokenId>> {
    let room = app.served.counted_room(app.limits.max_context);
    match (fields.string("prompt")?, fields.take("messages")) {
        (Some(text), None) => {
            let special = special.unwrap_or(true);
            app.served.encode(&text, special, room, waiting)
        }
        (None, Some(messages)) if special.is_none() => {
            let messages = read_messages(messages, fields.is_strict())?;
            let variables = read_variables(fields)?;
            let asked = app
                .served
                .conversation(&messages, variables, room, waiting)?;
            let prompt = asked.prompt;
            Ok([prompt.source, prompt.context].concat())
        }
        (None, Some(_)) => Err(fields.wrong(
            "add_special_tokens",
            "the chat template decides; leave it out",
        )),
        _ => Err(fields.wrong("prompt", "give either it or `messages`")),
    }
}

/// The text of `tokens`.
pub(super) fn text_of(app: &App, mut fields: Fields, _: &Waiting) -> ApiResult<Value> {
    app.read_model(&mut fields)?;
    let wrong = |problem: String| ApiError::field("tokens", problem);
    let tokens = fields.required("tokens")?;
    app.log_warnings(&fields.finish()?);
    let tokens = tokens
        .as_array()
        .and_then(|list| completions::tokens(list))
        .ok_or_else(|| wrong("give a list of tokens".to_owned()))?;
    let room = app.served.counted_room(app.limits.max_context);
    if tokens.len() > room.most {
        return Err(wrong(format!(
            "there are {}; give {} at most",
            tokens.len(),
            room.most
        )));
    }
    app.served.check_tokens(&tokens).map_err(wrong)?;
    let text = app.served.tokenizer.decode(&tokens);
    Ok(json!({"prompt": text.map_err(|error| wrong(error.to_string()))?}))
}
