//! Counts the bigrams and trigrams of corpora: exactly, in bounded memory, by many threads, and
//! with the same bytes whatever the memory, the threads and the order of finishing.
//!
//! * [`build`]: from text to a [`BigramTable`](cascade_ngram::BigramTable) on the disk.
//! * [`build_ngrams`]: the same to an [`NgramTable`](cascade_ngram::NgramTable), which also knows
//!   what follows two tokens.
//! * [`count`]: from text to a file of partial counts, and [`reduce`] from such files to a table,
//!   for corpora that take more than one machine.
//! * [`compare`]: how far two tables agree.
//!
//! One thread reads documents and hands them to workers, which strip the markup, tokenize and
//! count. A worker whose memory is used up writes its counts to a sorted run; in the end all runs
//! are merged. From time to time all workers do so, and a manifest says which documents the runs
//! are of: from there a killed process [resumes](Job::resume).
//!
//! | module | content |
//! |---|---|
//! | `count` | reader, workers and their synchronisation |
//! | `sentences` | leaving out what was read before |
//! | `grams`, `pairs`, `pair_counts` | n-grams as keys, and their counts in memory |
//! | `gram_rows` | from sums to the rows of a table |
//! | `run`, `merge` | sorted counts on the disk, and their sum |
//! | `checkpoint` | the folder with the runs, and the manifest |
//! | `part` | partial counts as Parquet |
//! | `output` | checks of output paths |

#![forbid(unsafe_code)]

mod checkpoint;
mod compare;
mod count;
mod error;
mod export;
mod finished;
mod gram_rows;
mod grams;
mod job;
mod memory;
mod merge;
mod output;
mod pair_counts;
mod pairs;
mod part;
mod reduce;
mod run;
mod sentences;
mod source;

pub use compare::{compare, compare_ngrams, Agreement, Band};
pub use count::{build, build_ngrams, count};
pub use error::{BoxError, Error, ErrorKind, Result};
pub use export::{export_csv, export_parquet};
pub use finished::is_result_of;
pub use job::{Encode, Job, Status, Summary};
pub use memory::Memory;
pub use part::PartInfo;
pub use reduce::{reduce, Reduction};
pub use source::describe;
