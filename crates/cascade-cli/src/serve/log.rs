//! The log of `cascade serve`, which nobody waits for.
//!
//! Lines are written to standard error by a thread of their own. What cannot be written, because
//! the reader is gone, the disk is full, or more waits than may, is passed over and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::panics;

/// Bytes of lines that wait to be written, at most.
const MOST_WAITING: usize = 4 << 20;

/// Time for the last lines when the server ends.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Where lines go. Clones are the same log.
#[derive(Clone)]
pub(super) struct Log {
    messages: Sender<Message>,
    waiting: Arc<AtomicUsize>,
    lost: Arc<AtomicU64>,
}

enum Message {
    Line(Vec<u8>),
    /// Everything before it has been written, once its sender is dropped.
    End(Sender<()>),
}

impl Log {
    /// Begins a log that writes to `out` and counts what is lost.
    pub(super) fn begin(
        out: impl Write + Send + 'static,
        lost: &Arc<AtomicU64>,
    ) -> Result<(Self, Ending)> {
        let (messages, written) = channel();
        let log = Self {
            messages,
            waiting: Arc::default(),
            lost: Arc::clone(lost),
        };
        let of_thread = log.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || of_thread.write_all_of(&written, out))
            .context("no thread can be started to write the log")?;
        Ok((log.clone(), Ending(log)))
    }

    fn write_all_of(&self, lines: &Receiver<Message>, mut out: impl Write) {
        for message in lines {
            let line = match message {
                Message::Line(line) => line,
                Message::End(ends) => {
                    drop(ends);
                    continue;
                }
            };
            if out.write_all(&line).is_err() {
                self.lost.fetch_add(1, Relaxed);
            }
            self.waiting.fetch_sub(line.len(), Relaxed);
        }
    }
}

/// Takes each write as a line, and never fails.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let waiting = self.waiting.fetch_add(line.len(), Relaxed);
        let taken = waiting == 0 || waiting + line.len() <= MOST_WAITING;
        if !taken || self.messages.send(Message::Line(line.to_vec())).is_err() {
            self.waiting.fetch_sub(line.len(), Relaxed);
            self.lost.fetch_add(1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Has panics from now on be said in the log: who prints them waits for standard error.
pub(super) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let (thread, at) = (thread.name(), panic.location().map(ToString::to_string));
        let said = panics::message(panic.payload());
        tracing::error!(thread, at, said, "panicked");
    }));
}

/// Waits for the last lines when it is dropped, but not for long.
pub(super) struct Ending(Log);

impl Drop for Ending {
    fn drop(&mut self) {
        let (ends, ended) = channel();
        let _ = self.0.messages.send(Message::End(ends));
        // Either way it is the end.
        let _ = ended.recv_timeout(LAST_LINES);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Takes lines as long as somebody receives them, each when it is asked for.
    struct Reader(mpsc::SyncSender<Vec<u8>>);

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let sent = self.0.send(line.to_vec());
            sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_in_their_order_and_lost_ones_counted() {
        let lost = Arc::new(AtomicU64::new(0));
        let (reader, read) = mpsc::sync_channel(2);
        let (mut log, ending) = Log::begin(Reader(reader), &lost).unwrap();
        for line in ["one\n", "two\n"] {
            log.write_all(line.as_bytes()).unwrap();
        }
        drop(ending);
        let lines: Vec<_> = read.try_iter().collect();
        assert_eq!(lines, [b"one\n", b"two\n"]);
        drop(read);
        log.write_all(b"three\n").unwrap();
        drop(Ending(log));
        assert_eq!(lost.load(Relaxed), 1);
    }

    #[test]
    fn a_reader_that_does_not_read_holds_up_nobody() {
        let lost = Arc::new(AtomicU64::new(0));
        let (reader, read) = mpsc::sync_channel(0);
        let (mut log, ending) = Log::begin(Reader(reader), &lost).unwrap();
        let line = vec![b'x'; MOST_WAITING / 4];
        for _ in 0..6 {
            log.write_all(&line).unwrap();
        }
        assert_eq!(lost.load(Relaxed), 2, "four fit");
        // It reads again, and nothing of what was taken is missing.
        assert_eq!(read.iter().take(4).count(), 4);
        drop((ending, read));
    }
}
