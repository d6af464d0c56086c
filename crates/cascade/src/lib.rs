#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub use cascade_config::{AssembleOptions, Assembled, Config, DeviceSpec, ModelPool, Target};
pub use cascade_core::{
    seed_of, Architecture, Budget, Choice, Decoding, Drafter, GatheredProbs, Guidance, HiddenLayer,
    HiddenLayers, HiddenStates, LevelId, Matrix, NodeId, Observation, Prompt, Proposal, RowDetail,
    Sampling, ScoredTree, Scorer, ScorerInfo, Scores, TextCodec, TextDecoder, TokenId, TokenTree,
    Top, Want,
};
pub use cascade_engine::*;

/// Configurations: the YAML format, and how to build a cascade from it.
pub mod config {
    pub use cascade_config::*;
}

/// The core types of scorers, drafters and verification.
pub mod core {
    pub use cascade_core::*;
}

/// T5 and LLaMA models: loading, tokenizers, sessions.
pub mod models {
    pub use cascade_models::*;
}

/// Statistical drafters: Max-Gram, bigram tables, prompt lookup.
pub mod ngram {
    pub use cascade_ngram::*;
}
