//! Datasets, prompts and recorded targets.
//!
//! * [`Sample`]: one entry of a dataset, with its id, its references and whatever else stood beside it.
//! * [`Dataset`]: which datasets there are, and the files that they are read from.
//! * [`Selection`]: which samples to take, by position or at random by a seed.
//! * [`PromptTemplate`]: the exact text that a model is asked to continue for a sample, turn by turn.
//! * [`trace`]: what a target said, recorded, and cascades replayed with the recording in its place.
//!
//! ```
//! use cascade_eval::{Dataset, PromptTemplate, Selection};
//!
//! let file = br#"{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"}"#;
//! let samples = Dataset::Gsm8k.parse("questions.jsonl", file, Selection::ALL)?;
//! let template: PromptTemplate = "t5-gsm8k".parse()?;
//! assert_eq!(
//!     template.apply(&samples[0])?,
//!     "Reason the math question below step by step. Question: What is 2 + 3?.\n Answer: "
//! );
//! assert_eq!(samples[0].reference(), Some("2 + 3 = 5\n#### 5"));
//! # Ok::<(), cascade_eval::Error>(())
//! ```

mod bootstrap;
mod dataset;
mod error;
mod forward_cost;
pub mod lossless;
mod named;
mod prompt;
mod sample;
mod selection;
mod swi;
pub mod trace;
pub mod tune;

pub use bootstrap::{median, Bootstrap};
pub use dataset::Dataset;
pub use error::{EntryError, Error, Place, Result};
pub use forward_cost::{read_bandwidth, ForwardBench, ForwardCost};
pub use prompt::PromptTemplate;
pub use sample::{Content, Letter, Sample, SampleKind, Turns};
pub use selection::{RandomSample, Selection};
pub use swi::{CostError, CostTable};
