//! Acceptance rates and costs.

use std::num::NonZeroU64;

use crate::theory::{Error, Result};

/// An expected acceptance rate α, from 0 to 1: the probability that a reviewer keeps a drafted
/// token (Cascade Speculative Drafting, §4).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct AcceptanceRate(pub(crate) f64);

impl AcceptanceRate {
    /// Checks that `value` is a probability.
    pub fn new(value: f64) -> Result<Self> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(Error::AcceptanceRate(value))
        }
    }

    /// α.
    pub fn get(self) -> f64 {
        self.0
    }

    /// A probability that rounding may have carried past an end.
    pub(crate) fn clamped(value: f64) -> Self {
        Self(value.clamp(0.0, 1.0))
    }
}

/// A cost coefficient c, finite and not negative: the time of one forward of a drafter over that of
/// one forward of the target (Cascade Speculative Drafting, §4). Statistical drafters cost nearly
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct CostCoefficient(f64);

impl CostCoefficient {
    /// c = 0.
    pub const FREE: Self = Self(0.0);

    /// Checks that `value` is a cost coefficient.
    pub fn new(value: f64) -> Result<Self> {
        if value.is_finite() && value >= 0.0 {
            Ok(Self(value))
        } else {
            Err(Error::CostCoefficient(value))
        }
    }

    /// The ratio of two numbers of parameters: a forward at batch 1 takes as long as its weights
    /// take to be read.
    pub fn of_sizes(drafter: NonZeroU64, target: NonZeroU64) -> Self {
        Self(drafter.get() as f64 / target.get() as f64)
    }

    /// c.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A drafter in the theory: its acceptance rate and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drafter {
    /// α: the rate at which its reviewer keeps its tokens.
    pub acceptance: AcceptanceRate,
    /// c: what one of its tokens costs, in forwards of the target.
    pub cost: CostCoefficient,
}

impl Drafter {
    /// A drafter with α = `acceptance` and c = `cost`.
    pub fn new(acceptance: f64, cost: f64) -> Result<Self> {
        Ok(Self {
            acceptance: AcceptanceRate::new(acceptance)?,
            cost: CostCoefficient::new(cost)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_probabilities() {
        for good in [0.0, 0.5, 1.0] {
            assert_eq!(AcceptanceRate::new(good).unwrap().get(), good);
        }
        for bad in [-0.01, 1.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let message = AcceptanceRate::new(bad).unwrap_err().to_string();
            assert!(message.ends_with(&format!("not {bad}")), "{message}");
        }
    }

    #[test]
    fn costs_are_finite_and_not_negative() {
        for good in [0.0, 0.02, 3.0] {
            assert_eq!(CostCoefficient::new(good).unwrap().get(), good);
        }
        for bad in [-0.01, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let message = CostCoefficient::new(bad).unwrap_err().to_string();
            assert!(message.ends_with(&format!("not {bad}")), "{message}");
        }
        assert!(Drafter::new(0.5, -1.0).is_err() && Drafter::new(1.5, 0.0).is_err());
    }
}
