//! Norms, activations, rotations: what is done to single values or to a row of them.

use cascade_core::exp::exp_clamped as exp;

use crate::vectorized;

/// The nonlinearity of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(x, 0)
    Relu,
    /// GELU in its tanh form.
    Gelu,
    /// GELU as it is defined, with the error function.
    GeluErf,
    /// x / (1 + exp(−x))
    Silu,
}

/// Root-mean-square norm of each row, of as many elements as `weight`.
pub fn rms_norm(input: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let mut normed = input.to_vec();
    rms_norm_in_place(&mut normed, weight, eps);
    normed
}

/// Norms rows where they are.
pub fn rms_norm_in_place(rows: &mut [f32], weight: &[f32], eps: f32) {
    vectorized(
        #[inline(always)]
        || {
            for row in rows.chunks_exact_mut(weight.len()) {
                norm_row(row, weight, eps);
            }
        },
    );
}

#[inline(always)]
fn norm_row(row: &mut [f32], weight: &[f32], eps: f32) {
    let mean = sum_of_squares(row) / weight.len() as f32;
    let scale = 1.0 / (mean + eps).sqrt();
    for (value, weight) in row.iter_mut().zip(weight) {
        *value = *value * scale * weight;
    }
}

#[inline(always)]
fn sum_of_squares(row: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let (chunks, rest) = row.as_chunks::<16>();
    for values in chunks {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value * value;
        }
    }
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += value * value;
    }
    sums.iter().sum()
}

/// `activation(x)` of each element.
pub fn activate(values: &mut [f32], activation: Activation) {
    vectorized(
        #[inline(always)]
        || match activation {
            Activation::Relu => each(values, relu),
            Activation::Silu => each(values, silu),
            Activation::Gelu => each(values, gelu),
            Activation::GeluErf => each(values, gelu_erf),
        },
    );
}

#[inline(always)]
fn each(values: &mut [f32], of: impl Fn(f32) -> f32) {
    for value in values {
        *value = of(*value);
    }
}

/// `activation(gate) * up` of `[rows, 2 * size]`, the gate's half first: `[rows, size]`.
pub(crate) fn gate(gate_up: &[f32], size: usize, activation: Activation) -> Vec<f32> {
    let mut out = vec![0.0; gate_up.len() / 2];
    let rows = gate_up
        .chunks_exact(2 * size)
        .zip(out.chunks_exact_mut(size));
    vectorized(
        #[inline(always)]
        || {
            for (row, out) in rows {
                let (gate, up) = row.split_at(size);
                gate_row(activation, gate, up, out);
            }
        },
    );
    out
}

/// `activation(gate) * up` of as many elements as there are in `out`.
#[inline(always)]
pub(crate) fn gate_row(activation: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
    match activation {
        Activation::Relu => each_gated(gate, up, out, relu),
        Activation::Silu => each_gated(gate, up, out, silu),
        Activation::Gelu => each_gated(gate, up, out, gelu),
        Activation::GeluErf => each_gated(gate, up, out, gelu_erf),
    }
}

#[inline(always)]
fn each_gated(gate: &[f32], up: &[f32], out: &mut [f32], of: impl Fn(f32) -> f32) {
    for (out, (gate, up)) in out.iter_mut().zip(gate.iter().zip(up)) {
        *out = of(*gate) * up;
    }
}

#[inline(always)]
fn relu(x: f32) -> f32 {
    x.max(0.0)
}

#[inline(always)]
fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The tanh form, by way of (1 + tanh u) / 2 = sigmoid(2u).
#[inline(always)]
fn gelu(x: f32) -> f32 {
    const TWICE_ROOT_TWO_OVER_PI: f32 = 1.595_769;
    x * sigmoid(TWICE_ROOT_TWO_OVER_PI * (x + 0.044_715 * x * x * x))
}

/// x·(1 + erf(x/√2))/2, within 2e-7·|x|: the complement of the error function by Abramowitz and
/// Stegun, 7.1.26.
#[inline(always)]
fn gelu_erf(x: f32) -> f32 {
    let a = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let polynomial = 1.421_413_7 + t * (-1.453_152_1 + t * 1.061_405_4);
    let polynomial = t * (0.254_829_6 + t * (-0.284_496_72 + t * polynomial));
    let half_of_rest = 0.5 * polynomial * exp(-a * a);
    if x >= 0.0 {
        x - x * half_of_rest
    } else {
        x * half_of_rest
    }
}

/// Rotates one head in place, its halves being the coordinates, by the angles of half as many
/// cosines and sines.
pub fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (x, y) = head.split_at_mut(head.len() / 2);
    vectorized(
        #[inline(always)]
        || {
            for ((x, y), (cos, sin)) in x.iter_mut().zip(y).zip(cos.iter().zip(sin)) {
                (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, random};
    use super::*;

    const ALL: [Activation; 4] = [
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluErf,
        Activation::Silu,
    ];

    /// By its series, which f64 sums to 1e-9 for arguments up to 4; beyond, 1 within 2e-8.
    fn erf(x: f64) -> f64 {
        if x.abs() > 4.0 {
            return x.signum();
        }
        let (mut sum, mut power) = (0.0, x);
        for n in 0..120 {
            sum += power / f64::from(2 * n + 1);
            power *= -x * x / f64::from(n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    fn exact(activation: Activation, x: f32) -> f64 {
        let x = f64::from(x);
        match activation {
            Activation::Relu => x.max(0.0),
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Gelu => {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
                0.5 * x * (1.0 + u.tanh())
            }
            Activation::GeluErf => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        }
    }

    #[test]
    fn activations_of_all_kinds() {
        let values: Vec<f32> = random(114).iter().map(|x| x * 5.0).collect();
        for activation in ALL {
            let mut found = values.clone();
            activate(&mut found, activation);
            let expected: Vec<f64> = values.iter().map(|&x| exact(activation, x)).collect();
            assert_close(&found, &expected, 2e-6);

            let gated = gate(&values, 19, activation);
            let rows = values.chunks(38).map(|row| row.split_at(19));
            let pairs = rows.flat_map(|(gate, up)| gate.iter().zip(up));
            let expected: Vec<f64> = pairs
                .map(|(&gate, &up)| exact(activation, gate) * f64::from(up))
                .collect();
            assert_close(&gated, &expected, 2e-6);
        }
    }

    #[test]
    fn norms_and_rotations() {
        let (input, weight) = (random(3 * 37), random(37));
        let of_row = |row: &[f32]| -> Vec<f64> {
            let squares: f64 = row.iter().map(|&x| f64::from(x).powi(2)).sum();
            let scale = (squares / 37.0 + 1e-5).sqrt().recip();
            let pairs = row.iter().zip(&weight);
            pairs
                .map(|(&x, &w)| f64::from(x) * scale * f64::from(w))
                .collect()
        };
        let expected: Vec<f64> = input.chunks(37).flat_map(of_row).collect();
        assert_close(&rms_norm(&input, &weight, 1e-5), &expected, 2e-6);

        let (head, angles) = (random(10), random(5));
        let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos(), a.sin())).unzip();
        let mut turned = head.clone();
        rotate(&mut turned, &cos, &sin);
        for i in 0..5 {
            let length = |head: &[f32]| head[i].hypot(head[i + 5]);
            assert!((length(&turned) - length(&head)).abs() < 1e-5);
            let x = head[i] * cos[i] - head[i + 5] * sin[i];
            assert!((turned[i] - x).abs() < 1e-5);
        }
    }
}
