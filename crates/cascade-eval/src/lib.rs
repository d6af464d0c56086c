//! Evaluation of cascades: datasets, losslessness, and what generation costs.
//!
//! * [`lossless`]: whether a cascade's output is its target's.
//! * [`Marks`], [`Endings`]: whether answers are right, and how they end.
//! * [`ForwardBench`], [`steady_times`], [`ForwardCheck`]: costs of forwards; [`cpu_time`].
//! * [`Bootstrap`]: confidence intervals.
//!
//! Samples of datasets, from files or the Hugging Face hub, and the prompts made of them:
//!
//! * [`Sample`]: one entry of a dataset, with its id, its references and its other fields.
//! * [`Dataset`]: the supported datasets, and the files that they are read from.
//! * [`DataSource`]: where a dataset's samples are read from: files, or the hub.
//! * [`Selection`]: which samples to take, by position or at random by a seed.
//! * [`PromptTemplate`], of `cascade-config`: the exact text that a model is asked to continue;
//!   [`Sample::prompt`] applies it.
//!
//! ```
//! use cascade_eval::{Dataset, PromptTemplate, Selection};
//!
//! let file = br#"{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"}"#;
//! let samples = Dataset::Gsm8k.parse("questions.jsonl", file, Selection::ALL)?;
//! let template = PromptTemplate::T5Gsm8k;
//! assert_eq!(
//!     samples[0].prompt(template)?,
//!     "Reason the math question below step by step. Question: What is 2 + 3?.\n Answer: "
//! );
//! assert_eq!(samples[0].reference(), Some("2 + 3 = 5\n#### 5"));
//! # Ok::<(), cascade_eval::Error>(())
//! ```
//!
//! Parquet and CSV files are read with the feature `tables`.

#![forbid(unsafe_code)]

mod answers;
mod bootstrap;
mod cells;
mod dataset;
mod error;
mod forward_check;
mod forward_cost;
mod forward_input;
pub mod lossless;
mod sample;
mod selection;
mod solution;
mod source;
mod steady;

pub use answers::{Ending, Endings, Marks};
pub use bootstrap::{Bootstrap, median};
pub use cascade_config::{Content, ContentKind, PromptError, PromptTemplate, Turns};
pub use cascade_demo::problems;
pub use cascade_engine::cpu_time;
pub use dataset::{Dataset, LARGEST_FILE, ProblemSet};
pub use error::{Error, ErrorKind, Result};
pub use forward_check::{CheckedForward, Compared, ForwardCheck};
pub use forward_cost::{ForwardBench, ForwardClock, ForwardCost, LONGEST_CONTEXT, read_bandwidth};
pub use sample::{Sample, seed_of_turn};
pub use selection::{RandomSample, Selection};
pub use solution::{Mark, Solution};
pub use source::{DataSource, HubData};
pub use steady::steady_times;
