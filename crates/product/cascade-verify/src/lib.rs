//! Which drafted tokens are kept.
//!
//! A review sees what was drafted ([`Draft`](cascade_core::Draft)) and what the reviewer says of
//! it, over any tree (a chain is one), and returns a [`Verdict`]. Reviews see rows and children,
//! never tensors, and know nothing of the cascade around them.
//!
//! * [`greedy`]: keep what the reviewer would have said itself, or, for reviewers that are
//!   drafters, what is nearly as probable ([`Lenience`]).
//! * [`sampled`]: draw the reviewer's tokens so that they are drafted ones as often as possible.
//!   One file for each [`Rule`]: [`matching`], [`speculative`], [`iterated`], [`spec_infer`];
//!   [`lenient`] loosens any of them.
//!
//! Every strict review is exact: what it emits is what the reviewer would have emitted alone.

pub mod greedy;
pub mod iterated;
mod lenience;
pub mod lenient;
pub mod matching;
mod row_distributions;
mod rule;
pub mod sampled;
pub mod spec_infer;
pub mod speculative;
mod verdict;

pub use lenience::{InvalidLenience, Lenience, LeniencePolicy};
pub use row_distributions::{RowDistributions, SampledRows};
pub use rule::{CandidateToken, ReviewRule, Rule, UnknownRule};
pub use verdict::Verdict;
