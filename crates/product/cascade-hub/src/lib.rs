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
//! println!("{}: {} bytes", files.tokenizer, files.tokenizer.read()?.len());
//! # Ok::<(), cascade_hub::Error>(())
//! ```
//!
//! # Features
//!
//! * `network` (default): downloads from the hub. Without it there is no HTTP client, and a model
//!   or dataset of the hub is refused with [`Error::NoNetwork`].

#![forbid(unsafe_code)]

mod dataset;
mod error;
mod files;
mod name;
mod options;
mod place;
#[cfg(feature = "network")]
mod repo;
#[cfg(not(feature = "network"))]
#[path = "no_repo.rs"]
mod repo;
mod source;

pub use dataset::HubDataset;
pub use error::{Error, Result};
pub use files::{ModelFile, ModelFiles};
pub use options::HubOptions;
pub use source::{EmbeddedModel, ModelSource};
