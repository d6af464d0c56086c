//! What can go wrong between a model's files and its forward pass.

use cascade_checkpoint::DType;
use cascade_cpu::Format;

use crate::memory::FreeMemory;

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate. Messages name the file, what is wrong with it, and how to mend it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The files of a model are missing, damaged, or hold something else.
    #[error(transparent)]
    Checkpoint(#[from] cascade_checkpoint::Error),

    /// A setting in a JSON file is missing or makes no sense, or a head cannot be read or does not
    /// fit its target.
    #[error("{file}: {problem}; {cure}")]
    Config {
        /// The file: the one that describes a model or a head, or weights of a head.
        file: String,
        /// Which setting, and what is wrong with it.
        problem: String,
        /// How to mend it.
        cure: String,
    },

    /// A model of a kind that this crate has no code for.
    #[error(
        "{file} describes a model of type \"{model_type}\"; supported are \"t5\" (T5, FLAN-T5, UL2), \
         \"mt5\", \"llama\" (LLaMA, Vicuna, TinyLlama, SmolLM 1 and 2), \"mistral\", \"qwen2\", \
         \"qwen3\", \"smollm3\", \"phi3\" and \"mimo\""
    )]
    UnsupportedModel {
        /// The config.json.
        file: String,
        /// The `model_type` there, or what stands in for it.
        model_type: String,
    },

    /// The checkpoint has layers that the configuration does not describe.
    #[error(
        "{files} has {count} tensors of layers that config.json does not ask for, such as \
         {example}: config.json does not describe these weights; take both from the same model"
    )]
    LeftoverLayers {
        /// The weight files.
        files: String,
        /// Number of such tensors.
        count: usize,
        /// The name of one of these tensors.
        example: String,
    },

    /// A type that keys and values are not held in.
    #[error("keys and values are held in f32, bf16 or f16, not in `{text}`: give one of those")]
    CacheType {
        /// What was given.
        text: String,
    },

    /// A type of keys and values with candle, where they have the model's.
    #[error(
        "on a GPU and on `candle:cpu`, keys and values have the type of the model, not {cache} of their own: leave out `cache_dtype`, or compute on the CPU"
    )]
    CandleCacheType {
        /// What was given.
        cache: cascade_cpu::CacheType,
    },

    /// Weights that are larger than the memory that can be had.
    #[error(
        "{model}: {parameters} parameters in {dtype} take {:.1} GB, and {free}; take a smaller model{}, or load it all \
         the same with `--allow-memory-overcommit` (CASCADE_ALLOW_MEMORY_OVERCOMMIT=1)",
        *bytes as f64 / 1e9,
        smaller.map(|smaller| format!(", `dtype: {smaller}`")).unwrap_or_default()
    )]
    DoesNotFit {
        /// The file that describes it.
        model: String,
        /// Parameters of the model.
        parameters: usize,
        /// The type that was asked for.
        dtype: DType,
        /// A type that takes less.
        smaller: Option<DType>,
        /// Bytes that its weights would take.
        bytes: usize,
        /// What can be had.
        free: FreeMemory,
    },

    /// Memory for a tensor that was refused when it was asked for.
    #[error(
        "no memory for the {bytes} bytes of {tensor}: {source}; take a smaller model or `dtype`, end other programs, or \
         raise the limit (`ulimit -v`, that of the container)"
    )]
    OutOfMemory {
        /// Name of the tensor.
        tensor: String,
        /// Bytes that the tensor takes in memory.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },

    /// Threads that cannot be started.
    #[error(
        "cannot start the threads that compute: {problem}; take fewer (`--threads 1`, RAYON_NUM_THREADS), or raise the \
         limit of memory or of processes (`ulimit -v`, `ulimit -u`)"
    )]
    Threads {
        /// What the system said.
        problem: String,
    },

    /// A source whose attention takes more memory than is free.
    #[error(
        "encoding {tokens} tokens takes {:.1} GB for attention, and {free}; shorten the prompt, or let \
         `generation.max_prompt_tokens` and `generation.truncate_prompt` do so",
        *bytes as f64 / 1e9
    )]
    SourceTooLong {
        /// Length of the source.
        tokens: usize,
        /// Bytes that its attention would take.
        bytes: usize,
        /// What can be had.
        free: FreeMemory,
    },

    /// What candle failed with.
    #[cfg(feature = "candle")]
    #[error("candle: {0}")]
    Candle(Box<candle_core::Error>),

    /// Text that names no device, or one that cannot be used.
    #[error("cannot use device \"{text}\": {reason}")]
    Device {
        /// What was given.
        text: String,
        /// Why it cannot be used, and what can.
        reason: String,
    },

    /// The environment names instructions that cannot be used.
    #[error("{problem}")]
    Instructions {
        /// What was named, and what could be.
        problem: String,
    },
}

/// What an [`enum@Error`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Files that are missing, damaged or of another model; the source says more.
    Files,
    /// A model, a head or a setting of one that there is no code for, or that makes no sense.
    Unsupported,
    /// Memory or threads that cannot be had.
    Resources,
    /// A device that is not there, or cannot do what is asked of it.
    Device,
}

impl Error {
    /// What the error is about.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Checkpoint(_) | Self::LeftoverLayers { .. } => ErrorKind::Files,
            Self::DoesNotFit { .. }
            | Self::OutOfMemory { .. }
            | Self::Threads { .. }
            | Self::SourceTooLong { .. } => ErrorKind::Resources,
            #[cfg(feature = "candle")]
            Self::Candle(_) => ErrorKind::Device,
            Self::CandleCacheType { .. } | Self::Device { .. } | Self::Instructions { .. } => {
                ErrorKind::Device
            }
            _ => ErrorKind::Unsupported,
        }
    }

    /// The error of a file that no model or head can be made of.
    pub(crate) fn config(
        file: impl ToString,
        problem: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self::Config {
            file: file.to_string(),
            problem: problem.into(),
            cure: cure.into(),
        }
    }

    /// The error for a matrix that there is no memory for.
    pub(crate) fn no_memory(
        tensor: &str,
        format: Format,
        [outputs, inputs]: [usize; 2],
    ) -> impl FnOnce(std::io::Error) -> Self {
        let tensor = tensor.to_owned();
        move |source| Self::OutOfMemory {
            tensor,
            bytes: format.bytes(inputs, outputs),
            source,
        }
    }
}

#[cfg(feature = "candle")]
impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Candle(Box::new(error))
    }
}

impl From<cascade_hub::Error> for Error {
    fn from(error: cascade_hub::Error) -> Self {
        cascade_checkpoint::Error::from(error).into()
    }
}

impl From<Error> for cascade_core::Error {
    fn from(error: Error) -> Self {
        Self::backend(error)
    }
}
