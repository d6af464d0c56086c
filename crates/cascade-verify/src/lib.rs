//! Which drafted tokens are kept.
//!
//! A rule sees what was drafted ([`Draft`](cascade_core::Draft)) and what the reviewer says of it
//! ([`Scores`](cascade_core::Scores)), over any tree, and returns a [`Verdict`]. Rules see rows and children, never
//! tensors, and know nothing of the cascade around them.
//!
//! * [`greedy`]: keep what the reviewer would have said itself, or, for reviewers that are drafters, what is nearly as
//!   probable ([`Lenience`]).

pub mod greedy;
mod lenience;
mod verdict;

pub use lenience::{InvalidLenience, Lenience, Leniences};
pub use verdict::Verdict;
