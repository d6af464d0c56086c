//! Fields of OpenAI's interface, and of other servers, that this server does not have. Those that
//! would change the answer may be given only with values that ask for nothing. The others are not
//! read, and a warning names them.

use serde_json::Value;

use crate::error::ApiResult;
use crate::fields::Fields;

/// A field with values that ask for nothing: its name, those values as the error lists them, and
/// whether a value is one. Null always is.
type Neutral = (&'static str, &'static str, fn(&Value) -> bool);

/// The fields of an interface that are not those of both.
#[derive(Clone, Copy)]
pub(crate) struct Unread {
    changing: &'static [Neutral],
    hints: &'static [Neutral],
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

fn none(value: &Value) -> bool {
    value == "none"
}

fn text(value: &Value) -> bool {
    value.is_string()
}

fn default_tier(value: &Value) -> bool {
    value == "auto" || value == "default"
}

fn not_forced(value: &Value) -> bool {
    value == "none" || value == "auto"
}

/// What both interfaces have that would change the answer.
const CHANGING: &[Neutral] = &[
    ("length_penalty", "1", one),
    ("num_beams", "1", one),
    ("logit_bias", "{}", empty),
    ("use_beam_search", "false", no),
    ("skip_special_tokens", "true", yes),
    ("include_stop_str_in_output", "false", no),
    // Of llama.cpp's server.
    ("typical_p", "1", one),
    ("tfs_z", "1", one),
    ("mirostat", "0", zero),
    ("dynatemp_range", "0", zero),
    ("xtc_probability", "0", zero),
    ("dry_multiplier", "0", zero),
    ("grammar", "an empty text", empty),
    ("json_schema", "{}", empty),
    // Of vLLM's server and others like it.
    ("guided_json", "{}", empty),
    ("guided_regex", "an empty text", empty),
    ("guided_choice", "[]", empty),
    ("guided_grammar", "an empty text", empty),
    ("structured_outputs", "{}", empty),
    ("bad_words", "[]", empty),
    ("allowed_token_ids", "[]", empty),
    ("truncate_prompt_tokens", "null", |_| false),
    ("max_new_tokens", "`max_tokens` in its place", |_| false),
    ("no_repeat_ngram_size", "0", zero),
    // Of ollama's.
    ("format", "an empty text", empty),
];

/// What both interfaces have that changes nothing of the answer: who asks and why, where and how
/// fast it is computed, what else the response has.
const HINTS: &[Neutral] = &[
    ("user", "any text", text),
    ("safety_identifier", "any text", text),
    ("prompt_cache_key", "any text", text),
    ("metadata", "any object", Value::is_object),
    ("store", "false", no),
    ("service_tier", "\"auto\" or \"default\"", default_tier),
    ("cache_prompt", "true or false", Value::is_boolean),
    ("spaces_between_special_tokens", "true", yes),
    ("priority", "0", zero),
];

/// The fields of `/v1/completions`.
pub(crate) const COMPLETION: Unread = Unread {
    changing: &[
        ("suffix", "an empty text", empty),
        ("best_of", "1", one),
        ("add_special_tokens", "true", yes),
        ("response_format", "{\"type\": \"text\"}", plain_text),
    ],
    hints: &[],
};

/// The fields of `/v1/chat/completions`.
pub(crate) const CHAT: Unread = Unread {
    changing: &[
        ("tools", "[]", empty),
        ("tool_choice", "\"none\" or \"auto\"", not_forced),
        ("functions", "[]", empty),
        ("function_call", "\"none\" or \"auto\"", not_forced),
        ("response_format", "{\"type\": \"text\"}", plain_text),
        ("modalities", "[\"text\"]", |value| {
            *value == Value::from(vec!["text"])
        }),
        ("web_search_options", "{}", empty),
        ("chat_template", "null", |_| false),
        ("documents", "[]", empty),
        ("echo", "false", no),
    ],
    hints: &[
        ("parallel_tool_calls", "true or false", Value::is_boolean),
        ("reasoning_effort", "\"none\"", none),
        ("verbosity", "\"medium\"", |value| value == "medium"),
    ],
};

/// Text without a format, in the words of OpenAI's clients.
fn plain_text(value: &Value) -> bool {
    value["type"] == "text"
}

/// Takes the fields of an interface of its `own` and those of both: refuses those that would change
/// the answer, and warns of the others that ask for something. A strict server refuses these too.
pub(crate) fn take_neutral(fields: &mut Fields, own: Unread) -> ApiResult<()> {
    let changing = own
        .changing
        .iter()
        .chain(CHANGING)
        .map(|field| (field, true));
    let hints = own.hints.iter().chain(HINTS).map(|field| (field, false));
    let strict = fields.is_strict();
    for ((name, values, is_neutral), changes) in changing.chain(hints) {
        let asks = |value: Value| !is_neutral(&value) && (strict || !none(&value));
        if !fields.take(name).is_some_and(asks) {
            continue;
        }
        if changes || strict {
            let problem = format!("this server does not have it; leave it out, or give {values}");
            return Err(fields.wrong(name, problem));
        }
        fields.ignore(name);
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
        for own in [COMPLETION, CHAT] {
            let tables = [own.changing, own.hints, CHANGING, HINTS];
            let names: Vec<_> = tables.concat().iter().map(|field| field.0).collect();
            for (at, name) in names.iter().enumerate() {
                assert!(!names[..at].contains(name), "{name} stands twice");
                assert!(text.contains(&format!("`{name}`")), "docs/serve.md: {name}");
            }
        }
    }
}
