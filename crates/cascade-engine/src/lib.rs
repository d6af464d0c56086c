//! The cascade engine: who drafts for whom, how much, and the steps that turn verified drafts into
//! text.
//!
//! * [`Cascade`]: a target and its drafters, built by [`Cascade::builder`].
//! * [`Generation`]: the decoding of one prompt. [`step`](Generation::step) it, iterate over it, or
//!   let [`Cascade::generate`] run it to its [`GenerationOutput`].
//! * [`Schedule`]: who drafts next for a reviewer, and how much. The built-in one follows the
//!   [`KMatrix`] of Cascade Speculative Drafting (§3.4), or drafts what pays at present
//!   ([`OnlineSchedule`]). [`StopRule`]: whether a draft ends after a token. Both learn from
//!   [`Outcome`]s.
//! * [`Branching`]: how drafts become trees.
//! * [`Usage`]: calls, rows and time of each model.
//! * [`StopSequences`]: texts that end a generation, found across token boundaries. [`Ends`]:
//!   tokens that end it.
//!
//! The engine uses models as [`Scorer`](cascade_core::Scorer)s and
//! [`Drafter`](cascade_core::Drafter)s and never sees a tensor. Its output is the target's own,
//! greedy or sampled, whatever the drafters, the policies, the lenience and the shape of the
//! drafts.

#![forbid(unsafe_code)]

mod assumed_time;
mod branching;
mod builder;
mod cascade;
mod clock;
mod context_stack;
mod contract;
mod decoding;
mod draft_builder;
mod draft_settings;
mod emission;
mod ends;
mod error;
mod event;
mod generation;
mod json;
mod k_matrix;
mod ledger;
mod level;
mod level_checks;
mod logprobs;
mod options;
mod output;
mod own_time;
mod policy;
mod recursion;
mod report;
mod shared_vocabulary;
mod stop_sequences;
mod text;
mod virtual_batch;

pub use assumed_time::{AssumedTime, AssumedTimes};
pub use branching::{Branching, Expand, Placement, Siblings};
pub use builder::{CascadeBuilder, DEFAULT_MAX_NODES};
pub use cascade::Cascade;
pub use cascade_verify::{InvalidLenience, Lenience, ReviewRule, Rule, UnknownRule};
pub use clock::{Clock, SystemClock, ThreadClock, VirtualClock, cpu_time};
pub use ends::Ends;
pub use error::{Error, ErrorKind, Result};
pub use event::Event;
pub use generation::Generation;
pub use k_matrix::{Convention, KMatrix, KMatrixError};
pub use ledger::Usage;
pub use level::NeuralOptions;
pub use level_checks::{LevelSpec, NeuralSpec, check_levels};
pub use logprobs::{DraftNode, TokenLogprobs};
pub use options::Options;
pub use output::{Finish, GenerationOutput, ModelUsage, Role, Step};
pub use own_time::OwnTime;
pub use policy::{
    AcceptanceHead, AdaptiveConfidence, AssumedCosts, CLASSIFIER_FEATURES, CLASSIFIER_WANT,
    Classifier, ClassifierWeights, ConfidenceThreshold, DraftState, DraftedToken, FixedLength,
    ForwardCost, GrowingTree, HEAD_WANT, HeadLayer, HeadWeights, InvalidNetwork, Judgement,
    LengthHeuristic, MdpThreshold, NewText, OnlineSchedule, Outcome, Plan, Schedule, Statement,
    StaticSchedule, StopRule, Turn, TurnRecord, TurnStart, classifier_features,
};
pub use report::{LevelStep, StepReport, StepTimings, TextPiece};
pub use shared_vocabulary::DraftVocabulary;
pub use stop_sequences::{LONGEST_STOP, StopSequences};
pub use virtual_batch::{VirtualBatch, VirtualText};
