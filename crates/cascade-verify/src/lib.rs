//! Verification: which drafted tokens are accepted.
//!
//! A review takes a [`Draft`](cascade_core::Draft), of any tree shape (a chain is a tree), and the
//! reviewer's scores of it, and returns a [`Verdict`]. Reviews read rows and children, never
//! tensors, and do not depend on the cascade around them.
//!
//! * [`greedy`]: accept what the reviewer would have decoded itself or, for reviewers that are
//!   drafters, what is nearly as probable ([`Lenience`]).
//! * [`coupled`]: draw the reviewer's tokens with noise that depends on their position alone, so
//!   that what is drafted does not change them.
//! * [`sampled`]: draw the reviewer's tokens such that they coincide with drafted ones as often as
//!   possible. One file for each [`ReviewRule`]: [`matching`], [`speculative`], [`iterated`],
//!   [`spec_infer`]; [`lenient`] loosens any of them.
//!
//! Every strict review is exact: it emits what the reviewer alone would emit (greedy), or tokens of
//! the same distribution (sampled).

mod candidate_token;
pub mod coupled;
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

pub use candidate_token::CandidateToken;
pub use lenience::{InvalidLenience, Lenience, LeniencePolicy};
pub use row_distributions::{RowDistributions, SampledRows};
pub use rule::{ReviewRule, Rule, UnknownRule};
pub use verdict::Verdict;
