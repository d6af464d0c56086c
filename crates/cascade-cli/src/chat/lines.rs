//! Where messages come from: a terminal with line editing, or a pipe.

use std::io::{self, BufRead};

use anyhow::{Context, Result};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

const PROMPT: &str = "> ";
const CONTINUED: &str = ". ";

/// Begins and ends a message of several lines.
const FENCE: &str = "\"\"\"";

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of a pipe.
    End,
}

/// A source of lines.
pub(super) trait Lines {
    /// The next line, without its end.
    fn next(&mut self, prompt: &str) -> Result<Read>;

    /// Remembers a message for the arrow keys.
    fn remember(&mut self, _: &str) {}
}

/// Standard input.
pub(super) fn open(interactive: bool) -> Result<Box<dyn Lines>> {
    if !interactive {
        return Ok(Box::new(Piped(io::stdin().lock())));
    }
    let config = Config::builder().bracketed_paste(true).build();
    let editor = DefaultEditor::with_config(config).context("the terminal cannot be used")?;
    Ok(Box::new(Terminal(editor)))
}

/// The next message: a line, which goes on after a backslash at its end, or the lines between two
/// fences.
pub(super) fn message(lines: &mut dyn Lines) -> Result<Read> {
    let mut text = match lines.next(PROMPT)? {
        Read::Text(line) if line.trim() == FENCE => match fenced(lines)? {
            Read::Text(text) => text,
            other => return Ok(other),
        },
        Read::Text(line) => line,
        other => return Ok(other),
    };
    while let Some(start) = text.strip_suffix('\\') {
        match lines.next(CONTINUED)? {
            Read::Text(line) => text = format!("{start}\n{line}"),
            Read::Interrupted => return Ok(Read::Interrupted),
            Read::End => {
                text = start.to_owned();
                break;
            }
        }
    }
    lines.remember(&text);
    Ok(Read::Text(text))
}

/// Lines up to the closing fence, or to the end.
fn fenced(lines: &mut dyn Lines) -> Result<Read> {
    let mut all = Vec::new();
    loop {
        match lines.next(CONTINUED)? {
            Read::Text(line) if line.trim() == FENCE => break,
            Read::Text(line) => all.push(line),
            Read::Interrupted => return Ok(Read::Interrupted),
            Read::End => break,
        }
    }
    Ok(Read::Text(all.join("\n")))
}

struct Terminal(DefaultEditor);

impl Lines for Terminal {
    fn next(&mut self, prompt: &str) -> Result<Read> {
        match self.0.readline(prompt) {
            Ok(line) => Ok(Read::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Read::Interrupted),
            Err(ReadlineError::Eof) => Ok(Read::End),
            Err(error) => Err(error).context("the terminal cannot be read"),
        }
    }

    fn remember(&mut self, text: &str) {
        // A history that is full of itself is no reason to stop.
        let _ = self.0.add_history_entry(text);
    }
}

struct Piped<R>(R);

impl<R: BufRead> Lines for Piped<R> {
    fn next(&mut self, _: &str) -> Result<Read> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line);
        if read.context("standard input cannot be read as UTF-8")? == 0 {
            return Ok(Read::End);
        }
        let line = line.strip_suffix('\n').unwrap_or(&line);
        Ok(Read::Text(
            line.strip_suffix('\r').unwrap_or(line).to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(input: &str) -> Vec<String> {
        let mut lines = Piped(input.as_bytes());
        let mut all = Vec::new();
        while let Read::Text(text) = message(&mut lines).unwrap() {
            all.push(text);
        }
        all
    }

    #[test]
    fn messages_have_one_line_or_several() {
        assert_eq!(messages("one\r\ntwo"), ["one", "two"]);
        assert_eq!(
            messages("one\\\ntwo\\\nthree\nfour\n"),
            ["one\ntwo\nthree", "four"]
        );
        assert_eq!(messages("\"\"\"\na\n\n/b\n\"\"\"\nc\n"), ["a\n\n/b", "c"]);
        assert_eq!(messages("open\\"), ["open"]);
        assert_eq!(messages("\"\"\"\nopen"), ["open"]);
        assert!(messages("").is_empty());
    }
}
