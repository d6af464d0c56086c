//! Samples of datasets, from files or the Hugging Face hub, and the prompts made of them.
//!
//! * [`Sample`]: one entry of a dataset, with its id, its references and its other fields.
//! * [`Dataset`]: the supported datasets, and the files that they are read from.
//! * [`DataSource`]: where a dataset's samples are read from: files, or the hub.
//! * [`Selection`]: which samples to take, by position or at random by a seed.
//! * [`PromptTemplate`], of `cascade-config`: the exact text that a model is asked to continue;
//!   [`Sample::prompt`] applies it.
//!
//! ```
//! use cascade_data::{Dataset, PromptTemplate, Selection};
//!
//! let file = br#"{"question": "What is 2 + 3?", "answer": "2 + 3 = 5\n#### 5"}"#;
//! let samples = Dataset::Gsm8k.parse("questions.jsonl", file, Selection::ALL)?;
//! let template = PromptTemplate::T5Gsm8k;
//! assert_eq!(
//!     samples[0].prompt(template)?,
//!     "Reason the math question below step by step. Question: What is 2 + 3?.\n Answer: "
//! );
//! assert_eq!(samples[0].reference(), Some("2 + 3 = 5\n#### 5"));
//! # Ok::<(), cascade_data::Error>(())
//! ```

#![forbid(unsafe_code)]

mod dataset;
mod error;
mod sample;
mod selection;
mod solution;
mod source;

pub use cascade_config::{Content, ContentKind, PromptError, PromptTemplate, Turns};
pub use cascade_demo::problems;
pub use dataset::{Dataset, ProblemSet, LARGEST_FILE};
pub use error::{Error, ErrorKind, Result};
pub use sample::{Letter, Sample};
pub use selection::{RandomSample, Selection};
pub use solution::{Mark, Solution};
pub use source::{DataSource, HubData};
