//! Connections: how many, how long, and how they end.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;
use tower::Service;

use crate::Limits;
use crate::metrics::Metrics;
use crate::owner::ConnectionId;

/// Bytes after which a request's line and headers are refused; one read may go beyond them by as
/// many.
const LARGEST_HEAD: usize = 32 << 10;
const MOST_HEADERS: usize = 100;

/// Bytes that the system holds for a reader; it takes twice as much itself.
const SEND_BUFFER: usize = 256 << 10;

/// Pause after the system has no more file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
Content-Type: application/json\r\nContent-Length: 113\r\n\r\n\
{\"error\":{\"message\":\"too many connections; ask again later\",\"type\":\"overloaded_error\",\"param\":null,\"code\":null}}\n";

/// The connections of a server.
pub(crate) struct Connections {
    listener: TcpListener,
    router: Router,
    limits: Limits,
    metrics: Arc<Metrics>,
    open: Arc<Semaphore>,
    graceful: GracefulShutdown,
}

impl Connections {
    pub(crate) fn new(
        listener: TcpListener,
        router: Router,
        limits: &Limits,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            listener,
            router,
            open: Arc::new(Semaphore::new(
                limits.connections.min(Semaphore::MAX_PERMITS),
            )),
            limits: limits.clone(),
            metrics,
            graceful: GracefulShutdown::new(),
        }
    }

    /// Accepts connections. Never returns.
    pub(crate) async fn accept(&self) -> Infallible {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => self.serve(stream),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Lets the connections end that there are, and closes the port then: up to there others learn
    /// from it that the server is being stopped.
    pub(crate) async fn close(mut self) {
        let before = std::mem::take(&mut self.graceful);
        tokio::select! {
            never = self.accept() => match never {},
            () = before.shutdown() => {}
        }
        drop(self.listener);
        self.graceful.shutdown().await;
    }

    fn serve(&self, stream: TcpStream) {
        let Ok(permit) = Arc::clone(&self.open).try_acquire_owned() else {
            tokio::spawn(refuse(stream));
            return;
        };
        let open = self.metrics.connection();
        // A token is a small packet that somebody waits for.
        let _ = stream.set_nodelay(true);
        // What the system keeps for a slow reader is memory, too.
        let _ = socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.limits.write_time));
        let router = self.router.clone();
        let id = ConnectionId::unique();
        let service = tower::service_fn(move |mut request: hyper::Request<Incoming>| {
            let mut router = router.clone();
            request.extensions_mut().insert(id);
            async move { router.call(request.map(axum::body::Body::new)).await }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_time)
            .max_headers(MOST_HEADERS)
            .max_buf_size(LARGEST_HEAD)
            .serve_connection(
                TokioIo::new(Box::pin(stream)),
                TowerToHyperService::new(service),
            );
        let connection = self.graceful.watch(connection);
        tokio::spawn(async move {
            // A client that goes away is none of our errors.
            let _ = connection.await;
            drop((permit, open));
        });
    }
}

/// Says that there are too many connections, to who reads it at once.
async fn refuse(mut stream: TcpStream) {
    let said = async {
        stream.write_all(TOO_MANY).await?;
        stream.shutdown().await
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), said).await;
}

/// Errors of a connection that ended before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = std::str::from_utf8(super::TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{}",
            body.len()
        );
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
