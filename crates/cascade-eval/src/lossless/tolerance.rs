//! How far apart logits may be that rounding has put in another order.

use cascade_models::DType;

/// Rounding errors of the greatest logit by which two logits may differ.
pub const ROUNDINGS: f32 = 4.0;

/// The tolerance of [`Tolerance::of_rounding`] where logits are small.
pub const LEAST: f32 = 1e-3;

/// The gap up to which two logits are a near-tie: which of them is greater is decided by rounding,
/// and a token that differs is no violation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    least: f32,
    relative: f32,
}

impl Tolerance {
    /// A tolerance that is the same for all logits.
    pub const fn fixed(gap: f32) -> Self {
        Self {
            least: gap,
            relative: 0.0,
        }
    }

    /// The tolerance of a data type whose machine epsilon (the distance from 1 to the next number)
    /// is given:
    ///
    /// ```text
    /// max(LEAST, ROUNDINGS · ε · greatest absolute logit of the row)
    /// ```
    ///
    /// Rounding is relative: in f16 (ε = 2⁻¹⁰) numbers about 24 are 0.016 apart, numbers about 3
    /// only 0.002. Forwards of different numbers of rows may round differently at each of several
    /// steps, which is what the factor is for.
    pub fn of_rounding(epsilon: f32) -> Self {
        Self {
            least: LEAST,
            relative: ROUNDINGS * epsilon,
        }
    }

    /// [`of_rounding`](Self::of_rounding) of a model's data type.
    pub fn of_type(dtype: DType) -> Self {
        Self::of_rounding(match dtype {
            DType::BF16 => 0.5_f32.powi(7),
            DType::F16 => 0.5_f32.powi(10),
            _ => f32::EPSILON,
        })
    }

    /// The tolerance in a row of logits.
    pub fn of_row(&self, row: &[f32]) -> f32 {
        if self.relative == 0.0 {
            return self.least;
        }
        let sizes = row.iter().map(|logit| logit.abs());
        let greatest = sizes.filter(|size| size.is_finite()).fold(0.0, f32::max);
        self.least.max(self.relative * greatest)
    }
}

impl From<f32> for Tolerance {
    /// [`fixed`](Self::fixed).
    fn from(gap: f32) -> Self {
        Self::fixed(gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_the_logits_and_with_epsilon() {
        let (f16, bf16, f32) = (0.5_f32.powi(10), 0.5_f32.powi(7), f32::EPSILON);
        for (epsilon, row, expected) in [
            (f16, [24.0, -3.0], 4.0 * 24.0 / 1024.0),
            (f16, [3.0, -24.0], 4.0 * 24.0 / 1024.0),
            (bf16, [24.0, 0.0], 4.0 * 24.0 / 128.0),
            (f16, [2.0, f32::NEG_INFINITY], 4.0 * 2.0 / 1024.0),
            (f16, [0.01, 0.0], LEAST),
            (f32, [24.0, 0.0], LEAST),
        ] {
            assert_eq!(Tolerance::of_rounding(epsilon).of_row(&row), expected);
        }
        assert_eq!(Tolerance::from(0.5).of_row(&[1e6, 0.0]), 0.5);
    }
}
