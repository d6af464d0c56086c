//! The files that a model is made of.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result};

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const GENERATION_CONFIG: &str = "generation_config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(crate) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
pub(crate) const ADDED_TOKENS: &str = "added_tokens.json";

/// Formats of weights with their whole file and their index, in the order in which they are looked
/// for. Where a model was converted to safetensors, older files may lie beside it.
pub(crate) const FORMATS: [(WeightFormat, &str, &str); 2] = [
    (
        WeightFormat::Safetensors,
        WEIGHTS,
        "model.safetensors.index.json",
    ),
    (
        WeightFormat::PyTorch,
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
    ),
];

/// The largest JSON file of a model that is read into memory. Tokenizers of 256,000 tokens take
/// 35 MB.
pub const LARGEST_JSON: u64 = 128 * cascade_core::fs::MIB;

/// One file of a model.
#[derive(Clone, PartialEq, Eq)]
pub enum ModelFile {
    /// A file on disk.
    Disk(PathBuf),
    /// Bytes of the program.
    Embedded {
        /// What the file is called in messages.
        name: String,
        /// The content of the file.
        bytes: &'static [u8],
    },
}

impl ModelFile {
    /// The content of a file of at most [`LARGEST_JSON`] bytes: of all files but the weights.
    ///
    /// # Errors
    /// A file that cannot be read, also a larger one, and what git leaves in place of a large file.
    pub fn read(&self) -> Result<Cow<'static, [u8]>> {
        let bytes = match self {
            Self::Disk(path) => {
                let unreadable = |source| format!("cannot read {self}: {source}");
                let read = cascade_core::fs::read(path, LARGEST_JSON).map_err(unreadable);
                Cow::Owned(read.map_err(|message| Error::new(ErrorKind::Io, message))?)
            }
            Self::Embedded { bytes, .. } => Cow::Borrowed(*bytes),
        };
        if bytes.starts_with(b"version https://git-lfs") {
            let message = format!(
                "{self} is a pointer that git leaves in place of a large file; run `git lfs pull` in its folder, or \
                     download the file itself"
            );
            Err(Error::new(ErrorKind::Damaged, message))
        } else {
            Ok(bytes)
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

/// In what format weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// `model.safetensors`.
    Safetensors,
    /// `pytorch_model.bin`, as `torch.save` writes it.
    PyTorch,
    /// `.gguf`, which holds settings and tokenizer too
    Gguf,
}

/// Whether a path names a GGUF file.
pub(crate) fn is_gguf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// What a tokenizer is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenizerFiles {
    /// `tokenizer.json`, and what transformers keeps beside it.
    Json(VocabularyFiles),
    /// A model of SentencePiece (`tokenizer.model` or `spiece.model`), and what transformers keeps
    /// beside it.
    SentencePiece(VocabularyFiles),
    /// A `.gguf` file, in which there is one.
    Gguf(ModelFile),
}

/// A vocabulary, and what transformers keeps beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VocabularyFiles {
    /// The file that holds the vocabulary.
    pub vocabulary: ModelFile,
    /// `tokenizer_config.json`: added and special tokens, and settings that change ids.
    pub config: Option<ModelFile>,
    /// `special_tokens_map.json`.
    pub special_tokens: Option<ModelFile>,
    /// `added_tokens.json`: further tokens.
    pub added_tokens: Option<ModelFile>,
}

impl VocabularyFiles {
    /// A vocabulary with nothing beside it.
    pub fn alone(vocabulary: ModelFile) -> Self {
        Self {
            vocabulary,
            config: None,
            special_tokens: None,
            added_tokens: None,
        }
    }

    /// All files.
    pub fn all(&self) -> Vec<&ModelFile> {
        let others = [&self.config, &self.special_tokens, &self.added_tokens];
        let others = others.into_iter().flatten();
        std::iter::once(&self.vocabulary).chain(others).collect()
    }
}

impl TokenizerFiles {
    /// The tokenizer that a file on disk is part of: a model of SentencePiece, if it is called
    /// `….model`, or the one in a `….gguf`, else a `tokenizer.json`, whatever it is called. What
    /// lies beside it belongs to it, unless it is a GGUF file.
    pub fn of_file(path: &Path) -> Self {
        let vocabulary = ModelFile::Disk(path.to_owned());
        if is_gguf(path) {
            return Self::Gguf(vocabulary);
        }
        let beside = |name| {
            let path = path.with_file_name(name);
            path.is_file().then_some(ModelFile::Disk(path))
        };
        let files = VocabularyFiles {
            vocabulary,
            config: beside(TOKENIZER_CONFIG),
            special_tokens: beside(SPECIAL_TOKENS),
            added_tokens: beside(ADDED_TOKENS),
        };
        if path.extension().is_some_and(|ending| ending == "model") {
            Self::SentencePiece(files)
        } else {
            Self::Json(files)
        }
    }

    /// The file that holds the vocabulary, after which the tokenizer is called in messages.
    pub fn vocabulary(&self) -> &ModelFile {
        match self {
            Self::Gguf(file) => file,
            Self::Json(files) | Self::SentencePiece(files) => &files.vocabulary,
        }
    }

    /// All files.
    pub fn all(&self) -> Vec<&ModelFile> {
        match self {
            Self::Gguf(file) => vec![file],
            Self::Json(files) | Self::SentencePiece(files) => files.all(),
        }
    }
}

/// The files of a model, all of them there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelFiles {
    /// The source, as [`ModelSource`](crate::ModelSource) writes it.
    pub name: String,
    /// `config.json`, or the GGUF file.
    pub config: ModelFile,
    /// `generation_config.json`, if the model has one.
    pub generation_config: Option<ModelFile>,
    /// The tokenizer.
    pub tokenizer: TokenizerFiles,
    /// In what format the weights are.
    pub weight_format: WeightFormat,
    /// The weights: one file, or the shards that the index names, in order of their names.
    pub weights: Vec<ModelFile>,
    /// Which of [`weights`](Self::weights) has a tensor, as the index says; empty without an index.
    pub weight_map: BTreeMap<String, usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gguf_files_are_known_by_their_names() {
        assert!(is_gguf(Path::new("a/b.gguf")) && !is_gguf(Path::new("gguf")));
    }
}
