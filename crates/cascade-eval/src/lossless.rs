//! Checks that a cascade's output is what its target alone would emit.
//!
//! * [`rescore`], [`rescore_sampled`]: greedy and coupled output against the plain target, token by
//!   token, by teacher forcing.
//! * [`Cells`] and [`agreement`]: samples against the target's enumerated distribution.
//!
//! * [`Trial`]: a generation of a configuration, [with random settings](with_random_settings) if
//!   the output is to be shown not to depend on them; [`Findings`] and [`Comparisons`] sum up what
//!   both checks say of trials.
//! * [`Certifier`]: whether token ids and the bits of log probabilities stay the same, whatever
//!   drafts, in any company, after any prefix, by any number of threads.
//!
//! The first two use a separate scorer of the target and are independent of the cascade: their only
//! input from it is its tokens.

mod certificate;
mod comparisons;
mod findings;
mod random_settings;
mod rescored;
mod sampled;
mod tolerance;
mod trial;

pub use crate::cells::Cells;
pub use certificate::{BitDifference, Certificate, Certifier, Checked};
pub use comparisons::{Compared, Comparisons};
pub use findings::{Finding, Findings};
pub use random_settings::{settings, with_random_settings};
pub use rescored::{Difference, Rescored, rescore, rescore_sampled};
pub use sampled::{Agreement, agreement};
pub use tolerance::{LEAST, ROUNDINGS, Tolerance};
pub use trial::Trial;
