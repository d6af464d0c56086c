//! What can go wrong between a model's files and what they hold.

use std::fs;
use std::path::{Path, PathBuf};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The cure of files that are damaged.
pub(crate) const DOWNLOAD_AGAIN: &str = "copy or download it again";

/// The cure of damage, for `file`. One in the hub's cache stays there, and is downloaded again only
/// once its content is gone.
fn download_again(file: &str) -> String {
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

fn cure_of(cure: &str, file: &str) -> String {
    match cure {
        DOWNLOAD_AGAIN => download_again(file),
        _ => cure.to_owned(),
    }
}

/// An error of this crate. Messages name the file, what is wrong with it, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The files of a model cannot be found.
    #[error(transparent)]
    Source(#[from] cascade_hub::Error),

    /// A file could not be read.
    #[error("cannot read {file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },

    /// A file is not the JSON it should be.
    #[error("{file} is not valid JSON: {source}; restore it from the model it came from")]
    Json {
        /// The file.
        file: String,
        /// What the parser said.
        source: serde_json::Error,
    },

    /// A JSON file that holds something else than settings.
    #[error("{file}: it is not a JSON object; restore it from the model it came from")]
    NotAnObject {
        /// The file.
        file: String,
    },

    /// A safetensors file is shorter or longer than its header says.
    #[error(
        "{file} is {found} bytes long but its header describes {expected}; it was cut off or \
         damaged, {}",
        download_again(file)
    )]
    WrongLength {
        /// The file.
        file: String,
        /// Bytes that header and tensors take.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },

    /// A file of weights that cannot be understood.
    #[error("{file} is not a {format} file: {reason}; {}", cure_of(cure, file))]
    CorruptWeights {
        /// The file.
        file: String,
        /// The format that it should be in.
        format: &'static str,
        /// What is wrong.
        reason: String,
        /// How to mend it.
        cure: &'static str,
    },

    /// The model needs a tensor that the checkpoint does not have.
    #[error(
        "{files} has no tensor {tensor}, which config.json asks for with shape {expected}: \
         config.json does not describe these weights; take both from the same model"
    )]
    MissingTensor {
        /// The weight files.
        files: String,
        /// Name of the tensor.
        tensor: String,
        /// The shape it should have.
        expected: String,
    },

    /// The weights are those of a base class, which has no head to generate with.
    #[error(
        "{files} has no lm_head.weight: it was saved from the model without its head, and \
         config.json does not say that its embedding is the head (tie_word_embeddings); take a \
         model that generates"
    )]
    NoHead {
        /// The weight files.
        files: String,
    },

    /// A GGUF file that is damaged, or has something that is not understood.
    #[error("{file}: {problem}; {cure}")]
    Gguf {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
        /// How to mend it.
        cure: String,
    },

    /// A shard does not have a tensor that the index says it has.
    #[error(
        "{file} has no tensor {tensor}, and the index beside it says that it has: they are not of \
         one model; copy or download all of them again"
    )]
    MisplacedTensor {
        /// The shard.
        file: String,
        /// Name of the tensor.
        tensor: String,
    },

    /// Weights in a format that this crate has no reader for.
    #[error("{file} is in the format {format}, which is not read here; convert it to safetensors")]
    UnsupportedWeights {
        /// The weight file.
        file: String,
        /// The format.
        format: String,
    },

    /// A tensor has another shape than the configuration says.
    #[error(
        "{file}: tensor {tensor} has shape {found}, but config.json asks for {expected}: \
         config.json does not describe these weights; take both from the same model"
    )]
    WrongShape {
        /// The weight file.
        file: String,
        /// Name of the tensor.
        tensor: String,
        /// The shape it should have.
        expected: String,
        /// The shape it has.
        found: String,
    },

    /// A tensor is stored in a type that is not a float this crate computes with.
    #[error(
        "{file}: tensor {tensor} is stored as {dtype}; supported are F32, F16, BF16 and F64, \
         convert the weights (quantized checkpoints are not supported)"
    )]
    UnsupportedTensorType {
        /// The weight file.
        file: String,
        /// Name of the tensor.
        tensor: String,
        /// Its type.
        dtype: String,
    },

    /// A model that a GGUF file cannot describe.
    #[error("{model}: a GGUF file cannot say {what}; load the model with `--dtype`, which rounds weights as they are read")]
    CannotSay {
        /// The model.
        model: String,
        /// What there are no words for.
        what: String,
    },

    /// A type that is none.
    #[error("cannot quantize to `stored`; give q8_0, q4_0, f16, bf16 or f32")]
    QuantizeType,

    /// A file could not be written.
    #[error("cannot write the model: {source}")]
    Write {
        /// What the system said.
        source: std::io::Error,
    },

    /// The files of a tokenizer cannot be understood.
    #[error(
        "{file} is not a tokenizer: {reason}; restore it, or make it again with transformers: \
         AutoTokenizer.from_pretrained(...).save_pretrained(...)"
    )]
    BadTokenizer {
        /// The file.
        file: String,
        /// What the tokenizer library said.
        reason: String,
    },

    /// The tokenizer has ids that the model has no embedding for.
    #[error(
        "{file} has token {token:?} with id {id}, but the model's vocabulary has {vocab_size} \
         entries; take the tokenizer and the weights from the same model"
    )]
    TokenizerTooLarge {
        /// The tokenizer.
        file: String,
        /// The token of the highest id.
        token: String,
        /// Its id.
        id: u32,
        /// Rows of the model's embedding.
        vocab_size: usize,
    },

    /// The tokenizer could not encode or decode.
    #[error("the tokenizer of {file} cannot {action}: {reason}")]
    Tokenizing {
        /// The tokenizer.
        file: String,
        /// "encode" or "decode".
        action: &'static str,
        /// What the tokenizer library said.
        reason: String,
    },

    /// Text that is not a type to compute in.
    #[error("\"{text}\" is not a type to compute in; give f32, f16 or bf16, or, on a CPU, q8_0, q4_0 or stored (as the file has them)")]
    ComputeType {
        /// What was given.
        text: String,
    },

    /// A weight that is NaN or infinite, or becomes so in f32.
    #[error(
        "{file}: tensor {tensor} has {value} at {place}, and weights are finite numbers: the file is \
         damaged, or its training failed; {}, or take another model",
        download_again(file)
    )]
    NotFinite {
        /// The weight file.
        file: String,
        /// Name of the tensor.
        tensor: String,
        /// Where in the tensor, outermost first; of a packed tensor, where the block begins.
        place: String,
        /// What there is.
        value: String,
    },

    /// A weight that is larger than the type can say.
    #[error(
        "{tensor} has a weight that {dtype} has no number for; compute in {}",
        if dtype == "bf16" { "f32" } else { "bf16 or f32" }
    )]
    TooLargeForType {
        /// Name of the tensor.
        tensor: String,
        /// The type.
        dtype: String,
    },
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
        let (expected, found) = (9, 8);
        let error = Error::WrongLength {
            file,
            expected,
            found,
        };
        error.to_string()
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
