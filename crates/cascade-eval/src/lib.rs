//! Datasets and prompts.
//!
//! * [`Sample`]: one question, multiple-choice question or text, as a dataset holds it.
//! * [`Dataset`]: the file formats that samples are read from.
//! * [`PromptTemplate`]: the exact text that a model is asked to continue for a sample.
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
//! # Ok::<(), cascade_eval::Error>(())
//! ```

mod dataset;
mod error;
mod named;
mod prompt;
mod sample;

pub use dataset::{Dataset, Selection};
pub use error::{Error, LineError, Result};
pub use prompt::PromptTemplate;
pub use sample::{Letter, Sample, SampleKind};
