//! The core types of speculative decoding, without a tensor library.
//!
//! * [`TokenTree`]: candidate tokens that may follow a context. A chain is a tree; an empty tree
//!   means plain decoding.
//! * [`Draft`]: a token tree that records what each node was drawn from and who proposed it.
//! * [`Distribution`]: probabilities over a vocabulary; [`Sampling`] computes them from logits,
//!   [`RandomSource`] draws from them, and so does [`Noise`], which depends on the place alone.
//! * [`Scorer`]: a neural model. It scores a whole tree in one forward and is observationally pure.
//! * [`Drafter`]: a statistical model, such as Max-Gram or a bigram table. It proposes at
//!   negligible cost.
//! * [`TextCodec`]: text to tokens and back, token by token.
//!
//! The crates above are written in these terms: verification rules see [`Scores`] and a [`Draft`],
//! the engine sees scorers and drafters, and neither ever sees a tensor.

mod advice;
mod choice;
mod codec;
mod distribution;
mod draft;
mod drafter;
mod error;
pub mod exp;
mod fingerprint;
mod forward_times;
pub mod fs;
mod hidden;
mod matrix;
mod noise;
mod penalties;
mod philox;
mod prefix;
mod prompt;
mod random;
mod sampling;
mod score;
mod scorer;
pub mod toy;
mod tree;
mod vector;

pub use advice::{Advice, AdvisedRow};
pub use choice::Choice;
pub use codec::{TextCodec, TextDecoder};
pub use distribution::{Distribution, ImproperDistribution};
pub use draft::{Candidate, Draft, LevelId, Proposal, Proposed};
pub use drafter::{Budget, Drafter, Guidance, Observation, ScoredTree};
pub use error::{Error, Result};
pub use fingerprint::Fingerprint;
pub use forward_times::{ForwardTimes, RowTimes};
pub use hidden::{HiddenLayer, HiddenLayers, HiddenStates};
pub use matrix::Matrix;
pub use noise::{Noise, SeededNoise, exponential_of, seed_of};
pub use penalties::{PenalizedScorer, PenalizedText, Penalties};
pub use prefix::common_prefix;
pub use prompt::{Architecture, Prompt};
pub use random::{RandomSource, SeededRandom};
pub use sampling::{Decoding, InvalidSampling, Sampling, StatedSampling};
pub use score::{GatheredProbs, RowDetail, Scores, Top, Want};
pub use scorer::{LARGEST_FORWARD, Scorer, ScorerInfo, SharedForward};
pub use tree::{NodeId, TokenTree};

/// Index of a token in a model's vocabulary.
pub type TokenId = u32;
