//! A server: from the port to a graceful stop.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::api::{App, router};
use crate::connections::Connections;
use crate::metrics::Metrics;
use crate::reading::READERS;
use crate::scheduler::Scheduler;
use crate::{Error, Result, ServeOptions, Served};

/// Time for the last words of answers that were given up.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server that has its port, and does not answer yet. It blocks: do not run or drop it in
/// asynchronous code.
pub struct Server {
    runtime: Runtime,
    address: SocketAddr,
    parts: Parts,
}

/// What a server answers with.
struct Parts {
    served: Arc<Served>,
    options: ServeOptions,
    listener: TcpListener,
    stop: watch::Sender<bool>,
    signals: Option<Signals>,
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
    /// Opens the port. From then on signals stop the server, if its options say so.
    ///
    /// # Errors
    /// [`Error::Open`] for an address that others reach, without a key; [`Error::Option`];
    /// [`Error::Bind`]; [`Error::System`] if the system refuses what a server needs.
    pub fn bind(served: Served, options: ServeOptions) -> Result<Self> {
        options.check()?;
        served.check(&options.limits)?;
        let bound = TcpListener::bind(options.address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.map_err(|source| Error::Bind {
            address: options.address,
            source,
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()
            .map_err(system("starting to listen"))?;
        let signals = {
            let _entered = runtime.enter();
            options.signals.then(Signals::new).transpose()
        };
        let parts = Parts {
            served: Arc::new(served),
            options,
            listener,
            stop: watch::Sender::new(false),
            signals: signals.map_err(system("handling signals"))?,
        };
        Ok(Self {
            runtime,
            address,
            parts,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.parts.stop.clone())
    }

    /// Answers until it is stopped; then finishes what it has begun, within the time of grace.
    ///
    /// # Errors
    /// [`Error::System`] if there are no threads to be had.
    pub fn run(self) -> Result<()> {
        let served = self.runtime.block_on(self.parts.serve());
        // Prompts that are still being encoded need not be.
        self.runtime.shutdown_background();
        served
    }
}

impl Parts {
    async fn serve(mut self) -> Result<()> {
        let name = self.options.name.clone();
        let name = name.unwrap_or_else(|| self.served.name().to_owned());
        let metrics = Arc::new(Metrics::new(&name, &self.served));
        let faults = &self.served.forwards.faults;
        faults.get_or_init(|| self.options.faults.clone());
        let (served, measured) = (Arc::clone(&self.served), Arc::clone(&metrics));
        let started = Scheduler::start(served, measured, &self.options);
        let (scheduler, workers) = started.map_err(system("starting threads"))?;
        if let Some(first) = self.served.first() {
            scheduler.keep(first);
        }
        let listener = tokio::net::TcpListener::from_std(self.listener)
            .map_err(system("starting to listen"))?;
        let app = App::new(
            self.served,
            Arc::clone(&scheduler),
            Arc::clone(&metrics),
            name,
            &self.options,
        );
        let limits = &self.options.limits;
        let connections = Connections::new(listener, router(app, &self.options), limits, metrics);
        let mut stopped = self.stop.subscribe();
        tokio::select! {
            never = connections.accept() => match never {},
            _ = stopped.wait_for(|stop| *stop) => {}
            () = signalled(&mut self.signals) => {}
        }
        tracing::info!("stopping: no more requests are taken");
        scheduler.stop();
        finish(connections, &scheduler, limits.grace, &mut self.signals).await;
        let joined = tokio::task::spawn_blocking(move || {
            workers.into_iter().for_each(|worker| drop(worker.join()));
        });
        // A step of a large model may take longer than anybody waits.
        let _ = tokio::time::timeout(LAST_WORDS, joined).await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Waits for the answers under way, for the time of `grace` at most or until a second signal.
async fn finish(
    connections: Connections,
    scheduler: &Scheduler,
    grace: Duration,
    signals: &mut Option<Signals>,
) {
    let mut ended = Box::pin(connections.close());
    tokio::select! {
        () = &mut ended => {}
        () = tokio::time::sleep(grace) => {
            tracing::warn!("what is not finished is given up");
            scheduler.abort();
            let _ = tokio::time::timeout(LAST_WORDS, ended).await;
        }
        () = signalled(signals) => {
            scheduler.abort();
            let _ = tokio::time::timeout(LAST_WORDS, ended).await;
        }
    }
    scheduler.abort();
}

fn system(doing: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::System { doing, source }
}

/// Waits for a signal that asks the process to end; for ever, if they are none of its business.
async fn signalled(signals: &mut Option<Signals>) {
    match signals {
        Some(signals) => signals.next().await,
        None => std::future::pending().await,
    }
}

/// Signals that ask the process to end. They no longer end it by themselves.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(windows)]
    fn new() -> std::io::Result<Self> {
        let interrupt = tokio::signal::windows::ctrl_c()?;
        Ok(Self { interrupt })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(windows)]
    async fn next(&mut self) {
        self.interrupt.recv().await;
    }
}
