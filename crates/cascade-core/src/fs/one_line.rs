//! JSON as one line.

/// JSON that has no line break, as text that no reader takes for several lines: U+0085, U+2028 and
/// U+2029, which JSON allows in strings as they are, are escaped. Python's `splitlines` and some
/// editors take them for the end of a line.
pub fn one_line(json: String) -> String {
    const BREAKS: [(char, &str); 3] = [
        ('\u{85}', r"\u0085"),
        ('\u{2028}', r"\u2028"),
        ('\u{2029}', r"\u2029"),
    ];
    let mut line = json;
    for (c, escaped) in BREAKS {
        if line.contains(c) {
            line = line.replace(c, escaped);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    #[test]
    fn breaks_that_json_allows_are_escaped() {
        let json = "{\"a\": \"b\u{2028}c\u{2029}d\u{85}\u{e9}\"}".to_owned();
        let escaped = "{\"a\": \"b\\u2028c\\u2029d\\u0085\u{e9}\"}";
        assert_eq!(super::one_line(json), escaped);
    }
}
