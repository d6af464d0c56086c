//! Requests that are understood: JSON, templates and prompts, on threads where they keep nobody
//! waiting, few at once, and no longer than somebody waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::StatusCode;
use tokio::sync::Semaphore;

use crate::answer::Failure;
use crate::error::{ApiError, ApiResult};

/// Requests that are understood at once: as many as threads for it.
pub(crate) const READERS: usize = 4;

/// Bytes from which a request is a large one. Of these, one is understood at a time: the values of
/// its JSON take many times its size, and small requests do not wait for all large ones.
const LARGE: usize = 256 << 10;

/// Who understands requests.
#[derive(Debug)]
pub(crate) struct Reading {
    all: Semaphore,
    large: Semaphore,
}

/// Whether somebody still waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    gone: Arc<AtomicBool>,
}

/// Says that nobody waits any more when it is dropped.
struct Leaves(Waiting);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Relaxed);
    }
}

impl Waiting {
    /// The wait of a client that has gone.
    #[cfg(test)]
    pub(crate) fn of_nobody() -> Self {
        let waiting = Self::default();
        waiting.gone.store(true, Ordering::Relaxed);
        waiting
    }

    /// Ends work whose client has gone.
    pub(crate) fn check(&self) -> ApiResult<()> {
        if self.gone.load(Ordering::Relaxed) {
            Err(ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "timeout_error",
                "the client went away",
            ))
        } else {
            Ok(())
        }
    }
}

impl Reading {
    pub(crate) fn new() -> Self {
        Self {
            all: Semaphore::new(READERS),
            large: Semaphore::new(1),
        }
    }

    /// Does work of a request of a size when a reader is free.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce(&Waiting) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let lost = |_| ApiError::from(Failure::Lost);
        let _large = if bytes >= LARGE {
            Some(self.large.acquire().await.map_err(lost)?)
        } else {
            None
        };
        let _turn = self.all.acquire().await.map_err(lost)?;
        let waiting = Waiting::default();
        let leaves = Leaves(waiting.clone());
        let done = tokio::task::spawn_blocking(move || work(&waiting)).await;
        drop(leaves);
        done.unwrap_or_else(|_| Err(Failure::Lost.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_learns_that_nobody_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        runtime.block_on(async {
            let reading = Reading::new();
            let work = move |waiting: &Waiting| {
                while waiting.check().is_ok() {
                    std::thread::yield_now();
                }
                sender.send(()).map_err(|_| Failure::Lost.into())
            };
            // Polled once, and then given up.
            let begun = reading.aside(0, work);
            futures_util::future::select(Box::pin(begun), std::future::ready(())).await;
        });
        receiver.recv().unwrap();
        assert!(Waiting::default().check().is_ok());
    }
}
