//! Where messages come from: a terminal with line editing, or a pipe.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

use crate::stdin::LONGEST;
use crate::terminal;

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

/// Standard input; a terminal with the messages of a file, to which further ones are added.
pub(super) fn open(interactive: bool, history: Option<&Path>) -> Result<Box<dyn Lines>> {
    if !interactive {
        return Ok(Box::new(Piped(io::stdin().lock())));
    }
    let config = Config::builder().bracketed_paste(true).build();
    let mut editor = DefaultEditor::with_config(config).context("the terminal cannot be used")?;
    if let Some(file) = history.filter(|file| file.exists()) {
        let at = || format!("--history: {} cannot be read", file.display());
        let text = cascade_core::fs::read_text(file, LONGEST).with_context(at)?;
        for line in text.lines() {
            let message: String = serde_json::from_str(line).with_context(at)?;
            let _ = editor.add_history_entry(message);
        }
    }
    let history = history.map(Path::to_owned);
    Ok(Box::new(Terminal { editor, history }))
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
    while text.ends_with('\\') {
        text.pop();
        match lines.next(CONTINUED)? {
            Read::Text(line) => add_line(&mut text, &line)?,
            Read::Interrupted => return Ok(Read::Interrupted),
            Read::End => break,
        }
    }
    lines.remember(&text);
    Ok(Read::Text(text))
}

/// Lines up to the closing fence, or to the end.
fn fenced(lines: &mut dyn Lines) -> Result<Read> {
    let mut all: Option<String> = None;
    loop {
        match lines.next(CONTINUED)? {
            Read::Text(line) if line.trim() == FENCE => break,
            Read::Text(line) => match &mut all {
                Some(text) => add_line(text, &line)?,
                None => all = Some(line),
            },
            Read::Interrupted => return Ok(Read::Interrupted),
            Read::End => break,
        }
    }
    Ok(Read::Text(all.unwrap_or_default()))
}

/// Adds a line to a message.
fn add_line(text: &mut String, line: &str) -> Result<()> {
    check_length(text.len() + 1 + line.len())?;
    text.push('\n');
    text.push_str(line);
    Ok(())
}

/// Refuses a message that no model reads, before it fills the memory.
fn check_length(bytes: usize) -> Result<()> {
    ensure!(
        bytes as u64 <= LONGEST,
        "a message on standard input has more than {} MiB; end messages with a line break",
        LONGEST >> 20
    );
    Ok(())
}

struct Terminal {
    editor: DefaultEditor,
    /// Where messages are kept, a JSON string on each line.
    history: Option<PathBuf>,
}

impl Lines for Terminal {
    fn next(&mut self, prompt: &str) -> Result<Read> {
        match self.editor.readline(prompt) {
            Ok(line) => Ok(Read::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Read::Interrupted),
            Err(ReadlineError::Eof) => Ok(Read::End),
            // A paste in another encoding: what was typed is lost, but not the conversation.
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                terminal::warn(
                    "the line has bytes that are not UTF-8, and was left out; type it again",
                );
                self.next(prompt)
            }
            Err(error) => Err(error).context("the terminal cannot be read"),
        }
    }

    fn remember(&mut self, text: &str) {
        // A history that is full of itself is no reason to stop.
        let _ = self.editor.add_history_entry(text);
        let Some(file) = &self.history else {
            return;
        };
        let opened = File::options().append(true).create(true).open(file);
        // A message may have several lines; a JSON string has one.
        let line = serde_json::Value::from(text);
        if let Err(error) = opened.and_then(|mut file| writeln!(file, "{line}")) {
            terminal::warn(format_args!("--history: {}: {error}", file.display()));
            self.history = None;
        }
    }
}

struct Piped<R>(R);

impl<R: BufRead> Lines for Piped<R> {
    fn next(&mut self, _: &str) -> Result<Read> {
        let mut line = Vec::new();
        let mut limited = self.0.by_ref().take(LONGEST + 1);
        let read = limited.read_until(b'\n', &mut line);
        if read.context("standard input cannot be read")? == 0 {
            return Ok(Read::End);
        }
        check_length(line.len())?;
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        Ok(Read::Text(text_of(
            line.strip_suffix(b"\r").unwrap_or(line),
        )))
    }
}

/// A line as text. Bytes that are none are replaced, and told of.
fn text_of(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    if let Cow::Owned(replaced) = &text {
        terminal::warn(format!(
            "a line has bytes that are not UTF-8; the model is asked \"{}\"",
            terminal::visible(replaced)
        ));
    }
    text.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(input: impl AsRef<[u8]>) -> Vec<String> {
        let mut lines = Piped(input.as_ref());
        let mut all = Vec::new();
        while let Read::Text(text) = message(&mut lines).unwrap() {
            all.push(text);
        }
        all
    }

    #[test]
    fn messages_are_not_endless() {
        let long = "a".repeat(100_000);
        for (begin, again) in [
            ("", "\0".to_owned()),
            ("", format!("{long}\\\n")),
            ("\"\"\"\n", format!("{long}\n")),
        ] {
            let bytes = begin.bytes().chain(again.bytes().cycle());
            let mut lines = Piped(io::BufReader::new(Endless(bytes)));
            let error = message(&mut lines).unwrap_err().to_string();
            assert!(error.contains("64 MiB"), "{error}");
        }
    }

    /// Bytes without end.
    struct Endless<I>(I);

    impl<I: Iterator<Item = u8>> io::Read for Endless<I> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let pairs = buffer.iter_mut().zip(&mut self.0);
            Ok(pairs.map(|(to, byte)| *to = byte).count())
        }
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
        assert_eq!(messages(b"a\xff\nb"), ["a\u{fffd}", "b"]);
    }
}
