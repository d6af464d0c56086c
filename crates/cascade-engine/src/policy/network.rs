//! What is wrong with a trained network that ends drafts.

/// Weights or settings that are not those of a network that ends drafts.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidNetwork {
    /// A part of another size.
    #[error("{part} has {found} numbers, and {expected} are expected")]
    Size {
        /// The part, and its layer if there are several.
        part: String,
        /// Numbers that it should have.
        expected: usize,
        /// Numbers that it has.
        found: usize,
    },
    /// A number that is infinite or NaN, or a deviation that is not positive.
    #[error("{part} has the number {number}, which no training gives; train again")]
    Number {
        /// The part, and its layer if there are several.
        part: String,
        /// The number.
        number: f32,
    },
    /// A threshold that is not a probability.
    #[error("{network}'s threshold is a probability, from 0 to 1, not {threshold}")]
    Threshold {
        /// The kind of network.
        network: &'static str,
        /// The threshold.
        threshold: f32,
    },
    /// Drafts of nothing.
    #[error("the longest draft has at least 1 token, not 0")]
    NoTokens,
    /// Bounds of drafts between which there is no length.
    #[error(
        "drafts of {shortest} tokens or more and {longest} or less; give 1 ≤ shortest ≤ longest"
    )]
    Lengths {
        /// The least.
        shortest: usize,
        /// The most.
        longest: usize,
    },
}

/// Checks the size and the numbers of a part.
pub(super) fn check_part(
    part: impl FnOnce() -> String,
    numbers: &[f32],
    expected: usize,
    is_good: impl Fn(f32) -> bool,
) -> Result<(), InvalidNetwork> {
    let found = numbers.len();
    if found != expected {
        return Err(InvalidNetwork::Size {
            part: part(),
            expected,
            found,
        });
    }
    match numbers.iter().find(|&&number| !is_good(number)) {
        None => Ok(()),
        Some(&number) => Err(InvalidNetwork::Number {
            part: part(),
            number,
        }),
    }
}

pub(super) fn check_threshold(network: &'static str, threshold: f32) -> Result<(), InvalidNetwork> {
    if (0.0..=1.0).contains(&threshold) {
        Ok(())
    } else {
        Err(InvalidNetwork::Threshold { network, threshold })
    }
}
