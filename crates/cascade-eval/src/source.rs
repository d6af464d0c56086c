//! Where the samples of a dataset are read from.

mod hub;
mod shards;

use std::convert::Infallible;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use cascade_hub::HubOptions;

use crate::{Dataset, Result, Sample, Selection};

pub use hub::HubData;

/// Where the samples of a dataset are read from, as people write it.
///
/// | text | means |
/// |---|---|
/// | `hub` | the dataset's own repository on the hub, and there its usual split |
/// | `hub@REVISION` | the same at a branch, a tag or a commit |
/// | `hub:org/name` | another repository, of whose Parquet files there must be but one split |
/// | `hub:org/name/SPLIT` | a split as `configuration/split`, a file, or a pattern with `*` |
/// | `hub:org/name@REVISION/SPLIT` | the same at a revision |
/// | anything else | a file or folder; `./hub` for one that is called so |
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DataSource {
    /// A file, or a folder of files.
    Local(PathBuf),
    /// Files of the Hugging Face hub.
    Hub(HubData),
}

impl DataSource {
    /// Reads the selected samples. From the hub, files are downloaded that the cache does not have,
    /// in their order and only as far as samples are selected, with a progress bar on standard
    /// error if `progress`.
    ///
    /// # Errors
    /// Errors of [`Dataset::read`]; from the hub also a file that cannot be had, a dataset that is
    /// not there, a split that the repository does not have or must be told, missing shards, and a
    /// download that is not whole.
    pub fn read(
        &self,
        dataset: &Dataset,
        selection: Selection,
        hub: &HubOptions,
        progress: bool,
    ) -> Result<Vec<Sample>> {
        match self {
            Self::Local(path) => dataset.read(path, selection),
            Self::Hub(data) => data.read(dataset, selection, hub, progress),
        }
    }
}

/// Touches neither disk nor network.
impl From<OsString> for DataSource {
    fn from(text: OsString) -> Self {
        match text.to_str().and_then(HubData::parse) {
            Some(data) => Self::Hub(data),
            None => Self::Local(text.into()),
        }
    }
}

impl FromStr for DataSource {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        Ok(OsString::from(text).into())
    }
}

impl fmt::Display for DataSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => write!(f, "{}", path.display()),
            Self::Hub(data) => data.fmt(f),
        }
    }
}
