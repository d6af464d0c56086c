//! How often drafts must be rejected (Yin et al., A Theoretical Perspective for Speculative
//! Decoding Algorithm).
//!
//! The paper writes p for the drafter and q for the target; here they are named. Its setting is
//! speculative sampling with a drafter that costs nothing, so that drafts have no end: every target
//! forward but the last ends in a rejection, and fewer rejections are all there is to gain. Nothing
//! is assumed about independence: what is expected follows from the distributions.
//!
//! * [`Pair`]: target and drafter at one position. The probability of a rejection is their [total
//!   variation][tv], no unbiased rule can do with less (Theorem 2), and what a biased one must give
//!   up for less (Theorem 4) is on a straight line (Theorem 5, the Pareto front).
//! * [`Process`]: target and drafter over a whole sequence, with [`expected_rejections`] (Theorem
//!   1) and, for several drafts at a time, [`expected_batch_rejections`] (Theorem 3).
//! * [`expected_batch_limit`]: what is left of rejections with drafts without number.
//! * [`expected_over_acceptance`]: rejections and bias of the rule that accepts too much and
//!   replaces in the best way (Theorems 4 and 5), over a sequence.
//! * [`Markov`]: chains, at random as in the paper's simulations or read from JSON, and [`Player`],
//!   which plays the algorithms on them.
//!
//! ```
//! use cascade_core::Distribution;
//! use cascade_reproduce::theory::rejection::{expected_rejections, Independent, Pair};
//!
//! let target = Distribution::new(vec![0.5, 0.3, 0.2])?;
//! let drafter = Distribution::new(vec![0.7, 0.2, 0.1])?;
//! let pair = Pair::new(target, drafter)?;
//! assert!((pair.rejection() - 0.2).abs() < 1e-12);
//!
//! // 50 such positions in a row.
//! let rejections = expected_rejections(&Independent(vec![pair; 50]), 50);
//! assert!((rejections.expected - 10.0).abs() < 1e-12);
//! assert!((rejections.acceleration() - 5.0).abs() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [tv]: cascade_core::Distribution::total_variation

mod chain;
mod over;
mod pair;
mod play;
mod process;

pub use chain::{LARGEST_CHAIN, MOST_NUMBERS};
pub use over::{expected_over_acceptance, AcceptMore, OverAcceptance};
pub use pair::Pair;
pub(crate) use play::Cumulative;
pub use play::{Algorithm, Player};
pub use process::{
    expected_batch_limit, expected_batch_rejections, expected_rejections, Independent, Markov,
    Process, Rejections,
};
