//! Progress of what takes minutes: a bar on a terminal, and otherwise a line now and then.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use crate::terminal;
use crate::terminal::grouped;

/// When the first line is printed, and the further ones.
const FIRST: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_secs(30);

/// Progress on standard error. Cleared when it is dropped.
pub struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
    message: String,
}

impl Progress {
    /// Progress of so many units of work, named in the plural.
    pub fn new(length: usize, unit: &'static str) -> Self {
        let on_terminal = std::io::stderr().is_terminal() && !terminal::is_quiet();
        Self::with(length as u64, unit, on_terminal)
    }

    fn with(length: u64, unit: &'static str, on_terminal: bool) -> Self {
        if !on_terminal {
            return Self {
                bar: ProgressBar::hidden(),
                lines: Some(Lines::new(length, unit, Instant::now())),
                message: String::new(),
            };
        }
        let template =
            format!("[{{elapsed}}] {{bar:30}} {{pos}}/{{len}} {unit}{{msg}}, {{eta}} left");
        let style = ProgressStyle::with_template(&template)
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Self {
            bar: ProgressBar::new(length).with_style(style),
            lines: None,
            message: String::new(),
        }
    }

    /// What stands after the number of units.
    pub fn say(&mut self, message: &str) {
        self.message = terminal::visible(message);
        self.bar.set_message(format!(", {}", self.message));
        self.print();
    }

    /// A unit is done.
    pub fn step(&mut self) {
        self.bar.inc(1);
        if let Some(lines) = &mut self.lines {
            lines.done += 1;
        }
        self.print();
    }

    fn print(&mut self) {
        let line = self
            .lines
            .as_mut()
            .and_then(|lines| lines.due(&self.message, Instant::now()));
        if let Some(line) = line {
            terminal::note(format_args!("{line}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Plain lines, of which few are printed.
pub struct Lines {
    unit: &'static str,
    length: u64,
    done: u64,
    begun: Instant,
    due: Duration,
}

impl Lines {
    pub fn new(length: u64, unit: &'static str, begun: Instant) -> Self {
        Self {
            unit,
            length,
            done: 0,
            begun,
            due: FIRST,
        }
    }

    /// The line, if it is time for one.
    fn due(&mut self, message: &str, now: Instant) -> Option<String> {
        let elapsed = self.is_due(now)?;
        let mut line = format!(
            "progress: {} of {} {}",
            grouped(self.done),
            grouped(self.length),
            self.unit
        );
        if !message.is_empty() {
            line += &format!(", {message}");
        }
        line += &format!(", {} so far", HumanDuration(elapsed));
        if self.done > 0 && self.done < self.length {
            let left = elapsed.mul_f64((self.length - self.done) as f64 / self.done as f64);
            line += &format!(", about {} left", HumanDuration(left));
        }
        Some(line)
    }

    /// The time since the beginning, if it is time for a line.
    pub fn is_due(&mut self, now: Instant) -> Option<Duration> {
        let elapsed = now.saturating_duration_since(self.begun);
        if elapsed < self.due {
            return None;
        }
        self.due = elapsed + EVERY;
        Some(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_and_say_how_far_it_is() {
        let begun = Instant::now();
        let mut lines = Lines::new(2000, "records", begun);
        let mut printed = Vec::new();
        for second in 0..100 {
            lines.done += 10;
            let now = begun + Duration::from_secs(second);
            printed.extend(lines.due("12 tokens", now));
        }
        assert_eq!(printed.len(), 3, "at 10, 40 and 70 seconds: {printed:?}");
        assert_eq!(
            printed[0],
            "progress: 110 of 2,000 records, 12 tokens, 10 seconds so far, about 3 minutes left"
        );
    }

    #[test]
    fn what_is_short_prints_nothing() {
        let mut lines = Lines::new(3, "records", Instant::now());
        lines.done = 3;
        assert_eq!(lines.due("", Instant::now()), None);
    }
}
