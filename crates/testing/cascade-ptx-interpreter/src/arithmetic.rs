//! Arithmetic instructions: their names and functions, on all lanes of a warp at once.

use half::{bf16, f16};

use crate::lanes::{Longs, Mask, Words, WARP};

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
    if value.is_subnormal() {
        0f32.copysign(value)
    } else {
        value
    }
}

/// The bits as bf16, rounded to nearest, ties to even.
fn rounded(value: f32) -> u32 {
    if value.is_nan() {
        0x7fff
    } else {
        bf16::from_f32(value).to_bits().into()
    }
}

/// The bits as f16, rounded to nearest, ties to even.
fn rounded_to_f16(value: f32) -> u32 {
    if value.is_nan() {
        0x7fff
    } else {
        f16::from_f32(value).to_bits().into()
    }
}

/// x · y + z of two bf16 each, rounded once.
fn fused_bf16(x: u32, y: u32, z: u32) -> u32 {
    let half = |bits: u32, shift: u32| f64::from(bf16::from_bits((bits >> shift) as u16).to_f32());
    let of_half = |shift| {
        // Products of bf16 are exact in f64, and so are sums of what kernels add to them.
        let sum = half(x, shift) * half(y, shift) + half(z, shift);
        if sum.is_nan() {
            0x7fff
        } else {
            u32::from(bf16::from_f64(sum).to_bits())
        }
    };
    of_half(16) << 16 | of_half(0)
}

/// Four of the eight bytes of two words, as the lower nibbles of `which` say; the highest bit of a
/// nibble asks for its byte's sign instead.
fn permuted(low: u32, high: u32, which: u32) -> u32 {
    let all = u64::from(high) << 32 | u64::from(low);
    let byte = |i: u32| {
        let nibble = which >> (4 * i);
        let byte = (all >> (8 * (nibble & 7))) as u8;
        let chosen = match nibble & 8 {
            0 => byte,
            _ => ((byte as i8) >> 7) as u8,
        };
        u32::from(chosen) << (8 * i)
    };
    (0..4).map(byte).sum()
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
        ["cvt", "u32", "u16"] => lanes!(|a| a & 0xffff),
        ["cvt", "f32", "f16"] => lanes!(|a| f16::from_bits(a as u16).to_f32().to_bits()),
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
        ["cvt", "rn", "f16x2", "f32"] => {
            lanes!(|a, b| rounded_to_f16(f(a)) << 16 | rounded_to_f16(f(b)))
        }
        _ => return None,
    })
}

pub(crate) fn ternary(code: &[&str]) -> Option<Ternary> {
    Some(match code {
        ["mad", "lo", "s32"] => lanes!(|a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ["fma", "rn", "bf16x2"] => lanes!(|a, b, c| fused_bf16(a, b, c)),
        ["prmt", "b32"] => lanes!(|a, b, c| permuted(a, b, c)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_permuted_as_the_instruction_says() {
        let (low, high) = (0x4433_2211, 0x8877_6655);
        assert_eq!(permuted(low, high, 0x3210), low);
        assert_eq!(permuted(low, high, 0x7654), high);
        assert_eq!(permuted(low, high, 0x0145), 0x1122_5566);
        // Signs of bytes 7 and 0.
        assert_eq!(permuted(low, high, 0xf8f8), 0xff00_ff00);
    }

    #[test]
    fn halves_are_rounded_once() {
        let pair = |high: f32, low: f32| {
            let bits = |x| u32::from(bf16::from_f32(x).to_bits());
            bits(high) << 16 | bits(low)
        };
        assert_eq!(
            fused_bf16(pair(3.0, -2.0), pair(5.0, 7.0), pair(1.0, 0.5)),
            pair(16.0, -13.5)
        );
        // 255 · 255 = 65025, and less 65024 it is 1: a product that was rounded would give 0 or
        // 256.
        assert_eq!(
            fused_bf16(pair(255.0, 1.0), pair(255.0, 1.0), pair(-65024.0, 0.0)),
            pair(1.0, 1.0)
        );
        assert_eq!(rounded_to_f16(65519.0), 0x7bff);
        assert_eq!(rounded_to_f16(65520.0), 0x7c00);
    }
}
