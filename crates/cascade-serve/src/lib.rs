//! An OpenAI-compatible server of cascades.
//!
//! * [`Served`]: what is served: a configuration, its models, and the chat template.
//! * [`ServeOptions`]: where it listens, who may ask, and its limits.
//! * [`Server`]: [binds](Server::bind) and [runs](Server::run) until a [`Stopper`] or a signal ends
//!   it.
//!
//! Inside, requests become jobs of a scheduler: a bounded queue, and several generations at once,
//! each with caches of its own on shared weights. On a CPU each has a thread of its own, and their
//! forwards are shared ([`Batcher`](cascade_models::Batcher)); on a GPU they take turns of one step
//! each. A finished generation's caches are kept for the next request whose tokens begin as its
//! own.
//!
//! Every answer is the one that [`Cascade::generate`](cascade_engine::Cascade::generate) gives
//! alone: which requests run beside it changes when its steps are taken, not what they give.

#![forbid(unsafe_code)]

mod answer;
mod api;
mod body;
mod budget;
mod cache_room;
mod connections;
mod error;
mod faults;
mod fields;
mod guard;
mod metrics;
mod options;
mod owner;
mod page;
mod prompt_length;
mod reading;
mod scheduler;
mod scopes;
mod served;
mod server;
mod session_pool;
mod speculation;
mod token_text;
mod unique;

#[doc(hidden)]
pub use faults::{Faults, Stage};
pub use options::{Limits, ServeOptions};
pub use served::Served;
pub use server::{Server, Stopper};

/// What can keep a server from starting or running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("{address}: {source}; choose another one with --host and --port")]
    Bind {
        /// The address.
        address: std::net::SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },

    /// Others than this machine could ask, and anybody among them.
    #[error(
        "{address} can be reached from other machines, and no key is asked for; give --api-key-file or \
         CASCADE_API_KEY, or --public to let everybody ask"
    )]
    Open {
        /// The address.
        address: std::net::SocketAddr,
    },

    /// An option that makes no sense.
    #[error("{option}: {problem}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong with it, and how to fix it.
        problem: String,
    },

    /// The models cannot be put together.
    #[error(transparent)]
    Config(#[from] cascade_config::Error),

    /// The models cannot generate.
    #[error(transparent)]
    Engine(#[from] cascade_engine::Error),

    /// The system fails.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Seconds since 1970, as OpenAI's interface has times.
fn unix_seconds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A lock that is held by no panic for long: what it guards is consistent between its methods.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
