//! `/tokenize` and `/detokenize`: what a text is to the model.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{json, Value};

use super::chat::{read_messages, read_variables};
use super::{completions, App};
use crate::error::{json_response, ApiError, ApiResult};
use crate::fields::Fields;
use crate::reading::Waiting;

pub(crate) async fn tokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Response<Body>> {
    let body = app.bodies.read(request).await?;
    let bytes = body.len();
    let reader = Arc::clone(&app);
    let work = move |waiting: &Waiting| {
        let (fields, _held) = body.parse()?;
        tokens_of(&reader, fields, waiting)
    };
    let value = app.reading.aside(bytes, work).await?;
    Ok(json_response(StatusCode::OK, &value))
}

pub(crate) async fn detokenize(
    State(app): State<Arc<App>>,
    request: Request,
) -> ApiResult<Response<Body>> {
    let body = app.bodies.read(request).await?;
    let bytes = body.len();
    let reader = Arc::clone(&app);
    let work = move |_: &Waiting| {
        let (fields, _held) = body.parse()?;
        text_of(&reader, fields)
    };
    let value = app.reading.aside(bytes, work).await?;
    Ok(json_response(StatusCode::OK, &value))
}

/// The tokens of `prompt`, or of `messages` in the chat template.
fn tokens_of(app: &App, mut fields: Fields, waiting: &Waiting) -> ApiResult<Value> {
    if let Some(model) = fields.string("model")? {
        app.check_model(&model)?;
    }
    let special = fields.boolean("add_special_tokens")?;
    let room = app.served.counted_room(app.limits.max_context);
    let strings = fields.boolean("return_token_strs")?.unwrap_or(false);
    let tokens = match (fields.string("prompt")?, fields.take("messages")) {
        (Some(text), None) => {
            let special = special.unwrap_or(true);
            app.served.encode(&text, special, room, waiting)?
        }
        (None, Some(messages)) if special.is_none() => {
            let messages = read_messages(messages)?;
            let variables = read_variables(&mut fields)?;
            let asked = app
                .served
                .conversation(&messages, variables, room, waiting)?;
            let prompt = asked.prompt;
            [prompt.source, prompt.context].concat()
        }
        (None, Some(_)) => {
            return Err(fields.wrong(
                "add_special_tokens",
                "the chat template decides; leave it out",
            ))
        }
        _ => return Err(fields.wrong("prompt", "give either it or `messages`")),
    };
    fields.finish()?;
    let written = strings.then(|| {
        let written = tokens.iter().map(|&token| app.texts.of(token).text);
        written.collect::<Vec<_>>()
    });
    Ok(json!({
        "count": tokens.len(),
        "max_model_len": app.max_context(),
        "tokens": tokens,
        "token_strs": written,
    }))
}

fn text_of(app: &App, mut fields: Fields) -> ApiResult<Value> {
    if let Some(model) = fields.string("model")? {
        app.check_model(&model)?;
    }
    let wrong = |problem: String| ApiError::field("tokens", problem);
    let tokens = fields.required("tokens")?;
    fields.finish()?;
    let tokens = tokens.as_array().and_then(|list| completions::tokens(list));
    let tokens = tokens.ok_or_else(|| wrong("give a list of tokens".to_owned()))?;
    let room = app.served.counted_room(app.limits.max_context);
    if tokens.len() > room.most {
        return Err(wrong(format!(
            "there are {}; give {} at most",
            tokens.len(),
            room.most
        )));
    }
    app.served.check_tokens(&tokens).map_err(wrong)?;
    let text = app.served.tokenizer().decode(&tokens);
    Ok(json!({"prompt": text.map_err(|error| wrong(error.to_string()))?}))
}
