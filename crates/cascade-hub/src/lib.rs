//! Finds the files of models and datasets: in a folder, on the Hugging Face hub, or in the program
//! itself.
//!
//! * [`ModelSource`]: where a model is, as people write it, and the way to its [`ModelFiles`].
//! * [`HubDataset`]: the files of a dataset on the hub.
//! * [`HubOptions`]: address, cache and access token, by default from the environment variables of
//!   Hugging Face's own libraries, whose cache is shared.
//!
//! The crate finds files; it does not look into them, except for the index of a sharded checkpoint.
//!
//! ```no_run
//! use cascade_hub::{HubOptions, ModelSource};
//!
//! let source = ModelSource::parse("google/flan-t5-small@main")?;
//! let files = source.files(&HubOptions::from_env(), false)?;
//! println!("{}: {} bytes", files.config, files.config.read()?.len());
//! # Ok::<(), cascade_hub::Error>(())
//! ```
//!
//! # The hub is not trusted
//!
//! Only what can be checked is used of what a server says.
//!
//! * **Names.** ETags (letters, digits, `-`, `_`) and commits (letters, digits) are refused if they
//!   could be paths. Names of files, also those in lists and in the index of a sharded checkpoint,
//!   have no empty part, `.`, `..`, backslash, drive letter or control character. Nothing is
//!   written outside the cache.
//! * **Content.** Files in Git LFS have the SHA-256 that the hub announced, all others the SHA-1
//!   that Git gives them, and every file has the announced size: they get their name in the cache
//!   afterwards. Where a mirror's ETag is no digest, the size or the end of a chunked body must
//!   tell that all of it came. More than was announced ends the download, as do 256 MiB without an
//!   announced size. Git LFS pointers and compressed bodies are refused.
//! * **Interrupted downloads** go on where they stopped, if the server's answer is the rest of the
//!   same file; else they begin anew. What an earlier run left is checked like what is new.
//! * **Redirects.** At most 5, not in circles, to HTTP and HTTPS only, never from HTTPS to HTTP.
//!   The access token goes to the scheme, host and port of the endpoint and nowhere else.
//! * **Time.** 10 s to connect, 10 s for an answer (`HF_HUB_ETAG_TIMEOUT`), 10 s without a byte of
//!   the body (`HF_HUB_DOWNLOAD_TIMEOUT`), and at least 1 KiB per second on average over a minute.
//! * **Repeated attempts.** 429, 500, 502, 503, 504 and broken connections are tried again, up to 5
//!   times in a row with doubling waits; `Retry-After` is obeyed up to 60 s. What the cache can
//!   answer is tried again once. 401, 403 and 404 are final.
//! * **Processes** that want the same file wait for one of them, by the same lock files as Python's
//!   library. Locks of killed processes vanish with them.
//!
//! [`HubLimits`] has the numbers. `HF_HUB_OFFLINE` forbids requests altogether. Not checked: that a
//! branch is the commit that the hub says it is (name a commit to pin the files), and files that
//! the cache already has (its folder is yours).
//!
//! # Features
//!
//! * `network` (default): downloads from the hub. Without it there is no HTTP client, and a model
//!   or dataset of the hub is refused.

#![forbid(unsafe_code)]

mod adapter;
mod dataset;
mod embedded;
mod error;
mod file_source;
mod files;
mod gather;
mod gguf;
mod limits;
mod name;
mod options;
mod present;
#[cfg(feature = "network")]
mod repo;
#[cfg(not(feature = "network"))]
#[path = "no_repo.rs"]
mod repo;
mod source;

pub use dataset::HubDataset;
pub use embedded::{EmbeddedModel, EmbeddedWeights};
pub use error::{Error, ErrorKind, Result};
pub use files::{
    LARGEST_JSON, ModelFile, ModelFiles, TokenizerFiles, VocabularyFiles, WeightFormat,
};
pub use limits::HubLimits;
pub use options::{HubOptions, user_cache};
pub use source::ModelSource;
