//! Drafting policies: who drafts next and how much ([`Schedule`]), and when a draft ends early
//! ([`StopRule`]).
//!
//! Both learn from the outcome of every verification ([`Outcome`]), by level and position. Each
//! implementation has a file of its own: [`StaticSchedule`] is the K matrix of Cascade Speculative
//! Drafting, [`ConfidenceThreshold`] the fixed threshold of Hugging Face transformers.

mod classifier;
mod confidence;
mod outcome;
mod schedule;
mod static_schedule;
mod stop_rule;

pub use classifier::{
    classifier_features, Classifier, ClassifierWeights, InvalidClassifier, CLASSIFIER_FEATURES,
    CLASSIFIER_WANT,
};
pub use confidence::ConfidenceThreshold;
pub use outcome::{ForwardCost, Judgement, Outcome};
pub(crate) use schedule::idle_drafters;
pub use schedule::{DraftState, Schedule, Turn, TurnRecord, TurnStart};
pub use static_schedule::StaticSchedule;
pub use stop_rule::{DraftedToken, StopRule};
