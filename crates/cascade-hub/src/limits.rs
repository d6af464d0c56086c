//! How long the hub may take, and how much it may send.

use std::time::Duration;

/// How long the hub may take, how often it is asked, and how much it may send.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HubLimits {
    /// For finding the server's address and connecting to it, each: 10 s.
    pub connect: Duration,
    /// From the request to the end of the answer's headers: 10 s, or `HF_HUB_ETAG_TIMEOUT`.
    pub answer: Duration,
    /// Without a byte of the body: 10 s, or `HF_HUB_DOWNLOAD_TIMEOUT`.
    pub read: Duration,
    /// Bytes per second that a body must bring on average over six times [`read`](Self::read):
    /// 1024. Whoever sends a byte now and then would otherwise never be given up.
    pub slowest: u64,
    /// Failures in a row after which a download is given up: 5. One that brought the file 1 MiB
    /// further than it has ever been is the first of a row.
    pub retries: u32,
    /// Wait before the second attempt: 0.5 s. It doubles with each further one.
    pub backoff: Duration,
    /// The longest wait between two attempts: 60 s. A server that asks for more (`Retry-After`) is
    /// given up.
    pub longest_wait: Duration,
    /// Bytes of a file whose size the server does not announce: 256 MiB.
    pub unannounced: u64,
    /// Bytes of a list of files: 64 MiB.
    pub listing: u64,
}

impl Default for HubLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(10),
            read: Duration::from_secs(10),
            slowest: 1024,
            retries: 5,
            backoff: Duration::from_millis(500),
            longest_wait: Duration::from_secs(60),
            unannounced: 256 << 20,
            listing: 64 << 20,
        }
    }
}
