//! Training of heads that draft: EAGLE's and Medusa's.

mod acceptance;
mod eagle;
mod layer;
mod medusa;
mod tensors;
mod text;
mod training;

pub use acceptance::{DraftAcceptance, Position};
pub use text::{DrafterTexts, Text};
pub use training::{Drafter, DrafterFile, DrafterKind, DrafterSettings, DrafterTraining};
