//! Norms, gates, rotations: what is done to numbers one by one, or to a row of them.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Layout, Result, Shape, Tensor};

use super::{values, vectorized};
use crate::layers::Activation;

/// e^x to 2 units in the last place, 0 below -87: the libm function does not vectorize, this does.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.0, 88.0);
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clamped - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    for coefficient in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        5e-1,
    ] {
        p = p * r + coefficient;
    }
    let p = p * r * r + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    let power = f32::from_bits(exponent.wrapping_add(127) << 23);
    if x < -87.0 {
        0.0
    } else {
        p * power
    }
}

/// Root-mean-square norm of `[rows, size]`.
pub(crate) fn rms_norm(input: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    input.apply_op2_no_bwd(weight, &NormOp { eps })
}

struct NormOp {
    eps: f32,
}

impl CustomOp2 for NormOp {
    fn name(&self) -> &'static str {
        "row-invariant-rms-norm"
    }

    fn cpu_fwd(
        &self,
        input: &CpuStorage,
        input_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let weight = values(weight, weight_layout)?;
        let mut normed = values(input, input_layout)?.to_vec();
        for row in normed.chunks_exact_mut(weight.len()) {
            let mean = sum_of_squares(row) / weight.len() as f32;
            let scale = 1.0 / (mean + self.eps).sqrt();
            for (value, weight) in row.iter_mut().zip(weight) {
                *value = *value * scale * weight;
            }
        }
        Ok((CpuStorage::F32(normed), input_layout.shape().clone()))
    }
}

fn sum_of_squares(row: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    for values in row.chunks(16) {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value * value;
        }
    }
    sums.iter().sum()
}

/// `activation(gate) * up` of `[rows, 2 * size]`, the gate's half first.
pub(crate) fn gated(gate_up: &Tensor, activation: Activation) -> Result<Tensor> {
    gate_up.apply_op1_no_bwd(&GatedOp { activation })
}

struct GatedOp {
    activation: Activation,
}

impl CustomOp1 for GatedOp {
    fn name(&self) -> &'static str {
        "gated-activation"
    }

    fn cpu_fwd(&self, gate_up: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, both) = layout.shape().dims2()?;
        let size = both / 2;
        let gate_up = values(gate_up, layout)?;
        let mut out = vec![0.0; rows * size];
        let rows_of = gate_up.chunks_exact(both).zip(out.chunks_exact_mut(size));
        vectorized(
            #[inline(always)]
            || {
                for (row, out) in rows_of {
                    let (gate, up) = row.split_at(size);
                    gate_row(self.activation, gate, up, out);
                }
            },
        );
        Ok((CpuStorage::F32(out), (rows, size).into()))
    }
}

#[inline(always)]
fn gate_row(activation: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
    let triples = out.iter_mut().zip(gate.iter().zip(up));
    match activation {
        Activation::Relu => triples.for_each(
            #[inline(always)]
            |(out, (gate, up))| *out = gate.max(0.0) * up,
        ),
        Activation::Silu => triples.for_each(
            #[inline(always)]
            |(out, (gate, up))| *out = gate * sigmoid(*gate) * up,
        ),
        Activation::Gelu => triples.for_each(
            #[inline(always)]
            |(out, (gate, up))| *out = gelu(*gate) * up,
        ),
    }
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

/// Half-split rotation of `[1, heads, rows, head_dim]` by cosines and sines `[rows, head_dim / 2]`.
pub(crate) fn rope(heads: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    heads.apply_op3_no_bwd(cos, sin, &RopeOp)
}

struct RopeOp;

impl CustomOp3 for RopeOp {
    fn name(&self) -> &'static str {
        "one-thread-rope"
    }

    fn cpu_fwd(
        &self,
        heads: &CpuStorage,
        layout: &Layout,
        cos: &CpuStorage,
        cos_layout: &Layout,
        sin: &CpuStorage,
        sin_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (cos, sin) = (values(cos, cos_layout)?, values(sin, sin_layout)?);
        let (_, _, rows, head_dim) = layout.shape().dims4()?;
        let half = head_dim / 2;
        if cos.len() != rows * half || sin.len() != cos.len() {
            candle_core::bail!("{rows} rows of {head_dim} need other angles")
        }
        let mut turned = values(heads, layout)?.to_vec();
        for head in turned.chunks_exact_mut(rows * head_dim) {
            let angles = cos.chunks_exact(half).zip(sin.chunks_exact(half));
            for (row, (cos, sin)) in head.chunks_exact_mut(head_dim).zip(angles) {
                let (x, y) = row.split_at_mut(half);
                for ((x, y), (cos, sin)) in x.iter_mut().zip(y).zip(cos.iter().zip(sin)) {
                    (*x, *y) = (*x * cos - *y * sin, *x * sin + *y * cos);
                }
            }
        }
        Ok((CpuStorage::F32(turned), layout.shape().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, random};
    use super::*;

    #[test]
    fn exp_is_close_everywhere() {
        for i in -87_000..88_000 {
            let x = i as f32 / 1000.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.5e-7, "exp({x}) is off by {error:e}");
        }
        assert_eq!(
            (exp(f32::NEG_INFINITY), exp(-1e9), exp(0.0)),
            (0.0, 0.0, 1.0)
        );
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn gates_of_all_kinds() {
        let gate_up = (random((3, 38)) * 5.0).unwrap();
        for activation in [Activation::Relu, Activation::Gelu, Activation::Silu] {
            let expected = activation.gated_in_any_type(&gate_up).unwrap();
            assert_close(&gated(&gate_up, activation).unwrap(), &expected);
        }
    }

    #[test]
    fn norms_and_rotations() {
        let (input, weight) = (random((3, 37)), random(37));
        let expected = candle_nn::ops::rms_norm(&input, &weight, 1e-5).unwrap();
        assert_close(&rms_norm(&input, &weight, 1e-5).unwrap(), &expected);

        let (heads, cos, sin) = (random((1, 3, 4, 10)), random((4, 5)), random((4, 5)));
        let expected = candle_nn::rotary_emb::rope(&heads, &cos, &sin).unwrap();
        assert_close(&rope(&heads, &cos, &sin).unwrap(), &expected);
        assert!(rope(&heads, &random((3, 5)), &sin).is_err());
    }
}
