//! AVX2 with FMA and F16C. Two vectors are a panel wide.

mod k_blocks;

use std::arch::{asm, x86_64::*};

use self::k_blocks::{q4k_rows, q5k_rows, rows_of_sixteens};
use super::{Bf16, Kernels, Sums, by_rows, each_row, prefetch_all, prefetch_half};
use crate::activations::{Q8, Q8K};
use crate::format::{
    F32_STEP, HALF_STEP, Q2K_STEP, Q4_0_STEP, Q4_1_STEP, Q4K_PART, Q5_1_STEP, Q6K_STEP, Q8_0_STEP,
    TABLE_STEP, TABLES, WIDTH,
};

pub(super) static KERNELS: Kernels = Kernels {
    f32,
    f16,
    bf16: Bf16::Rounded(bf16),
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
    most: (6, 4, 8),
};

macro_rules! kernels {
    ($($kernel:ident($x:ty): $number:ident => $of_rows:expr, [$($rows:literal)*];)*) => {$(
        unsafe fn $kernel(panel: &[u8], x: &[$x], sums: &mut [Sums]) {
            by_rows!($number => $of_rows, panel, x, sums, [$($rows)*]);
        }
    )*};
}

kernels! {
    f32([f32; 32]): R => float_rows::<R, F32_STEP>, [1 2 3 4 5 6];
    f16([f32; 32]): R => float_rows::<R, HALF_STEP>, [1 2 3 4 5 6];
    bf16([f32; 32]): R => bf16_rows::<R>, [1 2 3 4];
    q8_0(Q8): R => q8_0_rows::<R>, [1 2 3 4 5 6 7 8];
    q4_0(Q8): R => nibble_rows::<R, Q4_0_STEP>, [1 2 3 4 5 6 7 8];
    q4_1(Q8): R => nibble_rows::<R, Q4_1_STEP>, [1 2 3 4 5 6 7 8];
    q5_1(Q8): R => nibble_rows::<R, Q5_1_STEP>, [1 2 3 4 5 6 7 8];
    iq4(Q8): R => table_rows::<R, 0>, [1 2 3 4 5 6 7 8];
    mxfp4(Q8): R => table_rows::<R, 1>, [1 2 3 4 5 6 7 8];
    q2k(Q8K): R => rows_of_sixteens::<R, Q2K_STEP>, [1 2 3 4 5 6 7 8];
    q4k(Q8K): R => q4k_rows::<R>, [1 2 3 4 5 6 7 8];
    q5k(Q8K): R => q5k_rows::<R>, [1 2 3 4 5 6 7 8];
    q6k(Q8K): R => rows_of_sixteens::<R, Q6K_STEP>, [1 2 3 4 5 6 7 8];
}

/// The `i`th vector.
#[inline]
#[target_feature(enable = "avx2")]
fn vector(bytes: &[u8], i: usize) -> __m256i {
    let bytes = &bytes.as_chunks::<32>().0[i];
    // SAFETY: 32 bytes are there.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The `i`th half of a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn half_vector(bytes: &[u8], i: usize) -> __m128i {
    let bytes = &bytes.as_chunks::<16>().0[i];
    // SAFETY: 16 bytes are there.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// 16 numbers in f16.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn halves(bytes: &[u8]) -> [__m256; 2] {
    [
        _mm256_cvtph_ps(half_vector(bytes, 0)),
        _mm256_cvtph_ps(half_vector(bytes, 1)),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn store<const R: usize>(vectors: [[__m256; 2]; R], sums: &mut [Sums; R]) {
    for (to, [first, second]) in sums.iter_mut().zip(vectors) {
        // SAFETY: there is room for twice 8 numbers.
        unsafe {
            _mm256_storeu_ps(to.as_mut_ptr(), first);
            _mm256_storeu_ps(to[8..].as_mut_ptr(), second);
        }
    }
}

/// Adds the products of an input with two vectors of weights. Rows come one after the other: the
/// compiler would like to have the inputs of all rows at hand, which are more than there are
/// registers.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_products(sums: &mut [__m256; 2], x: __m256, weights: [__m256; 2]) {
    sums[0] = _mm256_fmadd_ps(x, weights[0], sums[0]);
    sums[1] = _mm256_fmadd_ps(x, weights[1], sums[1]);
}

/// Rows with weights in f32 or f16.
#[target_feature(enable = "avx2,fma,f16c")]
fn float_rows<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[[f32; 32]; R]],
    out: &mut [Sums; R],
) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        if STEP == HALF_STEP {
            prefetch_all(step);
        }
        for (i, line) in step.chunks_exact(STEP / 32).enumerate() {
            let weights = if STEP == HALF_STEP {
                halves(line)
            } else {
                prefetch_all(line);
                [0, 1].map(|h| _mm256_castsi256_ps(vector(line, h)))
            };
            each_row!(R, r, {
                add_products(&mut sums[r], _mm256_set1_ps(x[r][i]), weights);
            });
        }
    }
    store(sums, out);
}

/// The first of each pair of bf16.
#[inline]
#[target_feature(enable = "avx2")]
fn first(pairs: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(pairs))
}

/// The second of each pair of bf16.
#[inline]
#[target_feature(enable = "avx2")]
fn second(pairs: __m256i) -> __m256 {
    let high = _mm256_set1_epi32(0xffff_0000_u32 as i32);
    _mm256_castsi256_ps(_mm256_and_si256(pairs, high))
}

#[target_feature(enable = "avx2,fma")]
fn bf16_rows<const R: usize>(panel: &[u8], x: &[[[f32; 32]; R]], out: &mut [Sums; R]) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (step, x) in panel.as_chunks::<HALF_STEP>().0.iter().zip(x) {
        for (i, line) in step.as_chunks::<64>().0.iter().enumerate() {
            prefetch_all(line);
            // One of each pair after the other: all at once take more registers than there are, as
            // they do with more rows than four.
            let weights = [0, 1].map(|h| second(vector(line, h)));
            each_row!(R, r, {
                add_products(&mut sums[r], _mm256_set1_ps(x[r][2 * i + 1]), weights);
            });
            let weights = [0, 1].map(|h| first(vector(line, h)));
            each_row!(R, r, {
                add_products(&mut sums[r], _mm256_set1_ps(x[r][2 * i]), weights);
            });
        }
    }
    store(sums, out);
}

/// Keeps the compiler from computing a sum in another order. It would gather what is added to each
/// row's sum, or go row by row, and then have sums or weights in memory instead of registers. So
/// this is not `pure`: what has effects stays in its order.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(mut sum: __m256i) -> __m256i {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(ymm_reg) sum, options(nomem, nostack, preserves_flags)) };
    sum
}

/// Dot products of unsigned with signed bytes, two each, in 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn dots_of_two(unsigned: __m256i, word: i32) -> __m256i {
    _mm256_maddubs_epi16(unsigned, _mm256_set1_epi32(word))
}

/// Adds each two numbers of 16 bits, times their factors, to a sum of 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn add_pairs(sum: __m256i, pairs: __m256i, factors: __m256i) -> __m256i {
    in_order(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, factors)))
}

/// Adds `dot * scale * x`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn add(sum: __m256, dot: __m256i, scale: __m256, x: f32) -> __m256 {
    let scale = _mm256_mul_ps(scale, _mm256_set1_ps(x));
    _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), scale, sum)
}

/// Low halves and high halves of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(both: __m256i) -> [__m256i; 2] {
    let low = _mm256_set1_epi8(15);
    let high = _mm256_srli_epi16::<4>(both);
    [_mm256_and_si256(both, low), _mm256_and_si256(high, low)]
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q8_0_rows<const R: usize>(panel: &[u8], x: &[[Q8; R]], out: &mut [Sums; R]) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    let sign = _mm256_set1_epi8(-128);
    let ones = _mm256_set1_epi16(1);
    for (step, x) in panel.as_chunks::<Q8_0_STEP>().0.iter().zip(x) {
        let scale = halves(step);
        let weights = &step[2 * WIDTH..];
        for h in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            for i in 0..8 {
                prefetch_half(&weights[64 * i..], h);
                let weights = _mm256_xor_si256(vector(weights, 2 * i + h), sign);
                let magnitudes = _mm256_abs_epi8(weights);
                each_row!(R, r, {
                    let x = _mm256_sign_epi8(_mm256_set1_epi32(x[r].words[i]), weights);
                    let pairs = _mm256_maddubs_epi16(magnitudes, x);
                    dots[r] = add_pairs(dots[r], pairs, ones);
                });
            }
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale[h], x[r].scale);
            });
        }
    }
    store(sums, out);
}

/// Rows with weights in Q4_0, or, with minima, in Q4_1 or Q5_1.
#[target_feature(enable = "avx2,fma,f16c")]
fn nibble_rows<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[Q8; R]],
    out: &mut [Sums; R],
) {
    let has_minima = STEP != Q4_0_STEP;
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    let ones = _mm256_set1_epi16(1);
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        let scale = halves(step);
        let packed = &step[if has_minima { 4 } else { 2 } * WIDTH..];
        for h in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            if !has_minima {
                each_row!(R, r, {
                    // Weights have 8 added.
                    dots[r] = _mm256_set1_epi32(x[r].of_nibbles);
                });
            }
            let tops = match STEP {
                Q5_1_STEP => Some(vector(&packed[Q4K_PART..], h)),
                _ => None,
            };
            let words = |r: usize, i: usize| x[r].words[i];
            add_nibbles(&mut dots, packed, h, tops, ones, words);
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale[h], x[r].scale);
            });
            if has_minima {
                let minimum = _mm256_cvtph_ps(half_vector(&step[2 * WIDTH..], h));
                each_row!(R, r, {
                    let of_minima = _mm256_set1_ps(x[r].of_minima);
                    sums[r][h] = _mm256_fmadd_ps(minimum, of_minima, sums[r][h]);
                });
            }
        }
    }
    store(sums, out);
}

/// Rows with codes for the integers of a table.
#[target_feature(enable = "avx2,fma")]
fn table_rows<const R: usize, const TABLE: usize>(
    panel: &[u8],
    x: &[[Q8; R]],
    out: &mut [Sums; R],
) {
    let table = TABLES[TABLE].map(|integer| integer as u8);
    let table = _mm256_broadcastsi128_si256(half_vector(&table, 0));
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    let ones = _mm256_set1_epi16(1);
    for (step, x) in panel.as_chunks::<TABLE_STEP>().0.iter().zip(x) {
        prefetch_all(step);
        for h in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            for i in 0..4 {
                let codes = nibbles(vector(&step[4 * WIDTH..], 2 * i + h));
                for j in 0..2 {
                    let weights = _mm256_shuffle_epi8(table, codes[j]);
                    let magnitudes = _mm256_abs_epi8(weights);
                    each_row!(R, r, {
                        let x = _mm256_set1_epi32(x[r].words[2 * i + j]);
                        let x = _mm256_sign_epi8(x, weights);
                        let pairs = _mm256_maddubs_epi16(magnitudes, x);
                        dots[r] = add_pairs(dots[r], pairs, ones);
                    });
                }
            }
            let scale = _mm256_castsi256_ps(vector(step, h));
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale, x[r].scale);
            });
        }
    }
    store(sums, out);
}

/// Adds dot products of 32 weights of 4 bits, or 5, times factors, which are in both halves of each
/// 32 bits. The fifth bit is the next of each byte of `tops`.
#[inline]
#[target_feature(enable = "avx2")]
fn add_nibbles<const R: usize>(
    dots: &mut [__m256i; R],
    packed: &[u8],
    h: usize,
    mut tops: Option<__m256i>,
    factors: __m256i,
    word: impl Fn(usize, usize) -> i32,
) {
    let fifth = _mm256_set1_epi8(16);
    // 16 bits have room for the products of 16 weights up to 15 with inputs up to 127, and of 8
    // weights up to 31.
    let together = if tops.is_some() { 2 } else { 4 };
    let mut pairs = [_mm256_setzero_si256(); R];
    for i in 0..4 {
        prefetch_half(&packed[64 * i..], h);
        let [mut low, mut high] = nibbles(vector(packed, 2 * i + h));
        if let Some(bits) = tops {
            low = _mm256_or_si256(low, _mm256_and_si256(_mm256_slli_epi16::<4>(bits), fifth));
            high = _mm256_or_si256(high, _mm256_and_si256(_mm256_slli_epi16::<3>(bits), fifth));
            tops = Some(_mm256_srli_epi16::<2>(bits));
        }
        each_row!(R, r, {
            let of_low = dots_of_two(low, word(r, 2 * i));
            let of_high = dots_of_two(high, word(r, 2 * i + 1));
            pairs[r] = match i % together {
                0 => in_order(_mm256_add_epi16(of_low, of_high)),
                _ => {
                    let sum = in_order(_mm256_add_epi16(pairs[r], of_low));
                    in_order(_mm256_add_epi16(sum, of_high))
                }
            };
            if i % together == together - 1 {
                dots[r] = add_pairs(dots[r], pairs[r], factors);
            }
        });
    }
}
