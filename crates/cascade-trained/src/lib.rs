//! Files of trained networks that decide when a drafter stops.
//!
//! [`ClassifierFile`] is DISCO's classifier as one file, [`HeadFolder`] SpecDec++'s acceptance head
//! as a folder, in the form of the heads that its authors released. Both are read into the weights
//! of `cascade-engine`'s stop rules, and written from them: training writes, configurations read.
//!
//! They are a crate of their own because they need what no other crate may have at once: the
//! engine, whose rules they are, sees no tensors; the models, which read tensors, see no cascade;
//! and a configuration only names the files.

#![forbid(unsafe_code)]

mod classifier;
mod head;
mod tensors;

pub use classifier::{ClassifierError, ClassifierFile, ClassifierSettings};
pub use head::{HeadError, HeadFolder, HeadSettings};
