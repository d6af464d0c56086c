//! Drafting policies: who drafts next and how much ([`Schedule`]), and when a draft ends early
//! ([`StopRule`]).
//!
//! Both learn from the outcome of every verification ([`Outcome`]), by level and position. Each
//! implementation has a file of its own: [`StaticSchedule`] is the K matrix of Cascade Speculative
//! Drafting, [`OnlineSchedule`] drafts what pays at present; [`ConfidenceThreshold`],
//! [`AdaptiveConfidence`] and [`LengthHeuristic`] are rules of Hugging Face transformers,
//! [`MdpThreshold`] and [`AcceptanceHead`] are those of SpecDec++, and [`FixedLength`] what they
//! are compared with.

mod acceptance;
mod adaptive_confidence;
mod classifier;
mod confidence;
mod fixed_length;
mod head;
mod heuristic;
mod lately;
mod mdp;
mod network;
mod online;
mod outcome;
mod pending;
mod schedule;
mod static_schedule;
mod stop_rule;

pub use adaptive_confidence::AdaptiveConfidence;
pub use classifier::{
    CLASSIFIER_FEATURES, CLASSIFIER_WANT, Classifier, ClassifierWeights, classifier_features,
};
pub use confidence::ConfidenceThreshold;
pub use fixed_length::FixedLength;
pub use head::{AcceptanceHead, HEAD_WANT, HeadLayer, HeadWeights};
pub use heuristic::LengthHeuristic;
pub use mdp::MdpThreshold;
pub use network::InvalidNetwork;
pub use online::{AssumedCosts, OnlineSchedule, Statement};
pub use outcome::{ForwardCost, Judgement, Outcome};
pub use schedule::{DraftState, GrowingTree, NewText, Plan, Schedule, Turn, TurnRecord, TurnStart};
pub use static_schedule::StaticSchedule;
pub use stop_rule::{DraftedToken, StopRule};
