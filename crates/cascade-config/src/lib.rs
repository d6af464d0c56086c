//! YAML configurations, checked and assembled into a cascade.
//!
//! A configuration names a target, its drafters, the K matrix and the rest ([`Config`]). Reading one checks everything
//! that can be checked without loading a model; [`Config::assemble`] loads the models and puts the
//! [`Cascade`](cascade_engine::Cascade) together.
//!
//! Models are folders, hub ids (`org/name`, `org/name@revision`) or parts of the program (`embedded:demo-t5-target`).
//! Relative paths that start with a dot are relative to the configuration file.

mod assemble;
mod config;
mod error;
mod file;
mod place;

pub use assemble::{AssembleOptions, Assembled, LoadedPart};
pub use config::{Config, Drafter, Neural, Table};
pub use error::{Error, Result};
