//! The body of an answer, from servers that may be slow.

use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use ureq::BodyReader;
use url::Url;

use super::client::{Client, HttpResponse};
use super::failure::{Again, Failure, Outcome};
use crate::HubLimits;

/// Time limits for reading are multiplied by this to get the time over which the speed is averaged.
const READS_PER_WINDOW: u32 = 6;

/// Reads a body that must neither stop nor crawl.
pub(super) struct Incoming<'a> {
    client: &'a Client,
    url: Url,
    reader: BodyReader<'static>,
    pace: Pace,
}

impl<'a> Incoming<'a> {
    pub(super) fn new(client: &'a Client, answer: HttpResponse) -> Self {
        Self {
            client,
            url: answer.url.clone(),
            reader: answer.into_body().into_reader(),
            pace: Pace::new(client.limits(), Instant::now()),
        }
    }

    /// The next bytes; none at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Outcome<usize> {
        let read = loop {
            match self.reader.read(buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let n = read.map_err(|error| self.client.body_failure(&self.url, error))?;
        if let Some(slow) = self.pace.too_slow(n, Instant::now()) {
            let host = self.url.origin().ascii_serialization();
            return Err(Failure::unreachable(format!("{host} {slow}"), Again::Soon));
        }
        Ok(n)
    }

    /// All of the body, of at most `most` bytes.
    pub(super) fn read_all(mut self, most: u64) -> Outcome<Vec<u8>> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        loop {
            let n = self.read(&mut buffer)?;
            if n == 0 {
                return Ok(all);
            }
            all.extend_from_slice(&buffer[..n]);
            if all.len() as u64 > most {
                return Err(Failure::untrusted(format!(
                    "it is longer than {most} bytes"
                )));
            }
        }
    }
}

/// How much came lately.
struct Pace {
    window: Duration,
    least: u64,
    since: Instant,
    bytes: u64,
}

impl Pace {
    fn new(limits: &HubLimits, now: Instant) -> Self {
        let window = limits.read * READS_PER_WINDOW;
        Self {
            window,
            least: (limits.slowest as f64 * window.as_secs_f64()) as u64,
            since: now,
            bytes: 0,
        }
    }

    /// Counts `n` more bytes; what is wrong if the last window brought too few.
    fn too_slow(&mut self, n: usize, now: Instant) -> Option<String> {
        self.bytes += n as u64;
        let time = now.duration_since(self.since);
        if time < self.window {
            return None;
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.since = now;
        (bytes < self.least)
            .then(|| format!("sent only {bytes} bytes in {:.1} s", time.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crawling_is_noticed_and_pauses_are_not() {
        let limits = HubLimits::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::new(&limits, start);
        assert_eq!(pace.too_slow(1, at(59)), None);
        assert_eq!(pace.too_slow(61_440, at(60)), None);
        assert_eq!(pace.too_slow(1, at(100)), None);
        assert!(
            pace.too_slow(1, at(121))
                .unwrap()
                .starts_with("sent only 2 bytes")
        );
    }
}
