//! Fields of OpenAI's interface, and of other servers, that this server does not have: which values
//! of them ask for nothing, and so may be given.

use serde_json::Value;

use crate::error::ApiResult;
use crate::fields::Fields;

/// A field that may be given only with values that ask for nothing. Null always is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neutral {
    name: &'static str,
    /// The values, as the error lists them.
    values: &'static str,
    is_neutral: fn(&Value) -> bool,
}

const fn neutral(
    name: &'static str,
    values: &'static str,
    is_neutral: fn(&Value) -> bool,
) -> Neutral {
    Neutral {
        name,
        values,
        is_neutral,
    }
}

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
const COMMON: [Neutral; 26] = [
    neutral("presence_penalty", "0", zero),
    neutral("frequency_penalty", "0", zero),
    neutral("repetition_penalty", "1", one),
    neutral("length_penalty", "1", one),
    neutral("num_beams", "1", one),
    neutral("min_tokens", "0", zero),
    neutral("logit_bias", "{}", empty),
    neutral("ignore_eos", "false", no),
    neutral("use_beam_search", "false", no),
    neutral("skip_special_tokens", "true", yes),
    neutral("include_stop_str_in_output", "false", no),
    neutral("stop_token_ids", "[]", empty),
    // They change no answer: they tell the operator who asks.
    neutral("user", "any text", text),
    neutral("safety_identifier", "any text", text),
    neutral("prompt_cache_key", "any text", text),
    neutral("metadata", "any object", Value::is_object),
    neutral("store", "false", no),
    neutral("service_tier", "\"auto\" or \"default\"", |value| {
        value == "auto" || value == "default"
    }),
    // Of llama.cpp's server. Prompts are cached where nobody else sees it; texts are the same.
    neutral("cache_prompt", "true or false", Value::is_boolean),
    neutral("repeat_penalty", "1", one),
    neutral("repeat_last_n", "any number", Value::is_number),
    neutral("typical_p", "1", one),
    neutral("mirostat", "0", zero),
    neutral("dynatemp_range", "0", zero),
    // Of vLLM's server.
    neutral("spaces_between_special_tokens", "true", yes),
    neutral("priority", "0", zero),
];

/// Fields of `/v1/completions` that may be given with these values alone.
pub(crate) const COMPLETION: [Neutral; 3] = [
    neutral("suffix", "an empty text", empty),
    neutral("best_of", "1", one),
    neutral("add_special_tokens", "true", yes),
];

/// Fields of `/v1/chat/completions` that may be given with these values alone.
pub(crate) const CHAT: [Neutral; 10] = [
    neutral("tools", "[]", empty),
    neutral("tool_choice", "\"none\" or \"auto\"", |value| {
        value == "none" || value == "auto"
    }),
    neutral("parallel_tool_calls", "true or false", Value::is_boolean),
    neutral("functions", "[]", empty),
    neutral("function_call", "\"none\" or \"auto\"", |value| {
        value == "none" || value == "auto"
    }),
    neutral("response_format", "{\"type\": \"text\"}", |value| {
        value.as_object().is_some_and(|object| object.len() == 1) && value["type"] == "text"
    }),
    neutral("modalities", "[\"text\"]", |value| {
        *value == Value::from(vec!["text"])
    }),
    neutral("reasoning_effort", "\"none\"", |value| value == "none"),
    neutral("verbosity", "\"medium\"", |value| value == "medium"),
    neutral("echo", "false", no),
];

/// Takes the fields of an interface of its `own` and those of both, and refuses those that ask for
/// something.
pub(crate) fn take_neutral(fields: &mut Fields, own: &[Neutral]) -> ApiResult<()> {
    for field in own.iter().chain(&COMMON) {
        if let Some(value) = fields.take(field.name) {
            if !(field.is_neutral)(&value) {
                let values = field.values;
                return Err(fields.wrong(
                    field.name,
                    format!("this server does not have it; leave it out, or give {values}"),
                ));
            }
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
            let names: Vec<_> = own.iter().chain(&COMMON).map(|field| field.name).collect();
            for (at, name) in names.iter().enumerate() {
                assert!(!names[..at].contains(name), "{name} stands twice");
                assert!(text.contains(&format!("`{name}`")), "docs/serve.md: {name}");
            }
        }
    }

    #[test]
    fn values_that_ask_for_something_are_refused() {
        let take = |text: &str| take_neutral(&mut Fields::parse(text.as_bytes()).unwrap(), &CHAT);
        assert!(
            take(r#"{"tools": [], "presence_penalty": 0, "user": "me", "store": null}"#).is_ok()
        );
        for text in [
            r#"{"tools": [{}]}"#,
            r#"{"presence_penalty": 0.1}"#,
            r#"{"user": 1}"#,
            r#"{"response_format": {"type": "text", "x": 1}}"#,
            r#"{"response_format": {"type": "json_object"}}"#,
            r#"{"logit_bias": {"1": 2}}"#,
        ] {
            assert!(take(text).is_err(), "{text}");
        }
    }
}
