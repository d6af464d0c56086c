//! The Jinja environment of chat templates: what transformers gives them, within limits.

use std::fmt;

use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::Zoned;
use minijinja::formatting::FormatStyle;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{filters, formatting, AutoEscape, Environment, Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use crate::json::Style;

/// Instructions that a template may execute: those of a conversation of ten thousand messages.
const FUEL: u64 = 5_000_000;

/// Depth of macros within macros and loops within loops.
const RECURSION: usize = 200;

/// Columns that a template may indent by.
const WIDEST: usize = 1000;

/// The filter `indent` of the library, under a name that no template has.
const UNCHECKED_INDENT: &str = "indent, unchecked";

/// What `raise_exception` was called with.
#[derive(Debug)]
pub(crate) struct Raised(pub(crate) String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

/// An environment as that of `apply_chat_template`, at a fixed time or at the present one.
///
/// # Errors
/// None, as tests make sure.
pub(crate) fn environment(now: Option<DateTime>) -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_syntax(
        SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()?,
    );
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(method);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.add_filter("tojson", tojson);
    environment.add_filter("format", format);
    environment.add_filter(UNCHECKED_INDENT, filters::indent);
    environment.add_filter("indent", indent);
    environment.add_test("sequence", is_sequence);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", move |format: String| strftime(now, &format));
    Ok(environment)
}

/// A method of Python's strings, lists and mappings.
fn method(
    state: &mut State,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    if let ("format", Some(text)) = (name, value.as_str()) {
        check_width(text)?;
    }
    unknown_method_callback(state, value, name, arguments)
}

fn format(text: &str, arguments: Rest<Value>) -> Result<Value, Error> {
    check_width(text)?;
    formatting::format(FormatStyle::Printf, text, &arguments).map(Value::from)
}

fn indent(
    state: &mut State,
    text: Value,
    width: Option<usize>,
    first: Option<bool>,
    named: Kwargs,
) -> Result<Value, Error> {
    let width = width.map_or_else(|| named.get("width"), |width| Ok(Some(width)))?;
    let first = first.map_or_else(|| named.get("first"), |first| Ok(Some(first)))?;
    let blank: Option<bool> = named.get("blank")?;
    named.assert_all_used()?;
    let width = width.unwrap_or(4);
    if width > WIDEST {
        return Err(too_wide(width));
    }
    let flags = [first, blank].map(|flag| Value::from(flag.unwrap_or(false)));
    let arguments = [text, Value::from(width)].into_iter().chain(flags);
    state.apply_filter(UNCHECKED_INDENT, &arguments.collect::<Vec<_>>())
}

/// Refuses widths that would fill the memory with blanks.
fn check_width(text: &str) -> Result<(), Error> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    match numbers.find(|number| number.len() > 4) {
        None => Ok(()),
        Some(width) => Err(too_wide(width)),
    }
}

fn too_wide(width: impl fmt::Display) -> Error {
    let problem = format!("the width {width} is too large");
    Error::new(ErrorKind::InvalidOperation, problem)
}

fn raise_exception(message: Value) -> Result<Value, Error> {
    let raised = Raised(message.to_string());
    Err(Error::new(ErrorKind::InvalidOperation, raised.0.clone()).with_source(raised))
}

/// The time in the words of C's `strftime`, local as that of Python's `datetime.now()`.
fn strftime(now: Option<DateTime>, format: &str) -> Result<String, Error> {
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
    let value = serde_json::to_value(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, format!("tojson: {error}")))?;
    Ok(style.write(&value))
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
    match text.len() <= WIDEST {
        true => Ok(Some(text)),
        false => Err(too_wide("of an indent")),
    }
}
