//! Errors of the theory's inputs.

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why something cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value that is not an acceptance rate.
    #[error("an acceptance rate is a probability, from 0 to 1, not {0}")]
    AcceptanceRate(f64),

    /// A value that is not a cost coefficient.
    #[error(
        "a cost coefficient is the time of a drafter's forward over that of the target's: \
         finite and not negative, not {0}"
    )]
    CostCoefficient(f64),

    /// A simulation that is too short for a standard error.
    #[error(
        "a simulation takes at least 2 steps, or it has no standard error; {0} were asked for"
    )]
    TooFewSteps(u64),

    /// An over-acceptance that is not a number of 0 or more.
    #[error("an over-acceptance is finite and not negative (0 is speculative sampling), not {0}")]
    Extra(f64),

    /// A longest draft of nothing.
    #[error("the longest draft has at least 1 token, not 0; plain decoding is among the policies")]
    NoDraft,

    /// A stop rule's threshold that is not a probability.
    #[error("a threshold is a probability, from 0 to 1, not {0}")]
    Threshold(f64),

    /// A chain in JSON that is not one.
    #[error("the chain is not one: {0}")]
    Chain(String),

    /// A chain that is too large to be held.
    #[error(
        "{positions} positions of {states} states take more memory than that of {most} numbers, which a chain \
         may take; take fewer"
    )]
    TooLarge {
        /// Positions asked for.
        positions: usize,
        /// States asked for.
        states: usize,
        /// Numbers whose memory a chain may take.
        most: usize,
    },

    /// Distributions, or something given per token, over vocabularies of different sizes.
    #[error("{what} is over {found} tokens, and {expected} are in the vocabulary")]
    Vocabulary {
        /// What does not fit.
        what: &'static str,
        /// Size of the vocabulary.
        expected: usize,
        /// Its own size.
        found: usize,
    },
}
