//! NEON, as every 64-bit ARM processor has it. Four vectors are a panel wide.

use std::arch::aarch64::*;
use std::arch::asm;

use super::{Bf16, Kernels, Sums, by_rows, each_row};
use crate::activations::{Q8, Q8K};
use crate::format::{
    F32_STEP, HALF_STEP, Q2K_FACTORS, Q2K_MINIMA, Q2K_PART, Q2K_STEP, Q2K_WEIGHTS, Q4_0_STEP,
    Q4_1_STEP, Q4K_FACTORS, Q4K_MINIMA, Q4K_PART, Q4K_STEP, Q4K_WEIGHTS, Q5_1_STEP, Q5K_STEP,
    Q6K_FACTORS, Q6K_PART, Q6K_STEP, Q6K_WEIGHTS, Q8_0_STEP, TABLE_STEP, TABLES, WIDTH,
};

pub(super) static KERNELS: Kernels = Kernels {
    f32,
    f16,
    bf16: Bf16::Pairs(bf16),
    q8_0,
    q4_0,
    q4_1,
    q5_1,
    iq4,
    mxfp4,
    q2k,
    q4k,
    q5k,
    q6k,
    most: (4, 4, 4),
};

macro_rules! kernels {
    ($($kernel:ident($x:ty): $rows:ident => $of_rows:expr;)*) => {$(
        unsafe fn $kernel(panel: &[u8], x: &[$x], sums: &mut [Sums]) {
            by_rows!($rows => $of_rows, panel, x, sums, [1 2 3 4]);
        }
    )*};
}

kernels! {
    f32([f32; 32]): R => f32_rows::<R>;
    f16([f32; 32]): R => f16_rows::<R>;
    bf16([u32; 16]): R => bf16_rows::<R>;
    q8_0(Q8): R => q8_0_rows::<R>;
    q4_0(Q8): R => nibble_rows::<R, Q4_0_STEP>;
    q4_1(Q8): R => nibble_rows::<R, Q4_1_STEP>;
    q5_1(Q8): R => nibble_rows::<R, Q5_1_STEP>;
    iq4(Q8): R => table_rows::<R, 0>;
    mxfp4(Q8): R => table_rows::<R, 1>;
    q2k(Q8K): R => rows_of_sixteens::<R, Q2K_STEP>;
    q4k(Q8K): R => q4k_rows::<R>;
    q5k(Q8K): R => q5k_rows::<R>;
    q6k(Q8K): R => rows_of_sixteens::<R, Q6K_STEP>;
}

/// The `i`th vector.
#[inline]
#[target_feature(enable = "neon")]
fn vector(bytes: &[u8], i: usize) -> uint8x16_t {
    let bytes = &bytes.as_chunks::<16>().0[i];
    // SAFETY: 16 bytes are there.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// The `i`th four numbers in f16.
#[inline]
#[target_feature(enable = "neon")]
fn halves(bytes: &[u8], i: usize) -> float32x4_t {
    let bytes = &bytes.as_chunks::<8>().0[i];
    let wide: float32x4_t;
    // SAFETY: 8 bytes are there; widening is part of all ARMv8 CPUs, though its intrinsic is
    // not stable.
    unsafe {
        let narrow = vreinterpret_u16_u8(vld1_u8(bytes.as_ptr()));
        asm!(
            "fcvtl {wide:v}.4s, {narrow:v}.4h",
            wide = lateout(vreg) wide,
            narrow = in(vreg) narrow,
            options(pure, nomem, nostack),
        );
    }
    wide
}

#[inline]
#[target_feature(enable = "neon")]
fn store<const R: usize>(vectors: [[float32x4_t; 4]; R], sums: &mut [Sums; R]) {
    for (to, vectors) in sums.iter_mut().zip(vectors) {
        for (to, vector) in to.as_chunks_mut::<4>().0.iter_mut().zip(vectors) {
            // SAFETY: there is room for 4 numbers.
            unsafe { vst1q_f32(to.as_mut_ptr(), vector) };
        }
    }
}

#[target_feature(enable = "neon")]
fn f32_rows<const R: usize>(panel: &[u8], x: &[[[f32; 32]; R]], out: &mut [Sums; R]) {
    let mut sums = [[vdupq_n_f32(0.0); 4]; R];
    for (step, x) in panel.as_chunks::<F32_STEP>().0.iter().zip(x) {
        for (i, line) in step.as_chunks::<64>().0.iter().enumerate() {
            for h in 0..4 {
                let weights = vreinterpretq_f32_u8(vector(line, h));
                each_row!(R, r, {
                    sums[r][h] = vfmaq_n_f32(sums[r][h], weights, x[r][i]);
                });
            }
        }
    }
    store(sums, out);
}

#[target_feature(enable = "neon")]
fn f16_rows<const R: usize>(panel: &[u8], x: &[[[f32; 32]; R]], out: &mut [Sums; R]) {
    let mut sums = [[vdupq_n_f32(0.0); 4]; R];
    for (step, x) in panel.as_chunks::<HALF_STEP>().0.iter().zip(x) {
        for (i, line) in step.as_chunks::<32>().0.iter().enumerate() {
            for h in 0..4 {
                let weights = halves(line, h);
                each_row!(R, r, {
                    sums[r][h] = vfmaq_n_f32(sums[r][h], weights, x[r][i]);
                });
            }
        }
    }
    store(sums, out);
}

/// The first and the second of each pair of bf16.
#[inline]
#[target_feature(enable = "neon")]
fn apart(pairs: uint32x4_t) -> (float32x4_t, float32x4_t) {
    let second = vandq_u32(pairs, vdupq_n_u32(0xffff_0000));
    let first = vshlq_n_u32::<16>(pairs);
    (vreinterpretq_f32_u32(first), vreinterpretq_f32_u32(second))
}

#[target_feature(enable = "neon")]
fn bf16_rows<const R: usize>(panel: &[u8], x: &[[[u32; 16]; R]], out: &mut [Sums; R]) {
    let mut sums = [[vdupq_n_f32(0.0); 4]; R];
    for (step, x) in panel.as_chunks::<HALF_STEP>().0.iter().zip(x) {
        for (i, line) in step.as_chunks::<64>().0.iter().enumerate() {
            for h in 0..4 {
                let (w0, w1) = apart(vreinterpretq_u32_u8(vector(line, h)));
                each_row!(R, r, {
                    let (x0, x1) = apart(vdupq_n_u32(x[r][i]));
                    sums[r][h] = vfmaq_f32(vfmaq_f32(sums[r][h], x1, w1), x0, w0);
                });
            }
        }
    }
    store(sums, out);
}

/// Adds dot products of four outputs' signed bytes with four inputs.
#[inline]
#[target_feature(enable = "neon")]
fn dot(sum: int32x4_t, weights: int8x16_t, word: i32) -> int32x4_t {
    let x = vreinterpretq_s8_s32(vdupq_n_s32(word));
    let first = vmull_s8(vget_low_s8(weights), vget_low_s8(x));
    let second = vmull_high_s8(weights, x);
    vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(first), vpaddlq_s16(second)))
}

/// Adds `dot * scale * x`.
#[inline]
#[target_feature(enable = "neon")]
fn add(sum: float32x4_t, dot: int32x4_t, scale: float32x4_t, x: f32) -> float32x4_t {
    vfmaq_f32(sum, vcvtq_f32_s32(dot), vmulq_n_f32(scale, x))
}

/// Low halves and high halves of bytes.
#[inline]
#[target_feature(enable = "neon")]
fn nibbles(both: uint8x16_t) -> [uint8x16_t; 2] {
    [vandq_u8(both, vdupq_n_u8(15)), vshrq_n_u8::<4>(both)]
}

#[target_feature(enable = "neon")]
fn q8_0_rows<const R: usize>(panel: &[u8], x: &[[Q8; R]], out: &mut [Sums; R]) {
    let mut sums = [[vdupq_n_f32(0.0); 4]; R];
    for (step, x) in panel.as_chunks::<Q8_0_STEP>().0.iter().zip(x) {
        for h in 0..4 {
            let mut dots = [vdupq_n_s32(0); R];
            for i in 0..8 {
                // Weights have 128 added.
                let weights = veorq_u8(vector(&step[2 * WIDTH..], 4 * i + h), vdupq_n_u8(0x80));
                each_row!(R, r, {
                    dots[r] = dot(dots[r], vreinterpretq_s8_u8(weights), x[r].words[i]);
                });
            }
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], halves(step, h), x[r].scale);
            });
        }
    }
    store(sums, out);
}

/// Adds dot products of 32 weights of 4 bits, and a fifth bit: of each 4 inputs, the next of each
/// byte of `tops`.
#[inline]
#[target_feature(enable = "neon")]
fn nibble_dots<const R: usize>(
    packed: &[u8],
    h: usize,
    mut tops: uint8x16_t,
    dots: &mut [int32x4_t; R],
    word: impl Fn(usize, usize) -> i32,
) {
    let fifth = vdupq_n_u8(16);
    for i in 0..4 {
        let [low, high] = nibbles(vector(packed, 4 * i + h));
        let low = vorrq_u8(low, vandq_u8(vshlq_n_u8::<4>(tops), fifth));
        let high = vorrq_u8(high, vandq_u8(vshlq_n_u8::<3>(tops), fifth));
        tops = vshrq_n_u8::<2>(tops);
        each_row!(R, r, {
            dots[r] = dot(dots[r], vreinterpretq_s8_u8(low), word(r, 2 * i));
            dots[r] = dot(dots[r], vreinterpretq_s8_u8(high), word(r, 2 * i + 1));
        });
    }
}

/// Rows with weights in Q4_0, or, with minima, in Q4_1 or Q5_1.
#[target_feature(enable = "neon")]
fn nibble_rows<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[Q8; R]],
    out: &mut [Sums; R],
) {
    let has_minima = STEP != Q4_0_STEP;
    let mut sums = [[vdupq_n_f32(0.0); 4]; R];
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        let packed = &step[if has_minima { 4 } else { 2 } * WIDTH..];
        for h in 0..4 {
            let mut dots = [vdupq_n_s32(0); R];
            if !has_minima {
                each_row!(R, r, {
                    // Weights have 8 added.
                    dots[r] = vdupq_n_s32(x[r].of_nibbles);
                });
            }
            let tops = match STEP {
                Q5_1_STEP => vector(&packed[Q4K_PART..], h),
                _ => vdupq_n_u8(0),
            };
            nibble_dots(packed, h, tops, &mut dots, |r, i| x[r].words[i]);
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], halves(step, h), x[r].scale);
                if has_minima {
                    let minimum = halves(&step[2 * WIDTH..], h);
                    sums[r][h] = vfmaq_n_f32(sums[r][h], minimum, x[r].of_minima);
                }
            });
        }
    }
    store(sums, out);
}

/// Rows with codes for the integers of a table.
#[target_feature(enable = "neon")]
fn table_rows<const R: usize, const TABLE: usize>(
    panel: &[u8],
    x: &[[Q8; R]],
    out: &mut [Sums; R],
) {
    let table = TABLES[TABLE].map(|integer| integer as u8);
    let table = vreinterpretq_s8_u8(vector(&table, 0));
    let mut sums = [[vdupq_n_f32(0.0); 4]; R];
    for (step, x) in panel.as_chunks::<TABLE_STEP>().0.iter().zip(x) {
        for h in 0..4 {
            let mut dots = [vdupq_n_s32(0); R];
            for i in 0..4 {
                let codes = nibbles(vector(&step[4 * WIDTH..], 4 * i + h));
                let [low, high] = codes.map(|codes| vqtbl1q_s8(table, codes));
                each_row!(R, r, {
                    dots[r] = dot(dots[r], low, x[r].words[2 * i]);
                    dots[r] = dot(dots[r], high, x[r].words[2 * i + 1]);
                });
            }
            let scale = vreinterpretq_f32_u8(vector(step, h));
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale, x[r].scale);
            });
        }
    }
    store(sums, out);
}

/// The `i`th four bytes, unsigned or signed.
fn four(bytes: &[u8], i: usize) -> [u8; 4] {
    bytes.as_chunks::<4>().0[i]
}

/// Four integers.
#[inline]
#[target_feature(enable = "neon")]
fn integers(values: [i32; 4]) -> int32x4_t {
    // SAFETY: four integers are there.
    unsafe { vld1q_s32(values.as_ptr()) }
}

#[target_feature(enable = "neon")]
fn q4k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
    rows_with_minima::<R, Q4K_STEP>(panel, x, out);
}

#[target_feature(enable = "neon")]
fn q5k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
    rows_with_minima::<R, Q5K_STEP>(panel, x, out);
}

#[inline]
#[target_feature(enable = "neon")]
fn rows_with_minima<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[Q8K; R]],
    out: &mut [Sums; R],
) {
    let part_bytes = (STEP - Q4K_WEIGHTS) / 8;
    let mut sums = [[vdupq_n_f32(0.0); 4]; R];
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        for h in 0..4 {
            let mut dots = [vdupq_n_s32(0); R];
            for part in 0..8 {
                let packed = &step[Q4K_WEIGHTS + part * part_bytes..][..part_bytes];
                let tops = match STEP {
                    Q5K_STEP => vector(&packed[Q4K_PART..], h),
                    _ => vdupq_n_u8(0),
                };
                let factors = four(&step[Q4K_FACTORS + part * WIDTH..], h).map(i32::from);
                let factors = integers(factors);
                let mut of_part = [vdupq_n_s32(0); R];
                nibble_dots(packed, h, tops, &mut of_part, |r, i| {
                    x[r].words[8 * part + i]
                });
                each_row!(R, r, {
                    dots[r] = vmlaq_s32(dots[r], of_part[r], factors);
                });
            }
            let (scale, offset) = (halves(step, h), halves(&step[2 * WIDTH..], h));
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale, x[r].scale);
                let mut least = vdupq_n_s32(0);
                for part in 0..8 {
                    let pairs = &step[Q4K_MINIMA + part / 2 * 2 * WIDTH..][..2 * WIDTH];
                    let minima =
                        std::array::from_fn(|i| i32::from(pairs[2 * (4 * h + i) + part % 2]));
                    let of_x = (x[r].pairs[part / 2] >> (16 * (part % 2))) as i16;
                    least = vmlaq_n_s32(least, integers(minima), of_x.into());
                }
                let offset = vmulq_n_f32(offset, x[r].scale);
                sums[r][h] = vfmsq_f32(sums[r][h], vcvtq_f32_s32(least), offset);
            });
        }
    }
    store(sums, out);
}

/// Four times four inputs' weights of a part of Q2_K, with 32 added.
#[inline]
#[target_feature(enable = "neon")]
fn two_bits(step: &[u8], part: usize, h: usize) -> [uint8x16_t; 4] {
    let bits = vector(&step[Q2K_WEIGHTS + part * Q2K_PART..], h);
    let with = |bits| vorrq_u8(vandq_u8(bits, vdupq_n_u8(3)), vdupq_n_u8(32));
    [
        with(bits),
        with(vshrq_n_u8::<2>(bits)),
        with(vshrq_n_u8::<4>(bits)),
        with(vshrq_n_u8::<6>(bits)),
    ]
}

/// Four times four inputs' weights of a part of Q6_K, with 32 added.
#[inline]
#[target_feature(enable = "neon")]
fn six_bits(step: &[u8], part: usize, h: usize) -> [uint8x16_t; 4] {
    let part = &step[Q6K_WEIGHTS + part * Q6K_PART..];
    let high = vdupq_n_u8(0x30);
    let [a0, a1] = nibbles(vector(part, h));
    let [b0, b1] = nibbles(vector(part, 4 + h));
    let c = vector(part, 8 + h);
    [
        vorrq_u8(a0, vandq_u8(vshlq_n_u8::<4>(c), high)),
        vorrq_u8(a1, vandq_u8(vshlq_n_u8::<2>(c), high)),
        vorrq_u8(b0, vandq_u8(c, high)),
        vorrq_u8(b1, vandq_u8(vshrq_n_u8::<2>(c), high)),
    ]
}

/// Four signed bytes.
#[inline]
#[target_feature(enable = "neon")]
fn signed(bytes: &[u8], h: usize) -> int32x4_t {
    integers(four(bytes, h).map(|byte| i32::from(byte as i8)))
}

/// Rows with weights in Q2_K or Q6_K.
#[target_feature(enable = "neon")]
fn rows_of_sixteens<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[Q8K; R]],
    out: &mut [Sums; R],
) {
    let factors_at = match STEP {
        Q2K_STEP => Q2K_FACTORS,
        _ => Q6K_FACTORS,
    };
    let mut sums = [[vdupq_n_f32(0.0); 4]; R];
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        for h in 0..4 {
            let mut dots = [vdupq_n_s32(0); R];
            for part in 0..16 {
                let weights = match STEP {
                    Q2K_STEP => two_bits(step, part, h),
                    _ => six_bits(step, part, h),
                };
                let factors = signed(&step[factors_at + part * WIDTH..], h);
                each_row!(R, r, {
                    // Weights have 32 added.
                    let mut of_part = vdupq_n_s32(x[r].of_six_bits[part]);
                    for i in 0..4 {
                        let weights = vreinterpretq_s8_u8(weights[i]);
                        of_part = dot(of_part, weights, x[r].words[4 * part + i]);
                    }
                    dots[r] = vmlaq_s32(dots[r], of_part, factors);
                });
            }
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], halves(step, h), x[r].scale);
                if STEP == Q2K_STEP {
                    let (least, offset) = (least(step, &x[r], h), halves(&step[2 * WIDTH..], h));
                    sums[r][h] = add(sums[r][h], least, offset, x[r].scale / 32.0);
                }
            });
        }
    }
    store(sums, out);
}

/// What the minima of a step of Q2_K take, -32 times.
#[inline]
#[target_feature(enable = "neon")]
fn least(step: &[u8], x: &Q8K, h: usize) -> int32x4_t {
    let mut least = vdupq_n_s32(0);
    for part in 0..16 {
        let minima = signed(&step[Q2K_MINIMA + part * WIDTH..], h);
        least = vmlaq_n_s32(least, minima, x.of_six_bits[part]);
    }
    least
}
