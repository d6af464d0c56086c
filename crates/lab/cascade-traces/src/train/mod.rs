//! Training of the networks that decide when a drafter stops, and of heads that draft.
//!
//! DISCO's classifier (Mamou et al., Accelerating Speculative Decoding using Dynamic Speculation
//! Length) learns from a trace, the recorded greedy outputs of a target:
//!
//! * [`examples`]: one pass of the drafter over each output. After every prefix of the target's
//!   tokens the drafter says its next one; it is accepted if it is the target's.
//! * [`Split`]: outputs to train on, to choose by, and to report on; no output is in two of them.
//! * [`Training`]: epochs of Adam with a cosine schedule, early stop, and a checkpoint after each
//!   epoch: a training that is killed and resumed ends with the same bits as one that is not.
//! * [`Quality`]: loss, F1 and calibration.
//! * [`Choice`]: the threshold and the longest draft with the best predicted speed.
//!
//! SpecDec++'s head (Huang et al., SpecDec++: Boosting Speculative Decoding via Adaptive Candidate
//! Lengths) learns from the same traces, and the drafter's hidden states: [`HeadPass`],
//! [`HeadTraining`], [`HeadChoice`].
//!
//! Heads that draft, EAGLE's and Medusa's, learn from a target's hidden states along recorded
//! outputs: [`DrafterTexts`] records them, [`DrafterTraining`] trains, and [`DraftAcceptance`] says
//! what came of it.

mod checkpoint;
mod choice;
mod drafter;
mod error;
mod example;
mod fit;
mod head;
mod optimiser;
mod quality;
mod training;

pub use choice::{Accepted, Choice, Prediction, baselines};
pub use drafter::{
    DraftAcceptance, Drafter, DrafterFile, DrafterKind, DrafterSettings, DrafterTexts,
    DrafterTraining, Position, Text,
};
pub use error::{Error, ErrorKind, Result};
pub use example::{Example, Output, Split, examples};
pub use fit::{Epoch, Fit, Network, Plan};
pub use head::{
    Head, HeadChoice, HeadExamples, HeadOutput, HeadPass, HeadSettings, HeadTraining, Teacher,
};
pub use quality::{Bin, Quality};
pub use training::{Classifier, Settings, Training};
