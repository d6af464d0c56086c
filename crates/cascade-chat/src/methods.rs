//! Methods of Python's texts, lists and mappings that the library has not, or has otherwise.

use minijinja::Error;
use minijinja::value::{Kwargs, Tuple, Value, ValueKind, from_args};

use crate::growing;
use crate::limits::{make_text, refused};

/// What a method returns, if it is one of these. Its arguments were read, and their items counted.
pub(crate) fn called(value: &Value, name: &str, given: &[Value]) -> Result<Option<Value>, Error> {
    if let Some(result) = growing::changed(value, name, given)? {
        return Ok(Some(result));
    }
    match (value.as_str(), value.kind()) {
        (Some(text), _) => of_text(text, name, given),
        (None, ValueKind::Seq) if name == "index" => {
            let (wanted,): (&Value,) = from_args(given)?;
            let at = value.try_iter()?.position(|item| item == *wanted);
            let at = at.ok_or_else(|| refused("the value is not in the list"))?;
            Ok(Some(Value::from(at)))
        }
        (None, ValueKind::Seq | ValueKind::Map) if name == "copy" => {
            let () = from_args(given)?;
            Ok(Some(value.clone()))
        }
        _ => Ok(None),
    }
}

fn of_text(text: &str, name: &str, given: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(given)?;
            text.strip_prefix(prefix).unwrap_or(text).into()
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(given)?;
            text.strip_suffix(suffix).unwrap_or(text).into()
        }
        "partition" | "rpartition" => {
            let (at,): (&str,) = from_args(given)?;
            parts(text, separator(at)?, name == "rpartition")
        }
        "split" | "rsplit" => split(text, given, name == "rsplit")?,
        "center" | "ljust" | "rjust" | "zfill" => padded(text, name, given)?.into(),
        "casefold" => text.to_lowercase().replace('ß', "ss").into(),
        "index" | "rindex" => {
            let (wanted,): (&str,) = from_args(given)?;
            let at = if name == "index" {
                text.find(wanted)
            } else {
                text.rfind(wanted)
            };
            let at = at.ok_or_else(|| refused(format!("{name}: {wanted:?} is not in the text")))?;
            Value::from(text[..at].chars().count())
        }
        "isdecimal" => (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())).into(),
        _ => return Ok(None),
    }))
}

fn separator(text: &str) -> Result<&str, Error> {
    if text.is_empty() {
        Err(refused("a text cannot be cut at an empty one"))
    } else {
        Ok(text)
    }
}

/// What stands before a text, the text, and what stands behind it.
fn parts(text: &str, at: &str, last: bool) -> Value {
    let (found, absent) = if last {
        (text.rsplit_once(at), ["", "", text])
    } else {
        (text.split_once(at), [text, "", ""])
    };
    let parts = found.map_or(absent, |(before, behind)| [before, at, behind]);
    Value::from(Tuple::from(parts.map(Value::from).to_vec()))
}

/// `split(sep, maxsplit)`, from the right if so wanted.
fn split(text: &str, given: &[Value], right: bool) -> Result<Value, Error> {
    let (placed, named) = match given {
        [placed @ .., last] if last.is_kwargs() => (placed, Kwargs::try_from(last.clone())?),
        _ => (given, Kwargs::from_iter([] as [(&str, Value); 0])),
    };
    let (sep, most): (Option<&str>, Option<i64>) = from_args(placed)?;
    let (sep, most) = (sep.or(named.get("sep")?), most.or(named.get("maxsplit")?));
    let sep = sep.map(separator).transpose()?;
    named.assert_all_used()?;
    let most = most.and_then(|most| usize::try_from(most).ok());
    let most = most.unwrap_or(usize::MAX - 1);
    let mut pieces: Vec<&str> = match (sep, right) {
        (Some(sep), false) => text.splitn(most + 1, sep).collect(),
        (Some(sep), true) => text.rsplitn(most + 1, sep).collect(),
        (None, _) => split_at_blanks(text, most, right),
    };
    if right {
        pieces.reverse();
    }
    Ok(pieces.into_iter().map(Value::from).collect())
}

/// The words of a text, the first ones or, from the right, the last ones, and what is left of it.
fn split_at_blanks(text: &str, most: usize, right: bool) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = if right {
            rest.trim_end()
        } else {
            rest.trim_start()
        };
        if rest.is_empty() {
            return words;
        }
        let blank = if right {
            rest.rfind(char::is_whitespace)
        } else {
            rest.find(char::is_whitespace)
        };
        let Some(at) = blank.filter(|_| words.len() < most) else {
            words.push(rest);
            return words;
        };
        let (before, behind) = rest.split_at(at);
        if right {
            words.push(behind.trim_start());
            rest = before;
        } else {
            words.push(before);
            rest = behind;
        }
    }
}

/// A text that is as wide as asked.
fn padded(text: &str, name: &str, given: &[Value]) -> Result<String, Error> {
    let (width, fill): (usize, Option<char>) = from_args(given)?;
    let missing = width.saturating_sub(text.chars().count());
    make_text(text.len().saturating_add(missing.saturating_mul(4)))?;
    let pad = |count: usize| fill.unwrap_or(' ').to_string().repeat(count);
    Ok(match name {
        "ljust" => format!("{text}{}", pad(missing)),
        "rjust" => format!("{}{text}", pad(missing)),
        "zfill" => {
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            format!("{sign}{}{digits}", "0".repeat(missing))
        }
        // The odd blank is on the left if the width is odd, as CPython has it.
        _ => {
            let left = missing / 2 + (missing & width & 1);
            format!("{}{text}{}", pad(left), pad(missing - left))
        }
    })
}
