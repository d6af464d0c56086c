//! Arithmetic instructions: their names and functions, on all lanes of a warp at once.

use half::bf16;

use crate::instruction::{Longs, Mask, Words, WARP};

pub(crate) type Unary = fn(&Words) -> Words;
pub(crate) type Binary = fn(&Words, &Words) -> Words;
pub(crate) type Ternary = fn(&Words, &Words, &Words) -> Words;
pub(crate) type LongBinary = fn(&Longs, &Longs) -> Longs;
pub(crate) type LongShift = fn(&Longs, &Words) -> Longs;
pub(crate) type Widening = fn(&Words) -> Longs;
pub(crate) type WideProduct = fn(&Words, &Words) -> Longs;
pub(crate) type Narrowing = fn(&Longs) -> Words;

/// A function of all lanes from one of scalars.
macro_rules! lanes {
    (|$a:ident| $value:expr) => {
        |a| {
            std::array::from_fn(|lane| {
                let $a = a[lane];
                $value
            })
        }
    };
    (|$a:ident, $b:ident| $value:expr) => {
        |a, b| {
            std::array::from_fn(|lane| {
                let ($a, $b) = (a[lane], b[lane]);
                $value
            })
        }
    };
    (|$a:ident, $b:ident, $c:ident| $value:expr) => {
        |a, b, c| {
            std::array::from_fn(|lane| {
                let ($a, $b, $c) = (a[lane], b[lane], c[lane]);
                $value
            })
        }
    };
}

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// Subnormal values flushed to zero, as `.ftz` does.
fn flushed(value: f32) -> f32 {
    match value.is_subnormal() {
        true => 0f32.copysign(value),
        false => value,
    }
}

/// The bits as bf16, rounded to nearest, ties to even.
fn rounded(value: f32) -> u32 {
    match value.is_nan() {
        true => 0x7fff,
        false => bf16::from_f32(value).to_bits().into(),
    }
}

fn extended(a: u32) -> u64 {
    a as i32 as i64 as u64
}

pub(crate) fn unary(code: &[&str]) -> Option<Unary> {
    Some(match code {
        ["neg", "s32"] => lanes!(|a| a.wrapping_neg()),
        ["not", "b32"] => lanes!(|a| !a),
        ["neg", "f32"] => lanes!(|a| a ^ 0x8000_0000),
        ["abs", "f32"] => lanes!(|a| a & 0x7fff_ffff),
        ["ex2", "approx", "f32"] => lanes!(|a| f(a).exp2().to_bits()),
        ["ex2", "approx", "ftz", "f32"] => {
            lanes!(|a| flushed(flushed(f(a)).exp2()).to_bits())
        }
        ["rcp", "approx", "ftz", "f32"] => {
            lanes!(|a| flushed(1.0 / flushed(f(a))).to_bits())
        }
        ["rsqrt", "approx", "f32"] => lanes!(|a| (1.0 / f(a).sqrt()).to_bits()),
        ["cvt", "rn", "f32", "u32"] => lanes!(|a| (a as f32).to_bits()),
        _ => return None,
    })
}

pub(crate) fn binary(code: &[&str]) -> Option<Binary> {
    Some(match code {
        ["add", "s32"] => lanes!(|a, b| a.wrapping_add(b)),
        ["sub", "s32"] => lanes!(|a, b| a.wrapping_sub(b)),
        ["mul", "lo", "s32"] => lanes!(|a, b| a.wrapping_mul(b)),
        // PTX does not specify the result of a division by zero.
        ["div", "u32"] => lanes!(|a, b| a.checked_div(b).unwrap_or(u32::MAX)),
        ["rem", "u32"] => lanes!(|a, b| a.checked_rem(b).unwrap_or(u32::MAX)),
        ["min", "s32"] => lanes!(|a, b| (a as i32).min(b as i32) as u32),
        ["min", "u32"] => lanes!(|a, b| a.min(b)),
        ["max", "u32"] => lanes!(|a, b| a.max(b)),
        ["shl", "b32"] => lanes!(|a, b| a.checked_shl(b).unwrap_or(0)),
        ["shr", "u32"] => lanes!(|a, b| a.checked_shr(b).unwrap_or(0)),
        ["shr", "s32"] => lanes!(|a, b| ((a as i32) >> b.min(31)) as u32),
        ["and", "b32"] => lanes!(|a, b| a & b),
        ["or", "b32"] => lanes!(|a, b| a | b),
        ["xor", "b32"] => lanes!(|a, b| a ^ b),
        ["add", "rn", "f32"] => lanes!(|a, b| (f(a) + f(b)).to_bits()),
        ["sub", "rn", "f32"] => lanes!(|a, b| (f(a) - f(b)).to_bits()),
        ["mul", "rn", "f32"] => lanes!(|a, b| (f(a) * f(b)).to_bits()),
        ["div", "rn", "f32"] => lanes!(|a, b| (f(a) / f(b)).to_bits()),
        ["max", "f32"] => lanes!(|a, b| f(a).max(f(b)).to_bits()),
        // The sign of the first operand, the magnitude of the second.
        ["copysign", "f32"] => lanes!(|a, b| f(b).copysign(f(a)).to_bits()),
        // The first operand goes into the upper half.
        ["cvt", "rn", "bf16x2", "f32"] => lanes!(|a, b| rounded(f(a)) << 16 | rounded(f(b))),
        _ => return None,
    })
}

pub(crate) fn ternary(code: &[&str]) -> Option<Ternary> {
    Some(match code {
        ["mad", "lo", "s32"] => lanes!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ["fma", "rn", "f32"] => lanes!(|a, b, c| f(a).mul_add(f(b), f(c)).to_bits()),
        _ => return None,
    })
}

pub(crate) fn long_binary(code: &[&str]) -> Option<LongBinary> {
    Some(match code {
        ["add", "s64"] => lanes!(|a, b| a.wrapping_add(b)),
        ["mul", "lo", "s64"] => lanes!(|a, b| a.wrapping_mul(b)),
        ["and", "b64"] => lanes!(|a, b| a & b),
        ["or", "b64"] => lanes!(|a, b| a | b),
        ["xor", "b64"] => lanes!(|a, b| a ^ b),
        _ => return None,
    })
}

pub(crate) fn long_shift(code: &[&str]) -> Option<LongShift> {
    Some(match code {
        ["shl", "b64"] => lanes!(|a, b| a.checked_shl(b).unwrap_or(0)),
        ["shr", "u64"] => lanes!(|a, b| a.checked_shr(b).unwrap_or(0)),
        _ => return None,
    })
}

pub(crate) fn widening(code: &[&str]) -> Option<Widening> {
    Some(match code {
        ["cvt", "u64", "u32"] => lanes!(|a| a.into()),
        ["cvt", "s64", "s32"] => lanes!(|a| extended(a)),
        _ => return None,
    })
}

pub(crate) fn wide_product(code: &[&str]) -> Option<WideProduct> {
    Some(match code {
        ["mul", "wide", "u32"] => lanes!(|a, b| u64::from(a) * u64::from(b)),
        ["mul", "wide", "s32"] => lanes!(|a, b| extended(a).wrapping_mul(extended(b))),
        _ => return None,
    })
}

pub(crate) fn narrowing(code: &[&str]) -> Option<Narrowing> {
    Some(match code {
        ["cvt", "u32", "u64"] => lanes!(|a| a as u32),
        ["cvt", "rn", "f32", "u64"] => lanes!(|a| (a as f32).to_bits()),
        _ => return None,
    })
}

/// The outcomes of a comparison for which it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    less: bool,
    equal: bool,
    greater: bool,
    /// One operand is NaN.
    unordered: bool,
}

pub(crate) fn relation(name: &str) -> Option<Relation> {
    let of = |less, equal, greater, unordered| Relation {
        less,
        equal,
        greater,
        unordered,
    };
    Some(match name {
        "lt" => of(true, false, false, false),
        "le" => of(true, true, false, false),
        "eq" => of(false, true, false, false),
        "ge" => of(false, true, true, false),
        "gt" => of(false, false, true, false),
        "ne" => of(true, false, true, false),
        "num" => of(true, true, true, false),
        "ltu" => of(true, false, false, true),
        "leu" => of(true, true, false, true),
        "equ" => of(false, true, false, true),
        "geu" => of(false, true, true, true),
        "gtu" => of(false, false, true, true),
        "neu" => of(true, false, true, true),
        "nan" => of(false, false, false, true),
        _ => return None,
    })
}

impl Relation {
    /// The lanes in which it holds.
    pub(crate) fn holds<T: Copy, U: PartialOrd>(
        self,
        (a, b): (&[T; WARP], &[T; WARP]),
        value: impl Fn(T) -> U,
    ) -> Mask {
        let mut mask = 0;
        for lane in 0..WARP {
            let (a, b) = (value(a[lane]), value(b[lane]));
            let (less, equal, greater) = (a < b, a == b, a > b);
            let unordered = !(less | equal | greater);
            let holds = less & self.less
                | equal & self.equal
                | greater & self.greater
                | unordered & self.unordered;
            mask |= Mask::from(holds) << lane;
        }
        mask
    }
}
