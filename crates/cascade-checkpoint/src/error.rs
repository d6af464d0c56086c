//! What can go wrong between a model's files and what they hold.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::{fs, io};

use cascade_hub::ModelFile;

/// A result whose error is [`struct@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The cure of files that are damaged.
pub(crate) const DOWNLOAD_AGAIN: &str = "copy or download it again";

/// The cure of damage, for `file`. One in the hub's cache stays there, and is downloaded again only
/// once its content is gone.
pub(crate) fn download_again(file: &str) -> String {
    match cached_content(Path::new(file)) {
        Some(content) => {
            let content = content.display();
            format!("delete {content} and run again, which downloads it again")
        }
        None => DOWNLOAD_AGAIN.to_owned(),
    }
}

/// Where the hub's cache keeps the content of `file`, if it is a link from a snapshot.
fn cached_content(file: &Path) -> Option<PathBuf> {
    fs::read_link(file).ok()?;
    let content = fs::canonicalize(file).ok()?;
    (content.parent()?.file_name()? == "blobs").then_some(content)
}

/// What is wrong with the content of a file, and what to do about it.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) problem: String,
    pub(crate) cure: &'static str,
}

/// Damage.
impl From<String> for Fault {
    fn from(problem: String) -> Self {
        let cure = DOWNLOAD_AGAIN;
        Self { problem, cure }
    }
}

impl Fault {
    /// What git leaves in place of a large file.
    pub(crate) fn of_pointer(bytes: &[u8]) -> Option<Self> {
        bytes.starts_with(b"version https://git-lfs").then(|| Self {
            problem: "it is a pointer that git leaves in place of a large file".to_owned(),
            cure: "run `git lfs pull` in its folder, or download the file itself",
        })
    }

    /// A file of weights that cannot be understood.
    pub(crate) fn corrupt(self, file: &str, format: &str) -> Error {
        let cure = match self.cure {
            DOWNLOAD_AGAIN => download_again(file),
            cure => cure.to_owned(),
        };
        let message = format!("{file} is not a {format} file: {}; {cure}", self.problem);
        Error::new(ErrorKind::Damaged, message)
    }
}

/// An error of this crate. The message names the file, what is wrong with it, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<cascade_hub::Error>>,
}

/// What an [`struct@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The files of a model cannot be found; the source says more.
    Source,
    /// A file that cannot be read or written.
    Io,
    /// A file that was cut off or damaged, or is not in the format that it should be in.
    Damaged,
    /// Files that do not belong together, such as weights that config.json does not describe.
    Mismatch,
    /// A tokenizer that cannot be read, or fails.
    Tokenizer,
    /// A weight that is not a finite number, or is larger than its type can say.
    Weight,
    /// A format, a type or a setting that there is no code for.
    Unsupported,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: String) -> Self {
        Self {
            kind,
            message,
            source: None,
        }
    }

    /// What it is about.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// A model that a GGUF file cannot describe.
    pub fn cannot_say(model: &str, what: &str) -> Self {
        let cure = "load the model with `--dtype`, which rounds weights as they are read";
        let message = format!("{model}: a GGUF file cannot say {what}; {cure}");
        Self::new(ErrorKind::Unsupported, message)
    }

    /// A type that weights cannot be rounded to.
    pub fn quantize_type() -> Self {
        let message = "cannot quantize to `stored`; give q8_0, q4_0, f16, bf16 or f32";
        Self::new(ErrorKind::Unsupported, message.to_owned())
    }

    /// A tensor with a weight that is larger than the type can say.
    pub fn too_large_for_type(tensor: &str, dtype: &str) -> Self {
        let other = if dtype == "bf16" {
            "f32"
        } else {
            "bf16 or f32"
        };
        let problem = format!("{tensor} has a weight that {dtype} has no number for");
        Self::new(ErrorKind::Weight, format!("{problem}; compute in {other}"))
    }

    pub(crate) fn io(file: &ModelFile, source: io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("cannot read {file}: {source}"))
    }

    /// A file whose JSON is not what it should be.
    pub(crate) fn json(file: &ModelFile, problem: impl Display) -> Self {
        let cure = "restore it from the model it came from";
        Self::new(ErrorKind::Damaged, format!("{file}{problem}; {cure}"))
    }

    /// A tensor in a type that is not a float this crate computes with.
    pub(crate) fn tensor_type(file: &str, tensor: &str, dtype: &str) -> Self {
        let message = format!(
            "{file}: tensor {tensor} is stored as {dtype}; supported are F32, F16, BF16 and F64, convert the weights \
             (quantized checkpoints are not supported)"
        );
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Files of a tokenizer that cannot be understood.
    pub(crate) fn tokenizer(file: &str, reason: &str) -> Self {
        let message = format!(
            "{file} is not a tokenizer: {reason}; restore it, or make it again with transformers: \
             AutoTokenizer.from_pretrained(...).save_pretrained(...)"
        );
        Self::new(ErrorKind::Tokenizer, message)
    }
}

impl From<cascade_hub::Error> for Error {
    fn from(error: cascade_hub::Error) -> Self {
        Self {
            kind: ErrorKind::Source,
            message: error.to_string(),
            source: Some(Box::new(error)),
        }
    }
}

impl From<Error> for cascade_core::Error {
    fn from(error: Error) -> Self {
        Self::backend(error)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn cut(file: &Path) -> String {
        let file = file.display().to_string();
        let fault = Fault::from("it ends early".to_owned());
        fault.corrupt(&file, "safetensors").to_string()
    }

    #[test]
    fn damaged_files_of_the_cache_are_to_be_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (blob, snapshot) = (root.join("blobs/c0ffee"), root.join("snapshots/1"));
        for folder in [root.join("blobs"), snapshot.clone()] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(&blob, "cut off").unwrap();
        let file = snapshot.join("model.safetensors");
        std::os::unix::fs::symlink("../../blobs/c0ffee", &file).unwrap();
        let message = cut(&file);
        let cure = format!("delete {} and run again", blob.display());
        assert!(message.contains(&cure), "{message}");
        assert!(
            cut(&blob).ends_with(DOWNLOAD_AGAIN),
            "no snapshot leads here"
        );
    }
}
