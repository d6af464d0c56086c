//! JSON as Python's `json.dumps` writes it, which is what templates expect of `tojson`.

use serde_json::Value;

/// A text that is no longer written on when it is too long.
struct Text {
    text: String,
    longest: usize,
}

/// The arguments of `json.dumps` that templates may give.
pub(crate) struct Style {
    pub(crate) ensure_ascii: bool,
    /// What one level is indented by; everything in one line if `None`.
    pub(crate) indent: Option<String>,
    /// Between items, and between a key and its value.
    pub(crate) separators: Option<(String, String)>,
    pub(crate) sort_keys: bool,
}

impl Style {
    /// The text, unless it would be much longer than `longest`.
    pub(crate) fn write(&self, value: &Value, longest: usize) -> Option<String> {
        let mut out = Text {
            text: String::new(),
            longest,
        };
        self.value(&mut out, value, 0);
        (out.text.len() <= longest).then_some(out.text)
    }

    fn value(&self, out: &mut Text, value: &Value, depth: usize) {
        match value {
            Value::Number(number) if number.is_f64() => {
                out.text
                    .push_str(&float(number.as_f64().unwrap_or_default()));
            }
            Value::String(text) => self.string(out, text),
            Value::Array(items) => {
                let items = items.iter().map(|item| (None, item)).collect();
                self.container(out, ['[', ']'], items, depth);
            }
            Value::Object(map) => {
                let mut items: Vec<_> = map.iter().map(|(k, v)| (Some(k), v)).collect();
                if self.sort_keys {
                    items.sort_by_key(|(key, _)| *key);
                }
                self.container(out, ['{', '}'], items, depth);
            }
            other => out.text.push_str(&other.to_string()),
        }
    }

    fn container(
        &self,
        out: &mut Text,
        [open, close]: [char; 2],
        items: Vec<(Option<&String>, &Value)>,
        depth: usize,
    ) {
        out.text.push(open);
        let any = !items.is_empty();
        for (at, (key, value)) in items.into_iter().enumerate() {
            if out.text.len() > out.longest {
                return;
            }
            if at > 0 {
                out.text.push_str(self.between_items());
            }
            self.line(out, depth + 1);
            if let Some(key) = key {
                self.string(out, key);
                out.text
                    .push_str(self.separators.as_ref().map_or(": ", |(_, colon)| colon));
            }
            self.value(out, value, depth + 1);
        }
        if any {
            self.line(out, depth);
        }
        out.text.push(close);
    }

    fn between_items(&self) -> &str {
        match (&self.separators, &self.indent) {
            (Some((comma, _)), _) => comma,
            (None, Some(_)) => ",",
            (None, None) => ", ",
        }
    }

    fn line(&self, out: &mut Text, depth: usize) {
        if let Some(indent) = &self.indent {
            out.text.push('\n');
            out.text.push_str(&indent.repeat(depth));
        }
    }

    fn string(&self, out: &mut Text, text: &str) {
        out.text.push('"');
        for c in text.chars() {
            match c {
                '"' => out.text.push_str("\\\""),
                '\\' => out.text.push_str("\\\\"),
                '\n' => out.text.push_str("\\n"),
                '\r' => out.text.push_str("\\r"),
                '\t' => out.text.push_str("\\t"),
                '\u{8}' => out.text.push_str("\\b"),
                '\u{c}' => out.text.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.text.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.text.push(c),
            }
        }
        out.text.push('"');
    }
}

/// Python's `repr` of a float: an exponent from 1e16 on and below 1e-4.
fn float(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{value:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_pythons() {
        for (value, text) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e20, "1e+20"),
            (1.5e-7, "1.5e-07"),
            (-2.5, "-2.5"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (0.0001, "0.0001"),
            (0.0, "0.0"),
        ] {
            assert_eq!(float(value), text);
        }
    }
}
