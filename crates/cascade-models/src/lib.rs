//! T5 and the LLaMA family on CPUs, and on GPUs with candle: from a model's files to scores.
//!
//! * [`ModelSource`]: where a model's files are: a folder, the Hugging Face hub, or this very
//!   binary.
//! * [`load`]: files to a [`LoadedModel`]: weights, tokenizer and end-of-sequence tokens, checked
//!   against each other. [`Model::build`]: the same from a caller's [`WeightSource`].
//! * [`DeviceSpec`], [`DType`]: where a model computes, and in what.
//! * [`shape`], [`random_model`]: the shape of a released model with random weights, for
//!   measurements.
//! * [`Tokenizer`]: the model's tokenizer as a [`TextCodec`](cascade_core::TextCodec). Formats of
//!   files are those of `cascade-checkpoint`.
//!
//! A model is a set of weights; what it has read lives in sessions, which are the
//! [`Scorer`](cascade_core::Scorer)s of the engine. Any number of sessions share one model. Layers
//! are written once per architecture, in operations that a backend for each device carries out.
//!
//! Wrong files are the rule, not the exception: every [`Error`] names the file and the cure.

mod backend;
mod checks;
mod config;
mod decoder;
mod device;
mod dtype;
mod error;
mod estimate;
mod forward_times;
mod gathering;
mod generation;
mod heads;
mod info;
mod load;
mod memory;
mod model;
mod plan;
mod prefixes;
mod quantize;
mod random;
mod readout;
mod session;
mod settings;
mod shapes;
mod t5;
mod weights;

#[cfg(feature = "candle")]
pub use backend::candle::CandleDevice;
pub use backend::compute_threads;
pub use cascade_checkpoint::{
    DType, NamedTensor, Tokenizer, gguf_tokenizer_config, parse_dtype, read_tensors,
};
pub use cascade_hub::{
    EmbeddedModel, EmbeddedWeights, HubOptions, ModelFile, ModelFiles, ModelSource, TokenizerFiles,
    VocabularyFiles, WeightFormat, user_cache,
};
pub use device::{Device, DeviceSpec, OpenDevice, parse_device};
pub use dtype::{CacheType, parse_cache_type};
pub use error::{Error, ErrorKind, Result};
pub use estimate::MemoryEstimate;
pub use forward_times::TimedForwards;
pub use gathering::{
    BatchCounts, BatchedSession, Batcher, Participant, ScoreCall, TakesPart, Workers,
    score_together,
};
pub use heads::{Head, HeadBasis, HeadSession, check_head, load_head};
pub use load::{LoadOptions, LoadedModel, load, load_files, locate};
pub use memory::{FreeMemory, MemoryLimit, Overcommit};
pub use model::Model;
pub use prefixes::SharedPrefixes;
pub use quantize::{Quantized, check_quantized, quantize};
pub use random::random_model;
pub use readout::scores_of_logits;
pub use session::Session;
pub use shapes::{shape, shape_names};
pub use weights::WeightSource;

/// Instruction sets of this CPU that forward passes can use, the widest first. It is the one that
/// they do use, unless the environment variable `CASCADE_CPU` names another.
pub fn cpu_features() -> Vec<&'static str> {
    let there = cascade_cpu::Isa::available().into_iter();
    there.map(cascade_cpu::Isa::as_str).collect()
}

/// The instruction set that forward passes on this CPU use.
///
/// # Errors
/// [`Error::Instructions`]: `CASCADE_CPU` names one that is not there.
pub fn cpu_instructions() -> Result<&'static str> {
    match cascade_cpu::Isa::chosen() {
        Ok(isa) => Ok(isa.as_str()),
        Err(problem) => Err(Error::Instructions { problem }),
    }
}
