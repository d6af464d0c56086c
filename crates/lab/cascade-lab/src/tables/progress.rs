//! Progress of a count.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use cascade_bigram::Status;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressStyle};

use crate::progress::Lines;
use crate::terminal::{self, grouped};

const INTERVAL: Duration = Duration::from_millis(100);

/// Runs some work and shows its progress, on standard error if that is a terminal.
pub(super) fn shown<T: Send>(status: &Status, work: impl FnOnce() -> T + Send) -> T {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // Without a thread for it, there is no display.
        let display = thread::Builder::new().spawn_scoped(scope, || display(status, &done));
        // Ends the display even if the work panics.
        let ender = Ender(&done);
        let result = work();
        drop(ender);
        if let Ok(display) = display {
            display.thread().unpark();
        }
        result
    })
}

struct Ender<'a>(&'a AtomicBool);

impl Drop for Ender<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn display(status: &Status, done: &AtomicBool) {
    if terminal::is_quiet() {
        return;
    }
    let bar = ProgressBar::no_length();
    let begin = Instant::now();
    if bar.is_hidden() {
        return print_lines(status, done, begin);
    }
    while !done.load(Relaxed) {
        show(&bar, status, begin);
        thread::park_timeout(INTERVAL);
    }
    bar.finish_and_clear();
}

/// Without a terminal: a line now and then.
fn print_lines(status: &Status, done: &AtomicBool, begin: Instant) {
    let mut lines = Lines::new(0, "pages", begin);
    while !done.load(Relaxed) {
        if let Some(elapsed) = lines.is_due(Instant::now()) {
            terminal::note(format_args!("progress: {}", line(status, elapsed)));
        }
        thread::park_timeout(INTERVAL);
    }
}

fn line(status: &Status, elapsed: Duration) -> String {
    let Some(reading) = status.reading().filter(|_| !status.merging()) else {
        return format!("merging, {} so far", HumanDuration(elapsed));
    };
    let bytes = HumanBytes(reading.bytes_read());
    let read = match reading.bytes_total() {
        Some(total) => format!("{bytes} of {}", HumanBytes(total)),
        None => bytes.to_string(),
    };
    format!(
        "{read}, {} pages, {} tokens, {} so far",
        grouped(reading.pages()),
        grouped(status.tokens()),
        HumanDuration(elapsed)
    )
}

fn show(bar: &ProgressBar, status: &Status, begin: Instant) {
    if status.merging() {
        bar.set_style(style("{spinner} [{elapsed}] merging"));
        return bar.tick();
    }
    let Some(reading) = status.reading() else {
        return;
    };
    let tokens = status.tokens().saturating_sub(status.resumed());
    let rate = tokens as f64 / begin.elapsed().as_secs_f64().max(1e-3);
    bar.set_message(format!(
        "{} pages, {} tokens, {} tokens/s",
        grouped(reading.pages()),
        grouped(status.tokens()),
        grouped(rate as u64)
    ));
    bar.set_position(reading.bytes_read());
    match reading.bytes_total() {
        Some(total) => {
            bar.set_length(total);
            bar.set_style(style(
                "[{elapsed}] {bar:30} {bytes}/{total_bytes}, {msg}, {eta} left",
            ));
        }
        None => {
            let bytes = HumanBytes(reading.bytes_read());
            bar.set_style(style(&format!(
                "{{spinner}} [{{elapsed}}] {bytes}, {{msg}}"
            )));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
