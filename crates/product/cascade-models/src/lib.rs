//! T5 and LLaMA, on the CPU (with candle) and on NVIDIA GPUs: from a model's files to scores.
//!
//! * [`ModelSource`]: where a model's files are: a folder, the Hugging Face hub, or this very binary.
//! * [`load`]: files to a [`LoadedModel`]: weights, tokenizer and end-of-sequence tokens, checked against each other.
//! * [`shape`], [`random_model`]: the shape of a released model with random weights, for measuring.
//! * [`Tokenizer`]: tokenizer.json as a [`TextCodec`](cascade_core::TextCodec).
//!
//! A model is a set of weights; what has been fed to it lives in sessions, which are the
//! [`Scorer`](cascade_core::Scorer)s of the engine. Any number of sessions share one model.
//!
//! Wrong files are the rule, not the exception: every [`Error`] names the file and the cure.

mod arena;
mod config;
mod cpu;
mod cpu_sequence;
mod device;
mod error;
mod gpu;
mod layers;
mod llama;
mod load;
mod mask;
mod memory;
mod network;
mod random;
mod readout;
mod rows;
mod session;
mod shapes;
mod t5;
mod tokenizer;
mod weights;

pub use candle_core::DType;
pub use cascade_gpu::LaunchCost;
pub use cascade_hub::{EmbeddedModel, HubOptions, ModelFile, ModelFiles, ModelSource};
pub use device::{parse_device, Device};
pub use error::{Error, Result};
pub use llama::{Llama, LlamaConfig, RopeScaling};
pub use load::{load, parse_dtype, LoadOptions, LoadedModel};
pub use random::random_model;
pub use session::{Model, Session};
pub use shapes::{shape, shape_names};
pub use t5::{relative_position_bucket, FeedForwardProj, T5Config, T5};
pub use tokenizer::Tokenizer;

/// Version of the tensor library, which is pinned.
pub const CANDLE_VERSION: &str = "0.11.1";

/// Instruction sets of this processor that forward passes make use of.
pub fn cpu_features() -> Vec<&'static str> {
    // Our own kernels choose when they run, the tensor library's when they are compiled.
    #[cfg(target_arch = "x86_64")]
    let [avx512, avx2] = [
        pulp::x86::V4::try_new().is_some(),
        pulp::x86::V3::try_new().is_some(),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let [avx512, avx2] = [false; 2];
    let features = [
        ("avx512", avx512),
        ("avx2", avx2),
        ("neon", candle_core::utils::with_neon()),
        ("simd128", candle_core::utils::with_simd128()),
        ("f16c", candle_core::utils::with_f16c()),
    ];
    let there = features.into_iter().filter(|(_, there)| *there);
    there.map(|(name, _)| name).collect()
}
