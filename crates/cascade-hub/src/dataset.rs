//! Datasets of the hub: their files, whatever is in them.

use std::fmt;
use std::path::PathBuf;

use crate::name::{check_revision, is_hub_name};
use crate::repo::{HubRepo, RepoType};
use crate::{Error, ErrorKind, HubOptions, Result};

/// One revision of a dataset of the hub. Its files go into the cache that models go into, and into
/// the layout of Hugging Face's own libraries.
#[derive(Debug)]
pub struct HubDataset<'a>(HubRepo<'a>);

impl<'a> HubDataset<'a> {
    /// The dataset `org/name` at a branch, a tag or a commit, `main` if `None`. Downloads show a
    /// progress bar on standard error if `progress`. Asks nothing yet.
    ///
    /// # Errors
    /// For an id or a revision that cannot be one, and without the feature `network`.
    pub fn new(
        id: &str,
        revision: Option<&str>,
        options: &'a HubOptions,
        progress: bool,
    ) -> Result<Self> {
        check(id, revision).map_err(|reason| {
            let text = revision.map_or_else(|| id.to_owned(), |name| format!("{id}@{name}"));
            let cure = "give org/name or org/name@revision";
            let message = format!("\"{text}\" names no dataset of the hub: {reason}; {cure}");
            Error::new(ErrorKind::Name, message)
        })?;
        HubRepo::new(RepoType::Dataset, id, revision, options, progress).map(Self)
    }

    /// Names of all its files, in their order. What is fetched afterwards is of the commit that
    /// they were listed of.
    ///
    /// The hub is asked, except for a commit whose list is in the cache. When it cannot be asked,
    /// its last list for the revision is used; if there is none, because another library filled the
    /// cache, the names of the files in the cache.
    ///
    /// # Errors
    /// A hub that refuses or has no such dataset; one that does not answer or must not be asked,
    /// without a cache.
    pub fn files(&mut self) -> Result<Vec<String>> {
        self.0.listing()
    }

    /// Path of a file in the cache, downloaded if need be.
    ///
    /// # Errors
    /// As [`files`](Self::files), for this file; and a download that fails.
    pub fn fetch(&mut self, file: &str) -> Result<PathBuf> {
        let found = self.0.find(file)?;
        found.ok_or_else(|| self.0.not_here(file))
    }
}

impl fmt::Display for HubDataset<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn check(id: &str, revision: Option<&str>) -> std::result::Result<(), &'static str> {
    let named = id.split_once('/');
    if !named.is_some_and(|(owner, name)| is_hub_name(owner) && is_hub_name(name)) {
        return Err("it is not of the form org/name");
    }
    check_revision(revision)
}
