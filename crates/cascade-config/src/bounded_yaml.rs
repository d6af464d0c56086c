//! YAML that may come from anybody.

use serde::de::{DeserializeOwned, Error};

/// The largest configuration that is read, in bytes: some two hundred times what our own take. The
/// parser's time is bounded by this, as what one anchor stands for may be repeated by aliases.
pub const LARGEST_CONFIG: u64 = 256 << 10;

/// Collections within collections at most, before the parser is asked: it looks at all open ones
/// whenever it reads a token, and then refuses more than 128 anyway.
pub const DEEPEST: usize = 1000;

/// Reads YAML of at most [`LARGEST_CONFIG`] bytes, with or without a byte order mark.
///
/// # Errors
/// More text, deeper nesting than [`DEEPEST`], and what the parser refuses: no YAML, and content of
/// another type than `T`.
pub fn from_yaml<T: DeserializeOwned>(text: &str) -> Result<T, serde_yaml::Error> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() as u64 > LARGEST_CONFIG {
        let kib = LARGEST_CONFIG >> 10;
        let problem = format!(
            "it has {} bytes, and {kib} KiB are read at most",
            text.len()
        );
        return Err(serde_yaml::Error::custom(problem));
    }
    if let Some(line) = too_deep(text) {
        let problem = format!("line {line} nests more than {DEEPEST} lists or maps in each other");
        return Err(serde_yaml::Error::custom(problem));
    }
    serde_yaml::from_str(text)
}

/// The line on which more collections are open than may be. Brackets in strings and comments count,
/// because telling them apart takes a parser.
fn too_deep(text: &str) -> Option<usize> {
    let mut open = 0usize;
    let deep = |line: &str| {
        for byte in line.bytes() {
            match byte {
                b'[' | b'{' => open += 1,
                b']' | b'}' => open = open.saturating_sub(1),
                _ => continue,
            }
            if open > DEEPEST {
                return true;
            }
        }
        let indicators = line.split_ascii_whitespace();
        indicators
            .take_while(|word| matches!(*word, "-" | "?" | ":"))
            .count()
            > DEEPEST
    };
    text.lines().position(deep).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let read: Result<Vec<Vec<String>>, _> = from_yaml(text);
        read.unwrap_err().to_string()
    }

    #[test]
    fn what_would_keep_the_parser_busy_is_refused_before_it() {
        for deep in ["[", "{", "{a: ", "- ", "? "] {
            let text = deep.repeat(LARGEST_CONFIG as usize / deep.len() - 1);
            let problem = problem(&format!("\n{text}"));
            assert!(problem.contains("line 2 nests more than 1000"), "{problem}");
        }
        let large = "#".repeat(LARGEST_CONFIG as usize + 1);
        assert!(problem(&large).contains("256 KiB"), "{large}");
    }

    #[test]
    fn lists_and_brackets_in_strings_are_read() {
        let rows = "- [\"[[[\", ']]]']\n".repeat(5000);
        let read: Vec<Vec<String>> = from_yaml(&format!("\u{feff}{rows}")).unwrap();
        assert_eq!(read.len(), 5000);
        assert_eq!(read[0], ["[[[", "]]]"]);
    }
}
