//! What people see of a download, on standard error.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

const TEMPLATE: &str =
    "{msg} [{elapsed_precise}] [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} ({eta})";
const WITHOUT_SIZE: &str = "{msg} [{elapsed_precise}] {bytes} {bytes_per_sec}";
/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Shows downloads, or does not.
#[derive(Debug)]
pub(super) struct Display {
    on: bool,
}

impl Display {
    pub(super) fn new(on: bool) -> Self {
        Self { on }
    }

    /// A remark.
    pub(super) fn say(&self, text: &str) {
        if self.on {
            line(format_args!("{text}"));
        }
    }

    /// The display of one file, of which `done` bytes are there.
    pub(super) fn file(&self, name: &str, size: Option<u64>, done: u64) -> FileDisplay {
        if !self.on {
            return FileDisplay::Bar(ProgressBar::hidden());
        }
        if !std::io::stderr().is_terminal() {
            return FileDisplay::Lines {
                name: name.to_owned(),
                size,
                last: Instant::now(),
            };
        }
        let bar = size.map_or_else(ProgressBar::no_length, ProgressBar::new);
        let template = if size.is_some() {
            TEMPLATE
        } else {
            WITHOUT_SIZE
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(end_of(name));
        bar.set_position(done);
        bar.reset_eta();
        FileDisplay::Bar(bar)
    }
}

/// The display of one file.
pub(super) enum FileDisplay {
    Bar(ProgressBar),
    /// Where there is no terminal: a line now and then.
    Lines {
        name: String,
        size: Option<u64>,
        last: Instant,
    },
}

impl FileDisplay {
    /// So many bytes are there.
    pub(super) fn at(&mut self, done: u64) {
        match self {
            Self::Bar(bar) => bar.set_position(done),
            Self::Lines { name, size, last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                let of = size.map_or_else(String::new, |size| format!(" of {}", HumanBytes(size)));
                line(format_args!("{name}: {}{of}", HumanBytes(done)));
            }
            Self::Lines { .. } => {}
        }
    }

    /// The file is there.
    pub(super) fn finish(&self) {
        if let Self::Bar(bar) = self {
            bar.finish();
        }
    }
}

/// A bar whose download failed stays as it was.
impl Drop for FileDisplay {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self
            && !bar.is_finished()
        {
            bar.abandon();
        }
    }
}

/// Writes a line to standard error. That nobody can read it is no reason to stop.
fn line(text: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The last 30 characters.
fn end_of(name: &str) -> String {
    match name.char_indices().rev().nth(29) {
        Some((at, _)) if at > 0 => format!("..{}", &name[at..]),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(end_of("config.json"), "config.json");
        assert_eq!(end_of(&"é".repeat(30)), "é".repeat(30));
        assert_eq!(end_of(&"é".repeat(31)), format!("..{}", "é".repeat(30)));
    }
}
