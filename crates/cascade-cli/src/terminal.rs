//! Printing. Text from outside (prompts, answers, traces, configurations, file names, and errors
//! that quote them) cannot control a terminal.
//!
//! What goes to a terminal has its control characters written as `\u001b`: all but line feed and
//! tab, and those that reorder text. Inside of JSON strings that is the same character, so `--json`
//! keeps its meaning on a terminal too. What goes to a file or a pipe is not changed by a byte.

use std::fmt::{Arguments, Write as _};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, StderrLock, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use serde::Serialize;

/// Where results go: standard output, or a file.
pub type Out = Printer<Box<dyn Write>>;

static QUIET: AtomicBool = AtomicBool::new(false);
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Leaves out notes and progress from now on.
pub fn set_quiet(quiet: bool) {
    QUIET.store(quiet, Relaxed);
}

/// Whether only results, warnings and errors are to be printed.
pub fn is_quiet() -> bool {
    QUIET.load(Relaxed)
}

/// Standard output, locked.
pub fn stdout() -> Out {
    let stdout = io::stdout();
    let styled = AutoStream::choice(&stdout) != ColorChoice::Never;
    let on_terminal = stdout.is_terminal();
    let out = Noting(AutoStream::always(stdout.lock()));
    Printer::new(Box::new(out), on_terminal, styled)
}

/// Whether somebody who read standard output has left.
pub fn reader_is_gone() -> bool {
    READER_GONE.load(Relaxed)
}

/// Prints a text of our own to standard output, with its styles where that shows any.
pub fn print_styled(plain: &str, styled: &str) -> io::Result<()> {
    let stdout = io::stdout();
    let shown = match AutoStream::choice(&stdout) {
        ColorChoice::Never => plain,
        _ => styled,
    };
    let mut out = Noting(AutoStream::always(stdout.lock()));
    out.write_all(shown.as_bytes())?;
    out.flush()
}

/// Standard output, of which is noted if its reader leaves.
struct Noting<W: Write>(W);

impl<W: Write> Noting<W> {
    fn noted<T>(done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|error| {
            let gone = error.kind() == io::ErrorKind::BrokenPipe;
            READER_GONE.fetch_or(gone, Relaxed);
        })
    }
}

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::noted(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::noted(self.0.flush())
    }
}

/// A file in place of standard output: without styles.
pub fn file(file: File) -> Out {
    Printer::new(Box::new(BufWriter::new(file)), false, false)
}

/// Standard error in place of standard output, for what is said of results that go elsewhere.
pub fn aside() -> Out {
    let stderr = io::stderr();
    let styled = AutoStream::choice(&stderr) != ColorChoice::Never;
    let on_terminal = stderr.is_terminal();
    Printer::new(Box::new(AutoStream::always(stderr)), on_terminal, styled)
}

/// Standard error, locked.
pub fn stderr() -> Printer<AutoStream<StderrLock<'static>>> {
    let stderr = io::stderr();
    let styled = AutoStream::choice(&stderr) != ColorChoice::Never;
    let on_terminal = stderr.is_terminal();
    Printer::new(AutoStream::always(stderr.lock()), on_terminal, styled)
}

/// Prints a line to standard error, unless nobody wants to know.
pub fn note(line: Arguments<'_>) {
    if !is_quiet() {
        error(line);
    }
}

/// Prints a line to standard error in any case. That nobody can read it is no reason to stop.
pub fn error(line: Arguments<'_>) {
    let _ = writeln!(stderr(), "{line}");
}

/// Prints a warning to standard error in any case.
pub fn warn(warning: impl std::fmt::Display) {
    error(format_args!("warning: {warning}"));
}

/// A text as a terminal may have it.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) {
            // Writing to a string cannot fail.
            let _ = write!(visible, "\\u{:04x}", u32::from(c));
        } else {
            visible.push(c)
        }
    }
    visible
}

/// Whether a terminal would act on a character, or show others in another order because of it.
fn is_control(c: char) -> bool {
    let reorders = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    reorders || (c.is_control() && c != '\n' && c != '\t')
}

/// Writes to a terminal what it may have, and to anything else every byte as it is.
pub struct Printer<W: Write> {
    out: W,
    on_terminal: bool,
    styled: bool,
    /// The beginning of a character whose end is in the next write.
    begun: Vec<u8>,
}

impl<W: Write> Printer<W> {
    fn new(out: W, on_terminal: bool, styled: bool) -> Self {
        Self {
            out,
            on_terminal,
            styled,
            begun: Vec::new(),
        }
    }

    /// Writes a text in a style of our own, if this stream shows styles.
    pub fn styled(&mut self, style: Style, text: &str) -> io::Result<()> {
        if !self.styled || style == Style::new() {
            return self.write_all(text.as_bytes());
        }
        self.end_begun()?;
        write!(self.out, "{style}")?;
        self.write_all(text.as_bytes())?;
        write!(self.out, "{style:#}")
    }

    /// Whether it shows styles.
    pub fn is_styled(&self) -> bool {
        self.styled
    }

    fn write_visible(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.out.write_all(visible(chunk.valid()).as_bytes())?;
            let rest = chunk.invalid();
            if chunks.peek().is_none() && is_beginning(rest) {
                self.begun = rest.to_vec()
            } else {
                self.write_invalid(rest)?
            }
        }
        Ok(())
    }

    /// Bytes that are no text: among them are those that some terminals take for C1 controls.
    fn write_invalid(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes
            .iter()
            .try_for_each(|byte| write!(self.out, "\\x{byte:02x}"))
    }

    fn end_begun(&mut self) -> io::Result<()> {
        let begun = std::mem::take(&mut self.begun);
        self.write_invalid(&begun)
    }
}

/// Writes a value as a line of JSON, which no reader takes for several.
pub fn write_json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let line = cascade_core::fs::one_line(serde_json::to_string(value)?);
    writeln!(out, "{line}")
}

/// Whether more bytes could make a character of these.
fn is_beginning(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

impl<W: Write> Write for Printer<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.on_terminal {
            self.write_visible(bytes)?
        } else {
            self.out.write_all(bytes)?
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Printer<W> {
    fn drop(&mut self) {
        let _ = self.end_begun();
    }
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(on_terminal: bool, writes: &[&[u8]]) -> String {
        let mut bytes = Vec::new();
        let mut printer = Printer::new(&mut bytes, on_terminal, false);
        for write in writes {
            printer.write_all(write).unwrap();
            printer.flush().unwrap();
        }
        drop(printer);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_terminal_gets_no_control_character_but_line_feed_and_tab() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        let shown = printed(true, &[all.as_bytes()]);
        assert!(!shown.chars().any(is_control));
        for (character, is) in [
            ("\n\t", "\n\t"),
            ("\u{1b}]0;title\u{7}", "\\u001b]0;title\\u0007"),
            ("\r", "\\u000d"),
            ("\u{7f}\u{9b}", "\\u007f\\u009b"),
            ("\u{202e}abc\u{2066}", "\\u202eabc\\u2066"),
            ("é 漢 👩‍👩‍👧 العربية", "é 漢 👩‍👩‍👧 العربية"),
        ] {
            assert_eq!(printed(true, &[character.as_bytes()]), is);
        }
    }

    #[test]
    fn characters_may_be_cut_at_any_byte() {
        let text = "a\u{1b}[2Jé\u{9b}漢\u{202e}👧".as_bytes();
        let whole = printed(true, &[text]);
        for cut in 0..text.len() {
            assert_eq!(printed(true, &[&text[..cut], &text[cut..]]), whole);
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(printed(true, &bytes), whole);
    }

    #[test]
    fn bytes_that_are_no_text_are_visible() {
        assert_eq!(printed(true, &[b"a\x9b", b"31m\xff"]), "a\\x9b31m\\xff");
        assert_eq!(printed(true, &[b"\xe6\xbc"]), "\\xe6\\xbc");
        assert_eq!(printed(true, &[b"\xe6\xbc", b"x"]), "\\xe6\\xbcx");
    }

    #[test]
    fn files_and_pipes_get_every_byte() {
        let mut bytes = Vec::new();
        let all: Vec<u8> = (0..=255).collect();
        Printer::new(&mut bytes, false, false)
            .write_all(&all)
            .unwrap();
        assert_eq!(bytes, all);
    }

    #[test]
    fn our_own_styles_pass_and_what_is_inside_them_does_not() {
        let bold = Style::new().bold();
        for (styled, expected) in [
            (true, "\u{1b}[1m\\u001b[0m\u{1b}[0m"),
            (false, "\\u001b[0m"),
        ] {
            let mut bytes = Vec::new();
            let mut printer = Printer::new(&mut bytes, true, styled);
            printer.styled(bold, "\u{1b}[0m").unwrap();
            drop(printer);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }

    #[test]
    fn json_keeps_its_meaning_on_a_terminal() {
        let value = serde_json::json!("\u{1b}\u{7f}\u{9b}\u{202e}");
        let shown = printed(true, &[value.to_string().as_bytes()]);
        assert!(!shown.chars().any(is_control));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            value
        );
    }

    #[test]
    fn groups_digits_by_three() {
        let grouped: Vec<String> = [0, 999, 1000, 1_234_567].map(super::grouped).into();
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
    }
}
