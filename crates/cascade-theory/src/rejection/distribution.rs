//! Distributions over a vocabulary.

use crate::{Error, Result};

/// How far from 1 probabilities may sum, which is what f32 makes of a large vocabulary.
const TOLERANCE: f64 = 1e-4;

/// A probability distribution over the tokens 0, 1, …
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution(Vec<f64>);

impl Distribution {
    /// Checks that `probabilities` are finite, not negative, and sum to 1 within 1e-4, and divides them by their sum.
    ///
    /// # Errors
    /// [`Error::Probability`] or [`Error::Sum`]; the latter also for an empty vocabulary, whose sum is 0.
    pub fn new(probabilities: Vec<f64>) -> Result<Self> {
        let valid = |p: &f64| p.is_finite() && *p >= 0.0;
        if let Some(token) = probabilities.iter().position(|p| !valid(p)) {
            let value = probabilities[token];
            return Err(Error::Probability { token, value });
        }
        let sum: f64 = probabilities.iter().sum();
        if (sum - 1.0).abs() > TOLERANCE {
            let vocabulary = probabilities.len();
            return Err(Error::Sum { vocabulary, sum });
        }
        Ok(Self(probabilities.into_iter().map(|p| p / sum).collect()))
    }

    /// The probability of each token.
    pub fn probabilities(&self) -> &[f64] {
        &self.0
    }

    /// Number of tokens.
    pub fn vocabulary(&self) -> usize {
        self.0.len()
    }
}

/// Total variation distance, ½·Σ_x |a(x) − b(x)|, from 0 (equal) to 1 (nothing in common).
///
/// # Errors
/// [`Error::Vocabulary`] if the vocabularies are of different sizes.
pub fn total_variation(a: &Distribution, b: &Distribution) -> Result<f64> {
    if a.vocabulary() != b.vocabulary() {
        return Err(Error::Vocabulary {
            what: "the other distribution",
            expected: a.vocabulary(),
            found: b.vocabulary(),
        });
    }
    let differences = a.0.iter().zip(&b.0).map(|(a, b)| (a - b).abs());
    Ok((differences.sum::<f64>() / 2.0).min(1.0))
}
