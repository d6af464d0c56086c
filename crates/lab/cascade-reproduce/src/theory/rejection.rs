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
//! * [`Markov`]: target and drafter over a whole sequence, as chains, at random as in the paper's
//!   simulations or read from JSON.
//! * [`expected_rejections`] (Theorem 1) and, for several drafts at a time,
//!   [`expected_batch_rejections`] (Theorem 3), with [`expected_batch_limit`]: what is left of
//!   rejections with drafts without number.
//! * [`expected_over_acceptance`]: rejections and bias of the rule that accepts too much and
//!   replaces in the best way (Theorems 4 and 5).
//! * [`Player`], which plays the algorithms on a chain.
//!
//! [tv]: cascade_core::Distribution::total_variation

mod chain;
mod expected;
mod over;
mod pair;
mod play;

pub use chain::{LARGEST_CHAIN, Markov};
pub use expected::{
    OverAcceptance, Rejections, expected_batch_limit, expected_batch_rejections,
    expected_over_acceptance, expected_rejections,
};
pub use over::{AcceptMore, OverAccepted};
pub use pair::Pair;
pub(crate) use play::Cumulative;
pub use play::Player;
