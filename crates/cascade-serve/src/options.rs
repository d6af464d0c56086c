//! Where a server listens, who may ask, and its limits.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::faults::Faults;
use crate::{Error, Result};

/// Where a server listens, and who may ask.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// The address; port 0 lets the system choose one.
    pub address: SocketAddr,
    /// Keys, one of which requests must show; none lets everybody ask who reaches the address.
    pub api_keys: Vec<String>,
    /// Whether everybody may ask from other machines without a key.
    pub public: bool,
    /// Names that the `Host` header may have besides those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may ask (CORS); `*` for all.
    pub cors_origins: Vec<String>,
    /// What the model is called in requests; by default the target's name.
    pub name: Option<String>,
    /// Whether fields of requests that are not read, and names of other models, are refused.
    pub strict: bool,
    /// Whether there is a page at `/`.
    pub page: bool,
    /// Whether logs have the texts of prompts and answers.
    pub log_text: bool,
    /// Lines of the log that could not be written, which whoever writes it counts here; metrics
    /// show them.
    pub lost_log_lines: Arc<AtomicU64>,
    /// Whether SIGTERM and Ctrl-C stop the server.
    pub signals: bool,
    /// Faults that tests switch on.
    #[doc(hidden)]
    pub faults: Faults,
    /// Its limits.
    pub limits: Limits,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            api_keys: Vec::new(),
            public: false,
            allowed_hosts: Vec::new(),
            cors_origins: Vec::new(),
            name: None,
            strict: false,
            page: true,
            log_text: false,
            lost_log_lines: Arc::default(),
            signals: true,
            faults: Faults::default(),
            limits: Limits::default(),
        }
    }
}

/// What bounds a server's memory and time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Generations at once, each with caches of its own; as many caches are kept.
    pub sessions: usize,
    /// Bytes of the keys and values of all sessions, on a CPU: generations wait until there is
    /// memory for what they may need. Without it they take what they need.
    pub cache_memory: Option<usize>,
    /// Threads that take steps where sessions take turns, on a GPU. More than one helps where a
    /// step does not use all of it.
    pub workers: usize,
    /// Generations that wait for a session.
    pub queue: usize,
    /// Tokens of a prompt and its answer together; never more than the model has positions.
    pub max_context: usize,
    /// Connections at once.
    pub connections: usize,
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of all bodies that are being read.
    pub bodies: usize,
    /// Bytes that are collected for a response that is not streamed, about.
    pub response: usize,
    /// Bytes of all responses that are being collected.
    pub responses: usize,
    /// Bytes of an answer that its reader has not taken yet.
    pub unread: usize,
    /// Time for a request's headers, and for a connection to stay without a request.
    pub header_time: Duration,
    /// Time for a request's body.
    pub body_time: Duration,
    /// Time for a reader to take anything.
    pub write_time: Duration,
    /// Time for an answer, waiting included.
    pub answer_time: Duration,
    /// Time that the caches of a session without work are kept.
    pub rest: Duration,
    /// Time for answers to end after a stop is asked for.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 16,
            cache_memory: None,
            workers: 1,
            queue: 64,
            max_context: 8192,
            connections: 1024,
            body: 4 << 20,
            bodies: 64 << 20,
            response: 64 << 20,
            responses: 256 << 20,
            unread: 1 << 20,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(600),
            rest: Duration::from_secs(600),
            grace: Duration::from_secs(30),
        }
    }
}

impl ServeOptions {
    /// Whether clients that show neither a key nor a salt use what each other's sessions have read:
    /// where only this machine asks, without keys and through no proxy. It makes them faster, and
    /// the time of an answer can tell one of them that another's prompt began alike.
    pub fn shares_caches(&self) -> bool {
        self.api_keys.is_empty() && self.allowed_hosts.is_empty() && self.address.ip().is_loopback()
    }

    /// Refuses what makes no sense, and what lets strangers in by mistake.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::Option`].
    pub fn check(&self) -> Result<()> {
        if !self.address.ip().is_loopback() && self.api_keys.is_empty() && !self.public {
            return Err(Error::Open {
                address: self.address,
            });
        }
        if self.api_keys.iter().any(|key| key.trim().is_empty()) {
            return Err(Error::Option {
                option: "--api-key",
                problem: "the key is empty; give one of many characters, or leave it out".into(),
            });
        }
        let limits = &self.limits;
        let counts = [
            ("--sessions", limits.sessions),
            ("--workers", limits.workers),
            ("--max-context", limits.max_context),
            ("--max-connections", limits.connections),
            ("--max-body", limits.body),
        ];
        let memory = limits.cache_memory.map(|bytes| ("--cache-memory", bytes));
        match counts
            .into_iter()
            .chain(memory)
            .find(|(_, count)| *count == 0)
        {
            Some((option, _)) => Err(Error::Option {
                option,
                problem: "it is 0; give 1 or more".into(),
            }),
            None => Ok(()),
        }
    }
}
