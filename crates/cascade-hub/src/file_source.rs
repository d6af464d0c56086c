//! Folders and repositories, which have files by name.

use std::fmt;
use std::path::Path;

use crate::files::{CONFIG, FORMATS, is_gguf};
use crate::repo::HubRepo;
use crate::{Error, ErrorKind, ModelFile, Result};

/// Where files of a model are found by name: a folder, or a repository of the hub.
pub(crate) enum FileSource<'a> {
    Folder(&'a Path),
    Hub(Box<HubRepo<'a>>),
}

impl FileSource<'_> {
    pub(crate) fn find(&mut self, name: &str) -> Result<Option<ModelFile>> {
        let path = match self {
            Self::Folder(folder) => Some(folder.join(name)).filter(|path| path.is_file()),
            Self::Hub(repo) => repo.find(name)?,
        };
        Ok(path.map(ModelFile::Disk))
    }

    /// A file that belongs to the weights: a hub whose weights are in the cache is not asked for
    /// it.
    pub(crate) fn find_with_weights(&mut self, name: &str) -> Result<Option<ModelFile>> {
        if let Self::Hub(repo) = self {
            let mut weights = FORMATS.iter().flat_map(|(_, whole, index)| [whole, index]);
            if weights.any(|weights| repo.cached(weights).is_some()) {
                return Ok(repo.cached(name).map(ModelFile::Disk));
            }
        }
        self.find(name)
    }

    /// The error if `find` may have returned `None` only because the hub could not be asked.
    pub(crate) fn unknown(&self, name: &str) -> Option<Error> {
        match self {
            Self::Folder(_) => None,
            Self::Hub(repo) => repo.missing(name),
        }
    }

    /// Names of all files, as the hub lists them.
    pub(crate) fn listing(&mut self) -> Result<Vec<String>> {
        match self {
            Self::Folder(_) => Ok(self.own_names().unwrap_or_default()),
            Self::Hub(repo) => repo.listing(),
        }
    }

    /// Names of the files there are, for hints.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Folder(_) => self.own_names().unwrap_or_default(),
            Self::Hub(repo) => repo.names(),
        }
    }

    /// Names of the files of a folder; of a hub, which would have to be asked, none.
    pub(crate) fn own_names(&self) -> Option<Vec<String>> {
        let Self::Folder(folder) = self else {
            return None;
        };
        let files = std::fs::read_dir(folder).into_iter().flatten();
        let names = files.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Some(names.collect())
    }

    /// What `from_pretrained` calls the place.
    pub(crate) fn python_name(&self) -> String {
        let name = self.to_string();
        match self {
            Self::Folder(_) => name,
            Self::Hub(_) => name.split('@').next().unwrap_or_default().to_owned(),
        }
    }

    /// A GGUF file that is there.
    fn gguf(&self) -> Option<String> {
        let mut names = self.names();
        names.sort();
        names.into_iter().find(|name| is_gguf(Path::new(name)))
    }

    /// The error of a model without its configuration.
    pub(crate) fn no_config(&self) -> Error {
        match self {
            Self::Folder(_) => {
                let cure = match self.gguf() {
                    Some(file) => format!("give the GGUF file itself: {self}/{file}"),
                    None => "give the folder that holds config.json, tokenizer.json and \
                             model.safetensors"
                        .to_owned(),
                };
                Error::new(
                    ErrorKind::Missing,
                    format!("{self} has no {CONFIG}; {cure}"),
                )
            }
            Self::Hub(repo) => repo.not_found(CONFIG),
        }
    }
}

impl fmt::Display for FileSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "{}", folder.display()),
            Self::Hub(repo) => write!(f, "{repo}"),
        }
    }
}
