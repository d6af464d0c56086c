//! YAML configurations, checked and assembled into a cascade.
//!
//! A configuration names a target, its drafters, the schedule and the rest ([`Config`]). Reading
//! one checks everything that can be checked without loading a model. A [`ModelPool`] loads models
//! and tables, each once, and puts a [`Cascade`](cascade_engine::Cascade) together for any
//! configuration ([`ModelPool::assemble`]) around the target that it names or another one
//! ([`Assembly::target`]); [`Config::assemble`] does it for one cascade.
//!
//! [`ModelPool::assemble_batch`] makes several cascades of one, whose texts are computed together.
//!
//! Models are folders, hub ids (`org/name`, `org/name@revision`) or parts of the program
//! (`embedded:demo-t5-target`), which it has [registered](register_embedded). Relative paths that
//! start with a dot are relative to the configuration file.
//!
//! Statistical drafters own their settings ([`DrafterConfig`](cascade_ngram::DrafterConfig));
//! [`Config::parse_with`] takes kinds of drafters that this project does not have.
//!
//! [`CascadeSpec`] makes a configuration of the names of models alone, and
//! [`Config::to_yaml`] writes one.
//!
//! [`Config::target_chat`] finds the chat templates of a model. [`PromptTemplate`] makes the text
//! that a model is asked to continue, out of a question ([`Content`]).
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use cascade_config::{AssembleOptions, Config};
//! use cascade_engine::Event;
//!
//! # cascade_demo::register();
//! let mut config = Config::open("embedded:demo-t5")?; // or Config::open("my.yaml")?
//! config.generation.max_new_tokens = 8;
//! let mut cascade = config.assemble(&AssembleOptions::default())?.cascade;
//! let options = config.generation.options();
//! let prompt = "Question: Ann has 12 shells. Tom has 3 times as many. \
//!     How many shells have the two? Answer:";
//! let generation = cascade.start(prompt, &options)?.run_with(|event| {
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
//! * `hub` (default): models of the Hugging Face hub. Without it, models are folders or embedded.

#![forbid(unsafe_code)]

mod assemble;
mod batch;
mod bounded_yaml;
mod chat;
mod config;
mod costs;
mod defaults;
mod drafting;
mod error;
mod file;
mod files;
mod forward_times;
mod locator;
mod memory;
mod overrides;
mod pool;
mod prompt;
mod prompt_limit;
mod reader;
#[cfg(test)]
mod round_trip;
mod sampling;
mod schedule;
mod spec;
mod stop_rule;
mod target;
pub mod trained;
mod trained_rule;
mod vocabulary;
mod writer;

pub use assemble::{Assembled, Assembly, LevelInfo};
pub use batch::Batch;
pub use bounded_yaml::{DEEPEST, LARGEST_CONFIG, from_yaml};
pub use cascade_chat::{
    ChatFile, ChatTemplate, ChatTemplates, Error as ChatError, Message, ModelChat, Role, Variables,
};
pub use cascade_models::{DeviceSpec, Overcommit};
pub use chat::model_chat;
pub use config::{Config, Drafter, GenerationSettings, Neural};
pub use costs::{CostClock, CostError, CostFile, ForwardTime, Measured, cpu_model, machine};
pub use defaults::{default_draft_tokens, default_lenience, default_nodes, k_matrix};
pub use drafting::DrafterModel;
pub use error::{Error, ErrorKind, Result};
pub use forward_times::{PROGRAM, forward_times_folder};
pub use locator::{EmbeddedFiles, model_source, register_embedded};
pub use memory::CacheUse;
pub use overrides::{Overrides, ScheduleName};
pub use pool::{AssembleOptions, ModelPool, StandIn};
pub use prompt::{Content, ContentKind, PromptError, PromptTemplate, Turns};
pub use prompt_limit::{LONG_SOURCE, Notices, PromptLimit, Truncate};
pub use sampling::SamplingSettings;
pub use schedule::ScheduleConfig;
pub use spec::{CascadeSpec, NgramTable, TextDrafter};
pub use stop_rule::StopRuleConfig;
pub use target::Target;
pub use trained_rule::{ClassifierEntry, HeadEntry};
