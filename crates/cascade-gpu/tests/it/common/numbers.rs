//! Numbers in few bits, as plainly as possible.

use cascade_gpu::{DType, StorageDType, BLOCK};

/// Half the distance between neighbouring bf16 numbers around 1.
pub(crate) const HALF_BF16: f64 = 1.0 / 256.0;

/// Rounds to `digits` binary digits after the leading one, ties to even; numbers below 2^`least` to
/// multiples of what those have.
fn round(value: f32, digits: i32, least: i32) -> f32 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let wide = f64::from(value);
    let exponent = (wide.abs().log2().floor() as i32).max(least);
    let unit = 2f64.powi(exponent - digits);
    ((wide / unit).round_ties_even() * unit) as f32
}

/// The nearest bf16.
pub(crate) fn to_bf16(value: f32) -> f32 {
    round(value, 7, -126)
}

/// Half the distance between neighbouring f16 numbers around 1.
const HALF_F16: f64 = 1.0 / 2048.0;

/// The nearest f16.
fn to_f16(value: f32) -> f32 {
    round(value, 10, -14)
}

/// What an activation is after it was kept in `dtype`.
pub(crate) fn in_kind(value: f32, dtype: DType) -> f32 {
    match dtype {
        DType::F32 => value,
        DType::BF16 | DType::Q8 => to_bf16(value),
        DType::F16 => to_f16(value),
    }
}

/// What weights, in rows of whole blocks, are after they were kept in `dtype`.
pub(crate) fn kept(weights: &[f32], dtype: DType) -> Vec<f32> {
    match dtype {
        DType::Q8 => weights
            .chunks(BLOCK)
            .flat_map(|block| {
                let (scale, integers) = block_of(block);
                integers
                    .into_iter()
                    .map(move |integer| scale * f32::from(integer))
            })
            .collect(),
        _ => weights
            .iter()
            .map(|&weight| in_kind(weight, dtype))
            .collect(),
    }
}

/// A scale, which is an f16, and integers that are near so many weights.
fn block_of(weights: &[f32]) -> (f32, Vec<i8>) {
    let most = weights
        .iter()
        .fold(0f32, |most, weight| most.max(weight.abs()));
    let scale = to_f16(most / 127.0);
    let integer = |&weight: &f32| match scale {
        0.0 => 0,
        scale => (weight / scale).round_ties_even().clamp(-127.0, 127.0) as i8,
    };
    (scale, weights.iter().map(integer).collect())
}

/// The blocks of weights, as they are stored.
pub(crate) fn blocks(weights: &[f32]) -> Vec<u8> {
    let block = |block: &[f32]| {
        let (scale, integers) = block_of(block);
        stored_block(scale, &integers)
    };
    weights.chunks(BLOCK).flat_map(block).collect()
}

/// A block of a scale that is an f16.
pub(crate) fn stored_block(scale: f32, integers: &[i8]) -> Vec<u8> {
    let integers = integers.iter().map(|&integer| integer as u8);
    half_of(scale)
        .to_le_bytes()
        .into_iter()
        .chain(integers)
        .collect()
}

/// Relative error of a number that is kept in `dtype`.
pub(crate) fn rounding(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::EPSILON),
        DType::BF16 | DType::Q8 => HALF_BF16,
        DType::F16 => HALF_F16,
    }
}

/// The nearest number that can be stored, and its bytes.
pub(crate) fn store(value: f32, stored: StorageDType) -> (f32, Vec<u8>) {
    match stored {
        StorageDType::F32 => (value, value.to_le_bytes().to_vec()),
        StorageDType::BF16 => {
            let rounded = to_bf16(value);
            let half = (rounded.to_bits() >> 16) as u16;
            (rounded, half.to_le_bytes().to_vec())
        }
        StorageDType::F16 => {
            let rounded = to_f16(value);
            (rounded, half_of(rounded).to_le_bytes().to_vec())
        }
        StorageDType::Q8 => panic!("blocks are of more than one number"),
    }
}

/// The bits of a number that is one of half precision.
fn half_of(value: f32) -> u16 {
    let sign = ((value.to_bits() >> 31) as u16) << 15;
    let size = value.abs();
    let magnitude = if size.is_infinite() {
        0x7c00
    } else if size < 2f32.powi(-14) {
        (size * 2f32.powi(24)) as u16
    } else {
        let exponent = size.log2().floor() as i32;
        let mantissa = (size / 2f32.powi(exponent) - 1.0) * 1024.0;
        ((exponent + 15) as u16) << 10 | mantissa as u16
    };
    sign | magnitude
}
