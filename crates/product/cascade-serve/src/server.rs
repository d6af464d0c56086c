//! A server: from the port to a graceful stop.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::api::{router, App};
use crate::connections::Connections;
use crate::metrics::Metrics;
use crate::reading::READERS;
use crate::scheduler::Scheduler;
use crate::{Error, Result, ServeOptions, Served};

/// Time for the last words of answers that were given up.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server that has its port, and does not answer yet.
pub struct Server {
    served: Arc<Served>,
    options: ServeOptions,
    listener: TcpListener,
    address: SocketAddr,
    stop: watch::Sender<bool>,
}

/// Stops a server, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// Lets the server finish its answers, within its time of grace, and return.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Opens the port.
    ///
    /// # Errors
    /// [`Error::Open`] for an address that others reach, without a key; [`Error::Option`];
    /// [`Error::Bind`].
    pub fn bind(served: Served, options: ServeOptions) -> Result<Self> {
        options.check()?;
        let bound = TcpListener::bind(options.address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.map_err(|source| Error::Bind {
            address: options.address,
            source,
        })?;
        Ok(Self {
            served: Arc::new(served),
            options,
            listener,
            address,
            stop: watch::Sender::new(false),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.clone())
    }

    /// Answers until it is stopped; then finishes what it has begun, within the time of grace.
    ///
    /// # Errors
    /// [`Error::System`] if there are no threads to be had.
    pub fn run(self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()
            .map_err(system("starting to listen"))?;
        let served = runtime.block_on(self.serve());
        // Prompts that are still being encoded need not be.
        runtime.shutdown_background();
        served
    }

    async fn serve(self) -> Result<()> {
        let Self {
            served,
            options,
            listener,
            stop,
            ..
        } = self;
        let name = options.name.clone();
        let name = name.unwrap_or_else(|| served.name().to_owned());
        let metrics = Arc::new(Metrics::new(&name, &served.level_names()));
        let started = Scheduler::start(Arc::clone(&served), Arc::clone(&metrics), &options);
        let (scheduler, workers) = started.map_err(system("starting threads"))?;
        if let Some(first) = served.first() {
            scheduler.keep(first);
        }
        let listener = tokio::net::TcpListener::from_std(listener);
        let listener = listener.map_err(system("starting to listen"))?;
        let app = App::new(
            served,
            Arc::clone(&scheduler),
            Arc::clone(&metrics),
            name,
            &options,
        );
        let connections =
            Connections::new(listener, router(app, &options), &options.limits, metrics);
        let mut stopped = stop.subscribe();
        tokio::select! {
            never = connections.accept() => match never {},
            _ = stopped.wait_for(|stop| *stop) => {}
            () = signalled(options.signals) => {}
        }
        tracing::info!("stopping: no more requests are taken");
        scheduler.stop();
        let mut ended = connections.close();
        let again = async {
            // A second signal ends the wait.
            signalled(options.signals).await;
        };
        tokio::select! {
            () = &mut ended => {}
            () = tokio::time::sleep(options.limits.grace) => {
                tracing::warn!("what is not finished is given up");
                scheduler.abort();
                let _ = tokio::time::timeout(LAST_WORDS, ended).await;
            }
            () = again => {
                scheduler.abort();
                let _ = tokio::time::timeout(LAST_WORDS, ended).await;
            }
        }
        scheduler.abort();
        let joined = tokio::task::spawn_blocking(move || {
            workers.into_iter().for_each(|worker| drop(worker.join()));
        });
        // A step of a large model may take longer than anybody waits.
        let _ = tokio::time::timeout(LAST_WORDS, joined).await;
        tracing::info!("stopped");
        Ok(())
    }
}

fn system(doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// Waits for a signal that asks the process to end; for ever, if they are none of its business.
async fn signalled(listens: bool) {
    if !listens {
        return std::future::pending().await;
    }
    #[cfg(unix)]
    {
        use tokio::signal::unix::{signal, SignalKind};
        let signals = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        );
        if let (Ok(mut terminate), Ok(mut interrupt)) = signals {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            return;
        }
    }
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
