//! Counts the n-grams of corpora: exactly, in bounded memory, by many threads, and with the same
//! bytes whatever the memory, the threads and the order of finishing.
//!
//! * [`build`]: from text to an [`NgramTable`](cascade_ngram::NgramTable) on the disk.
//! * [`compare`]: how far two tables agree.
//! * [`corpus`]: the text of Wikipedia dumps and other corpora.
//!
//! One thread reads documents and hands them to workers, which strip the markup, tokenize and
//! count. A worker whose memory is used up writes its counts to a sorted run; in the end all runs
//! are merged. From time to time all workers do so, and a manifest says which documents the runs
//! are of: from there a killed process [resumes](Job::resume).
//!
//! | module | content |
//! |---|---|
//! | [`corpus`] | from files to documents |
//! | `build` | reader, workers and their synchronisation, and the table in the end |
//! | `sentences` | leaving out what was read before |
//! | `grams`, `gram_counts` | n-grams as keys, and their counts in memory |
//! | `run`, `merge` | sorted counts on the disk, and their sum |
//! | `checkpoint` | the folder with the runs, and the manifest |
//! | `output` | checks of output paths |

#![forbid(unsafe_code)]

mod build;
mod checkpoint;
mod compare;
pub mod corpus;
mod error;
mod finished;
mod gram_counts;
mod grams;
mod job;
mod memory;
mod merge;
mod output;
mod run;
mod sentences;
mod source;

pub use build::build;
pub use compare::{Agreement, Band, compare};
pub use error::{BoxError, Error, ErrorKind, Result};
pub use finished::is_result_of;
pub use job::{Encode, Job, Status, Summary};
pub use memory::Memory;
pub use source::describe;
