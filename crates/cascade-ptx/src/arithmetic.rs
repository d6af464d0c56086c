//! Instructions that compute, on one lane.

use half::bf16;

use crate::instruction::{Binary, LongBinary, Ternary, Unary};

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// Zero for numbers that `.ftz` takes for zero.
fn flushed(value: f32, flush: bool) -> f32 {
    match flush && value.is_subnormal() {
        true => 0f32.copysign(value),
        false => value,
    }
}

#[inline(always)]
pub(crate) fn unary(operation: Unary, a: u32) -> u32 {
    match operation {
        Unary::NegateInteger => a.wrapping_neg(),
        Unary::Not => !a,
        Unary::NegateFloat => a ^ 0x8000_0000,
        Unary::Absolute => a & 0x7fff_ffff,
        Unary::Exp2 { flush } => flushed(flushed(f(a), flush).exp2(), flush).to_bits(),
        Unary::Reciprocal { flush } => flushed(1.0 / flushed(f(a), flush), flush).to_bits(),
        Unary::InverseRoot => (1.0 / f(a).sqrt()).to_bits(),
        Unary::FloatFromU32 => (a as f32).to_bits(),
        Unary::FloatFromI32 => (a as i32 as f32).to_bits(),
    }
}

#[inline(always)]
pub(crate) fn binary(operation: Binary, a: u32, b: u32) -> u32 {
    match operation {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        // What a division by zero gives is not specified.
        Binary::DivideU32 => a.checked_div(b).unwrap_or(u32::MAX),
        Binary::RemainderU32 => a.checked_rem(b).unwrap_or(u32::MAX),
        Binary::MinI32 => (a as i32).min(b as i32) as u32,
        Binary::MinU32 => a.min(b),
        Binary::MaxI32 => (a as i32).max(b as i32) as u32,
        Binary::MaxU32 => a.max(b),
        Binary::ShiftLeft => a.checked_shl(b).unwrap_or(0),
        Binary::ShiftRight => a.checked_shr(b).unwrap_or(0),
        Binary::ShiftRightI32 => ((a as i32) >> b.min(31)) as u32,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::AddFloat => (f(a) + f(b)).to_bits(),
        Binary::SubtractFloat => (f(a) - f(b)).to_bits(),
        Binary::MultiplyFloat => (f(a) * f(b)).to_bits(),
        Binary::DivideFloat => (f(a) / f(b)).to_bits(),
        Binary::MaxFloat => f(a).max(f(b)).to_bits(),
        Binary::MinFloat => f(a).min(f(b)).to_bits(),
        // The sign of the first, the size of the second.
        Binary::CopySign => f(b).copysign(f(a)).to_bits(),
        Binary::PackBf16 => rounded(f(a)) << 16 | rounded(f(b)),
    }
}

/// As bf16, to the nearest, ties to even.
fn rounded(value: f32) -> u32 {
    match value.is_nan() {
        true => 0x7fff,
        false => bf16::from_f32(value).to_bits().into(),
    }
}

#[inline(always)]
pub(crate) fn ternary(operation: Ternary, a: u32, b: u32, c: u32) -> u32 {
    match operation {
        Ternary::MultiplyAdd => a.wrapping_mul(b).wrapping_add(c),
        Ternary::MultiplyAddFloat => f(a).mul_add(f(b), f(c)).to_bits(),
    }
}

#[inline(always)]
pub(crate) fn long_binary(operation: LongBinary, a: u64, b: u64) -> u64 {
    match operation {
        LongBinary::Add => a.wrapping_add(b),
        LongBinary::Subtract => a.wrapping_sub(b),
        LongBinary::Multiply => a.wrapping_mul(b),
        LongBinary::And => a & b,
        LongBinary::Or => a | b,
        LongBinary::Xor => a ^ b,
    }
}

/// The product of two words, whole.
pub(crate) fn wide(signed: bool, a: u32, b: u32) -> u64 {
    widened(signed, a).wrapping_mul(widened(signed, b))
}

pub(crate) fn widened(signed: bool, a: u32) -> u64 {
    match signed {
        true => a as i32 as i64 as u64,
        false => a.into(),
    }
}
