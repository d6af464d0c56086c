//! Files of trained networks that decide when a drafter stops.
//!
//! [`ClassifierFile`] is DISCO's classifier as one file, [`HeadFolder`] SpecDec++'s acceptance head
//! as a folder, in the form of the heads that its authors released. Training writes both, and the
//! stop rules of configurations are read from them.

mod classifier;
mod head;
mod tensors;

pub use classifier::{ClassifierError, ClassifierFile, ClassifierSettings};
pub use head::{HeadError, HeadFolder, HeadSettings};
