//! The files that a model is made of.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use crate::{EmbeddedModel, Error, Result};

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const GENERATION_CONFIG: &str = "generation_config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";

/// One file of a model.
#[derive(Clone, PartialEq, Eq)]
pub enum ModelFile {
    /// A file on disk.
    Disk(PathBuf),
    /// Bytes of the program.
    Embedded {
        /// What the file is called in messages.
        name: String,
        /// Its content.
        bytes: &'static [u8],
    },
}

impl ModelFile {
    /// The content of the file.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&self) -> Result<Cow<'static, [u8]>> {
        match self {
            Self::Disk(path) => match std::fs::read(path) {
                Ok(bytes) => Ok(Cow::Owned(bytes)),
                Err(source) => Err(Error::Io {
                    file: self.to_string(),
                    source,
                }),
            },
            Self::Embedded { bytes, .. } => Ok(Cow::Borrowed(bytes)),
        }
    }
}

/// The path, or the name of an embedded file.
impl fmt::Display for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(path) => write!(f, "{}", path.display()),
            Self::Embedded { name, .. } => f.write_str(name),
        }
    }
}

impl fmt::Debug for ModelFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModelFile({self})")
    }
}

/// The files of a model, all of them there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFiles {
    /// The source, as [`ModelSource`](crate::ModelSource) writes it.
    pub name: String,
    /// `config.json`.
    pub config: ModelFile,
    /// `generation_config.json`, if the model has one.
    pub generation_config: Option<ModelFile>,
    /// `tokenizer.json`.
    pub tokenizer: ModelFile,
    /// The safetensors files: one, or the shards that the index names, in order of their names.
    pub weights: Vec<ModelFile>,
}

impl ModelFiles {
    pub(crate) fn embedded(model: &EmbeddedModel) -> Self {
        let file = |name: &str, bytes| ModelFile::Embedded {
            name: format!("{name} of {}", model.name),
            bytes,
        };
        Self {
            name: model.name.to_owned(),
            config: file(CONFIG, model.config),
            generation_config: model
                .generation_config
                .map(|bytes| file(GENERATION_CONFIG, bytes)),
            tokenizer: file(TOKENIZER, model.tokenizer),
            weights: vec![file(WEIGHTS, model.weights)],
        }
    }
}
