//! Command lines as text, and texts that are looked for.

use std::process::Output;

use crate::common::cascade;

/// The words of a command line, between spaces; each `{}` is one of the values.
pub(crate) fn words<'t>(text: &'t str, values: &[&'t str]) -> Vec<&'t str> {
    let mut values = values.iter().copied();
    let words = text.split_whitespace().map(|word| match word {
        "{}" => values.next().unwrap(),
        word => word,
    });
    words.collect()
}

/// Runs the command line that [`words`] makes.
pub(crate) fn line(text: &str, values: &[&str]) -> Output {
    cascade(&words(text, values))
}

/// Checks that a text has all parts of a list, between which is ` … `.
pub(crate) fn assert_says(text: &str, parts: &str) {
    for part in parts.split(" … ") {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}
