//! e^x in f32, for loops that the compiler vectorises: the libm function does not vectorise.
//!
//! Cody and Waite's range reduction to ±½ ln 2, and the polynomial of Cephes.
//!
//! Why there are two: sampling uses [`exp_nonpositive`]; attention, activations and the
//! probabilities read from logits use [`exp_clamped`]. They share reduction and polynomial, but
//! differ in the last bit of one coefficient, in the order of two products, and beyond the range of
//! normal values. Unifying them would change last bits, and thereby recorded sampled tokens or
//! logits, so both are kept.

/// Adding 1.5 · 2^23 rounds to an integer, which is then in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// The sum that holds x · log2 e, rounded, in its lowest bits, and the remainder of `x`.
#[inline(always)]
fn reduce(x: f32) -> (f32, f32) {
    // The logarithm of 2 in two parts; the first has so few bits that its multiples are exact.
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let order = rounded - ROUND;
    (rounded, x - order * LN_2_HIGH - order * LN_2_LOW)
}

/// The polynomial of Cephes without its two lowest terms, with the given second coefficient.
#[inline(always)]
fn polynomial(r: f32, second: f32) -> f32 {
    let rest = [second, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];
    let mut p = 1.987_569_1e-4;
    for coefficient in rest {
        p = p * r + coefficient;
    }
    p
}

/// e^x for x ≤ 0, with a relative error below 1e-7, monotone in x; exactly 1 for 0, and exactly 0
/// below the logarithm of the smallest normal value, about −87.3, and for NaN.
#[inline(always)]
pub fn exp_nonpositive(x: f32) -> f32 {
    const SMALLEST: f32 = -87.336_54;
    let (rounded, r) = reduce(x);
    let p = polynomial(r, 1.398_2e-3) * (r * r) + r + 1.0;
    let scaled = f32::from_bits(p.to_bits().wrapping_add(rounded.to_bits() << 23));
    if x >= SMALLEST { scaled } else { 0.0 }
}

/// e^x to 2 units in the last place for −87 ≤ x ≤ 88, 0 below, e^88 above, NaN for NaN.
#[inline(always)]
pub fn exp_clamped(x: f32) -> f32 {
    let (rounded, r) = reduce(x.clamp(-87.0, 88.0));
    let p = polynomial(r, 1.398_199_9e-3) * r * r + r + 1.0;
    let exponent = rounded.to_bits().wrapping_sub(ROUND.to_bits());
    let power = f32::from_bits(exponent.wrapping_add(127) << 23);
    if x < -87.0 { 0.0 } else { p * power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clamped_is_close_everywhere() {
        for i in -87_000..88_000 {
            let x = i as f32 / 1000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp_clamped(x)) - exact).abs() / exact;
            assert!(error < 2.5e-7, "exp({x}) is off by {error:e}");
        }
        assert_eq!(exp_clamped(f32::NEG_INFINITY), 0.0);
        assert_eq!((exp_clamped(-1e9), exp_clamped(0.0)), (0.0, 1.0));
        assert!(exp_clamped(f32::NAN).is_nan());
    }

    #[test]
    fn both_agree_up_to_the_last_bits() {
        for i in -87_000..=0 {
            let x = i as f32 / 1000.0;
            let (a, b) = (exp_nonpositive(x), exp_clamped(x));
            assert!((a - b).abs() <= 3e-7 * b, "exp({x}): {a} and {b}");
        }
    }
}
