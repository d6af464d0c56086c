//! Commands as lines of words.

use std::process::Output;

use crate::common::{cascade, error, stdout};

/// Runs `cascade` or `cascade-lab` with the words of a line.
pub(crate) fn output(line: &str) -> Output {
    cascade(&line.split_whitespace().collect::<Vec<_>>())
}

/// Standard output of a command that must succeed.
pub(crate) fn run(line: &str) -> String {
    stdout(&output(line))
}

/// Standard error of a command that must fail with a message.
pub(crate) fn refused(line: &str) -> String {
    error(&output(line))
}
