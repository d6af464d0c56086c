//! Sums of powers, exact to rounding at every ratio.

/// Σ_{i=0}^{terms−1} ratio^i for ratio ≥ 0.
///
/// The closed form (1 − ratio^terms) / (1 − ratio) loses all digits as the ratio comes near 1;
/// `exp_m1` keeps them, and at 1 itself the sum is the number of terms.
pub(crate) fn geometric_sum(ratio: f64, terms: usize) -> f64 {
    if terms == 0 {
        0.0
    } else if ratio == 1.0 {
        terms as f64
    } else {
        -f64::exp_m1(terms as f64 * ratio.ln()) / (1.0 - ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_sum_written_out_even_next_to_one() {
        for ratio in [0.0, 1e-300, 0.3, 0.999, 1.0 - 1e-9, 1.0 - 1e-15, 1.0] {
            for terms in [0, 1, 2, 7, 50, 1000] {
                let written_out: f64 = (0..terms).map(|i| f64::powi(ratio, i)).sum();
                let error = (geometric_sum(ratio, terms as usize) - written_out).abs();
                assert!(error <= 1e-12 * written_out, "{ratio} {terms}: {error}");
            }
        }
    }
}
