//! Command lines as text, and texts that are looked for.

use std::process::Output;

use crate::common::cascade;

/// Runs a command line, words between spaces, in which each `{}` is one of the values.
pub(crate) fn line(text: &str, values: &[&str]) -> Output {
    let mut values = values.iter().copied();
    let words = text.split_whitespace().map(|word| match word {
        "{}" => values.next().unwrap(),
        word => word,
    });
    cascade(&words.collect::<Vec<_>>())
}

/// Checks that a text has all parts of a list, between which is ` … `.
pub(crate) fn assert_says(text: &str, parts: &str) {
    for part in parts.split(" … ") {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}
