//! Fields of OpenAI's interface, and of other servers, that this server does not have: which values
//! of them ask for nothing, and so may be given.

use serde_json::Value;

use crate::error::ApiResult;
use crate::fields::Fields;

/// A field that may be given only with values that ask for nothing: its name, those values as the
/// error lists them, and whether a value is one. Null always is.
pub(crate) type Neutral = (&'static str, &'static str, fn(&Value) -> bool);

fn zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn no(value: &Value) -> bool {
    value == &Value::Bool(false)
}

fn yes(value: &Value) -> bool {
    value == &Value::Bool(true)
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn text(value: &Value) -> bool {
    value.is_string()
}

/// What both interfaces have.
const COMMON: [Neutral; 23] = [
    ("length_penalty", "1", one),
    ("num_beams", "1", one),
    ("min_tokens", "0", zero),
    ("logit_bias", "{}", empty),
    ("ignore_eos", "false", no),
    ("use_beam_search", "false", no),
    ("skip_special_tokens", "true", yes),
    ("include_stop_str_in_output", "false", no),
    ("stop_token_ids", "[]", empty),
    // They change no answer: they tell the operator who asks.
    ("user", "any text", text),
    ("safety_identifier", "any text", text),
    ("prompt_cache_key", "any text", text),
    ("metadata", "any object", Value::is_object),
    ("store", "false", no),
    ("service_tier", "\"auto\" or \"default\"", |value| {
        value == "auto" || value == "default"
    }),
    // Of llama.cpp's server. Prompts are cached where nobody else sees it; texts are the same.
    ("cache_prompt", "true or false", Value::is_boolean),
    ("repeat_penalty", "1", one),
    ("repeat_last_n", "any number", Value::is_number),
    ("typical_p", "1", one),
    ("mirostat", "0", zero),
    ("dynatemp_range", "0", zero),
    // Of vLLM's server.
    ("spaces_between_special_tokens", "true", yes),
    ("priority", "0", zero),
];

/// Fields of `/v1/completions` that may be given with these values alone.
pub(crate) const COMPLETION: [Neutral; 3] = [
    ("suffix", "an empty text", empty),
    ("best_of", "1", one),
    ("add_special_tokens", "true", yes),
];

/// Fields of `/v1/chat/completions` that may be given with these values alone.
pub(crate) const CHAT: [Neutral; 10] = [
    ("tools", "[]", empty),
    ("tool_choice", "\"none\" or \"auto\"", |value| {
        value == "none" || value == "auto"
    }),
    ("parallel_tool_calls", "true or false", Value::is_boolean),
    ("functions", "[]", empty),
    ("function_call", "\"none\" or \"auto\"", |value| {
        value == "none" || value == "auto"
    }),
    ("response_format", "{\"type\": \"text\"}", |value| {
        value.as_object().is_some_and(|object| object.len() == 1) && value["type"] == "text"
    }),
    ("modalities", "[\"text\"]", |value| {
        *value == Value::from(vec!["text"])
    }),
    ("reasoning_effort", "\"none\"", |value| value == "none"),
    ("verbosity", "\"medium\"", |value| value == "medium"),
    ("echo", "false", no),
];

/// Takes the fields of an interface of its `own` and those of both, and refuses those that ask for
/// something.
pub(crate) fn take_neutral(fields: &mut Fields, own: &[Neutral]) -> ApiResult<()> {
    for (name, values, is_neutral) in own.iter().chain(&COMMON) {
        if fields.take(name).is_some_and(|value| !is_neutral(&value)) {
            let problem = format!("this server does not have it; leave it out, or give {values}");
            return Err(fields.wrong(name, problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_name_fields_once_and_the_documentation_lists_them() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md");
        let text = std::fs::read_to_string(path).unwrap();
        for own in [&COMPLETION[..], &CHAT] {
            let names: Vec<_> = own.iter().chain(&COMMON).map(|field| field.0).collect();
            for (at, name) in names.iter().enumerate() {
                assert!(!names[..at].contains(name), "{name} stands twice");
                assert!(text.contains(&format!("`{name}`")), "docs/serve.md: {name}");
            }
        }
    }
}
