//! What can go wrong between a model's files and its forward pass.

use cascade_cpu::Format;

use crate::{DType, FreeMemory};

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

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

    /// A setting in a JSON file is missing or makes no sense.
    #[error("{file}: {problem}; {cure}")]
    Config {
        /// The file.
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
         \"qwen3\", \"smollm3\" and \"phi3\""
    )]
    UnsupportedModel {
        /// The config.json.
        file: String,
        /// Its `model_type`, or what stands in for it.
        model_type: String,
    },

    /// A safetensors file is shorter or longer than its header says.
    #[error(
        "{file} is {found} bytes long but its header describes {expected}; it was cut off or \
         damaged, copy or download it again"
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
    #[error("{file} is not a {format} file: {reason}; {cure}")]
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
        /// One of them.
        example: String,
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

    /// A type that GPUs do not compute in.
    #[error("a GPU computes in bf16, f16, f32 or q8_0, not in {dtype}: give one of those")]
    GpuComputeType {
        /// The type.
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
    #[error("`stored` is no type to round to; give q8_0, q4_0, f16, bf16 or f32")]
    QuantizeType,

    /// A file could not be written.
    #[error("cannot write the model: {source}")]
    Write {
        /// What the system said.
        source: std::io::Error,
    },

    /// A type that keys and values are not held in.
    #[error("keys and values are held in f32, bf16 or f16, not in `{text}`: give one of those")]
    CacheType {
        /// What was given.
        text: String,
    },

    /// A type of keys and values on a GPU, where they have the model's.
    #[error("on a GPU, keys and values have the type of the model, not {cache} of their own: leave out `cache_dtype`, or compute on the CPU")]
    GpuCacheType {
        /// What was given.
        cache: crate::CacheType,
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
        /// What it was to compute in.
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
        /// Its size in memory.
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

    /// What a GPU failed with.
    #[cfg(feature = "gpu")]
    #[error(transparent)]
    Gpu(cascade_gpu::Error),

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

    /// Text that names no device, or one that cannot be used.
    #[error("cannot use device \"{text}\": {reason}")]
    Device {
        /// What was given.
        text: String,
        /// Why it cannot be used, and what can.
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
         damaged, or its training failed; copy or download it again, or take another model"
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

    /// The environment names instructions that cannot be used.
    #[error("{problem}")]
    Instructions {
        /// What was named, and what could be.
        problem: String,
    },
}

impl Error {
    /// What it means that there is no memory for a matrix.
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

#[cfg(feature = "gpu")]
impl From<cascade_gpu::Error> for Error {
    /// An error of this crate that comes back from the GPU's loader is itself again.
    fn from(error: cascade_gpu::Error) -> Self {
        match error {
            cascade_gpu::Error::Weights(error) => match error.downcast::<Self>() {
                Ok(error) => *error,
                Err(error) => Self::Gpu(cascade_gpu::Error::Weights(error)),
            },
            error => Self::Gpu(error),
        }
    }
}

impl From<Error> for cascade_core::Error {
    fn from(error: Error) -> Self {
        Self::backend(error)
    }
}
