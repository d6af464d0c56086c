//! YAML configurations, checked and assembled into a cascade.
//!
//! A configuration names a target, its drafters, the K matrix and the rest ([`Config`]). Reading one checks everything
//! that can be checked without loading a model; [`Config::assemble`] loads the models and puts the
//! [`Cascade`](cascade_engine::Cascade) together.
//!
//! Models are folders, hub ids (`org/name`, `org/name@revision`) or parts of the program (`embedded:demo-t5-target`).
//! Relative paths that start with a dot are relative to the configuration file.
//!
//! [`PromptTemplate`] makes the text that a model is asked to continue, out of a question ([`Content`]).
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use cascade_config::{AssembleOptions, Config};
//! use cascade_engine::{Event, Options};
//!
//! let config = Config::demo()?; // or Config::open("my.yaml".as_ref())?
//! let mut cascade = config.assemble(&AssembleOptions::default())?.cascade;
//! let options = config.options.with_max_new_tokens(8);
//! let generation = cascade.generate_with("Question: 2 + 3?", &options, |event| {
//!     if let Event::Text { text, .. } = event {
//!         print!("{text}");
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! println!("\n{:.2} tokens per forward", generation.mean_acceptance_length());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! * `demo` (default): `embedded:NAME`, [`Config::demo`]: the demo models, tables and configurations as part of the
//!   program, 26 MB.
//! * `hub` (default): models of the Hugging Face hub. Without it, models are folders or embedded.

#![forbid(unsafe_code)]

mod assemble;
mod config;
mod error;
mod file;
mod place;
mod prompt;
mod random;
mod reader;
mod sampling;
mod stand_in;

pub use assemble::{AssembleOptions, Assembled, DrafterModel, LoadedPart};
pub use config::{Config, Drafter, Neural, Table};
pub use error::{Error, Result};
pub use place::model_source;
pub use prompt::{Content, ContentKind, PromptError, PromptTemplate, Turns};
pub use sampling::SamplingSettings;
pub use stand_in::{AssembledAround, LoadedDrafters, StandIn};
