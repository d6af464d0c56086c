//! What the configurations of both architectures are checked for.

use crate::{Error, Result};

/// An error of config.json, mended by taking the right file.
pub(crate) fn bad(problem: impl Into<String>) -> Error {
    let cure = "take config.json from the model the weights came from";
    Error::config("config.json", problem, cure)
}

/// Refuses the first size that is 0.
pub(crate) fn refuse_zeros(sizes: &[(&str, usize)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some((name, _)) => Err(bad(format!("{name} is 0"))),
        None => Ok(()),
    }
}

/// Refuses vocabularies whose token ids are not exact in f32, in which they come back from a
/// device.
pub(crate) fn check_vocabulary(vocab_size: usize) -> Result<()> {
    const LIMIT: usize = 1 << f32::MANTISSA_DIGITS;
    if vocab_size > LIMIT {
        return Err(bad(format!("vocab_size {vocab_size} is above {LIMIT}")));
    }
    Ok(())
}

/// A product of sizes that are not compared with the weights yet, so that it may be anything.
pub(crate) fn product(sizes: &[usize]) -> usize {
    let sizes = sizes.iter();
    sizes.fold(1, |product, &size| product.saturating_mul(size))
}

/// A sum of such products.
pub(crate) fn sum(terms: &[usize]) -> usize {
    let terms = terms.iter();
    terms.fold(0, |sum, &term| sum.saturating_add(term))
}
