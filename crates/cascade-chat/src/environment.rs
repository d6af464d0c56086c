//! The Jinja environment of chat templates: what transformers gives them, within limits.

use std::fmt;

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind};

use crate::builtins::{self, WIDEST, shortened, too_wide};
use crate::json::Style;
use crate::limits::{LONGEST, make, make_text, refused};
use crate::operators::{self, printed};
use crate::weight::weigh;

/// Instructions that a template may execute: those of a conversation of ten thousand messages.
const FUEL: u64 = 6_000_000;

/// Depth of macros within macros and loops within loops.
const RECURSION: usize = 200;

/// What `raise_exception` was called with.
#[derive(Debug)]
pub(crate) struct Raised(pub(crate) String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// An environment as that of `apply_chat_template`, at a fixed time or at the present one, for
/// templates whose lists grow or do not.
///
/// # Errors
/// None, as tests make sure.
pub(crate) fn environment(
    now: Option<DateTime>,
    grows: bool,
) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(syntax()?);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    builtins::add(&mut environment);
    operators::add(&mut environment, grows);
    environment.add_filter("tojson", tojson);
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", |value: &Value| {
        !value.is_none() && value.try_iter().is_ok()
    });
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", move |format: String| strftime(now, &format));
    Ok(environment)
}

/// How templates are written.
pub(crate) fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()
}

fn raise_exception(message: Value) -> Result<Value, Error> {
    make_text(printed(&message)?)?;
    let raised = Raised(shortened(message.to_string()));
    Err(Error::new(ErrorKind::InvalidOperation, raised.0.clone()).with_source(raised))
}

/// The time in the words of C's `strftime`, local as that of Python's `datetime.now()`.
fn strftime(now: Option<DateTime>, format: &str) -> Result<String, Error> {
    if format.len() > WIDEST {
        return Err(refused("strftime_now: the format is too large"));
    }
    let text = match now {
        Some(now) => strtime::format(format, now),
        None => strtime::format(format, &Zoned::now()),
    };
    text.map_err(|error| {
        let problem = format!("strftime_now({format:?}): {error}");
        Error::new(ErrorKind::InvalidOperation, problem)
    })
}

/// In Python, what has a length and can be indexed.
fn is_sequence(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Seq | ValueKind::Map | ValueKind::String
    )
}

fn tojson(value: &Value, arguments: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        let problem = "tojson: the value is undefined";
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    let style = Style {
        ensure_ascii: flag(&arguments, "ensure_ascii")?,
        indent: json_indent(arguments.get("indent")?)?,
        separators: separators(arguments.get("separators")?)?,
        sort_keys: flag(&arguments, "sort_keys")?,
    };
    arguments.assert_all_used()?;
    let weight = weigh(value)?;
    make(2 * weight.text + 128 * weight.nodes)?;
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, format!("tojson: {error}")))?;
    let text = style
        .write(&value, LONGEST)
        .ok_or_else(|| refused("tojson: the text is too large"))?;
    make_text(text.len())?;
    Ok(text)
}

fn flag(arguments: &Kwargs, name: &str) -> Result<bool, Error> {
    Ok(arguments.get::<Option<bool>>(name)?.unwrap_or_default())
}

/// A pair of texts.
fn separators(value: Option<Value>) -> Result<Option<(String, String)>, Error> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    let parts: Vec<Value> = value.try_iter()?.collect();
    match parts.iter().map(Value::as_str).collect::<Vec<_>>()[..] {
        [Some(comma), Some(colon)] => Ok(Some((comma.to_owned(), colon.to_owned()))),
        _ => Err(Error::new(
            ErrorKind::InvalidOperation,
            "tojson: separators are not two strings",
        )),
    }
}

/// `indent` is a number of spaces, or the text itself.
fn json_indent(value: Option<Value>) -> Result<Option<String>, Error> {
    let Some(value) = value.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    let text = match value.as_str() {
        Some(text) => text.to_owned(),
        None => " ".repeat(usize::try_from(value)?.min(WIDEST + 1)),
    };
    if text.len() <= WIDEST {
        Ok(Some(text))
    } else {
        Err(too_wide("of an indent"))
    }
}
