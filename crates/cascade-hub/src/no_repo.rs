//! Stands in for `repo.rs` where the feature `network` is off: repositories of the hub are refused.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

use crate::{Error, ErrorKind, HubOptions, Result};

/// What a repository holds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RepoType {
    Model,
    Dataset,
}

/// A repository of the hub: there is none.
#[derive(Debug)]
pub(crate) struct HubRepo<'a> {
    never: Infallible,
    options: PhantomData<&'a HubOptions>,
}

impl<'a> HubRepo<'a> {
    pub(crate) fn new(
        _: RepoType,
        id: &str,
        _: Option<&str>,
        options: &'a HubOptions,
        _: bool,
    ) -> Result<Self> {
        options.checked()?;
        let message = format!(
            "{id} is on the Hugging Face hub, and this program was built without the feature \"network\" of cascade-hub \
             (\"hub\" of the crates above it); build it with the feature, or give a local folder"
        );
        Err(Error::new(ErrorKind::Unreachable, message))
    }
}

/// Methods of a repository, none of which is ever called.
macro_rules! never {
    ($($name:ident($($argument:ty),*) -> $result:ty;)+) => {
        impl HubRepo<'_> {$(
            pub(crate) fn $name(&self, $(_: $argument),*) -> $result {
                match self.never {}
            }
        )+}
    };
}

never! {
    find(&str) -> Result<Option<PathBuf>>;
    cached(&str) -> Option<PathBuf>;
    listing() -> Result<Vec<String>>;
    missing(&str) -> Option<Error>;
    not_found(&str) -> Error;
    not_here(&str) -> Error;
    names() -> Vec<String>;
}

impl fmt::Display for HubRepo<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.never {}
    }
}

#[cfg(test)]
mod tests {
    use crate::{HubDataset, HubOptions, ModelSource};

    #[test]
    fn the_hub_is_refused_by_the_name_of_the_feature() {
        let hub = HubOptions::new("http://127.0.0.1:9", "/nonexistent");
        let model = ModelSource::parse("org/name").unwrap();
        let dataset = HubDataset::new("org/name", None, &hub, false);
        for error in [model.files(&hub, false).unwrap_err(), dataset.unwrap_err()] {
            let message = error.to_string();
            assert!(message.contains("feature \"network\""), "{message}");
        }
    }
}
