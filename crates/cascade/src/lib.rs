#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub use cascade_config::{
    AssembleOptions, Assembled, Assembly, Batch, Config, DeviceSpec, ModelPool, Target,
};
pub use cascade_core::{
    Architecture, Budget, Choice, Decoding, Drafter, GatheredProbs, Guidance, HiddenLayer,
    HiddenLayers, HiddenStates, LevelId, Matrix, NodeId, Observation, Prompt, Proposal, RowDetail,
    Sampling, ScoredTree, Scorer, ScorerInfo, Scores, TextCodec, TextDecoder, TokenId, TokenTree,
    Top, Want, seed_of,
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

/// Files of trained networks that decide when a drafter stops.
pub mod trained {
    pub use cascade_config::trained::*;
}

/// The demo models, tables and configurations, which are part of the program: `embedded:demo-t5`.
#[cfg(feature = "demo")]
pub mod demo {
    pub use cascade_demo::register;

    /// The configuration of the demo models of the T5 family, after [`register`].
    ///
    /// # Errors
    /// None, as a test makes sure.
    pub fn config() -> crate::config::Result<crate::Config> {
        register();
        crate::Config::open("embedded:demo-t5")
    }

    #[cfg(test)]
    mod tests {
        #[test]
        fn the_demo_is_found() {
            assert_eq!(super::config().unwrap().target.name, "demo-t5-target");
            assert!(crate::Config::open("embedded:demo-llama").is_ok());
        }
    }
}
