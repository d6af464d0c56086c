//! Training of SpecDec++'s acceptance head.

mod choice;
mod example;
mod training;

pub use choice::HeadChoice;
pub use example::{HeadExamples, HeadOutput, HeadPass, Teacher};
pub use training::{Head, HeadSettings, HeadTraining};
