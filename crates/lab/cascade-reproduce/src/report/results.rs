//! Folders of results, to which runs append and which they resume.

mod merge;
mod store;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use merge::merge;
pub use store::{claim, is_result_file, refuse_foreign, Results};

/// The file of records.
const RECORDS: &str = "results.jsonl";

/// Metadata naming the experiment.
const EXPERIMENT: &str = "experiment.json";

/// One result of an experiment, a line of `results.jsonl`.
pub trait Record: Serialize + DeserializeOwned {
    /// Its place in the experiment, from 0.
    fn index(&self) -> u64;

    /// What it is the result of; no two records have the same.
    fn id(&self) -> &str;
}

/// What a folder holds results of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experiment {
    /// Everything that the results depend on, so that equal keys mean equal results: a fingerprint
    /// of the configuration.
    pub key: String,
    /// How many records the whole experiment has, whatever part of it goes to one folder. Their
    /// indices are `0..records`.
    pub records: u64,
}

impl Experiment {
    /// An experiment with a key and a number of records.
    pub fn new(key: impl Into<String>, records: u64) -> Self {
        Self {
            key: key.into(),
            records,
        }
    }
}
