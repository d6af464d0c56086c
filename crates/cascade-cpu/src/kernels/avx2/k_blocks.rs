//! Blocks of 256 inputs.

use std::arch::x86_64::*;

use super::{
    Sums, add, add_nibbles, add_pairs, dots_of_two, each_row, half_vector, halves, in_order,
    nibbles, prefetch_all, store, vector,
};
use crate::activations::Q8K;
use crate::format::{
    Q2K_FACTORS, Q2K_MINIMA, Q2K_PART, Q2K_STEP, Q2K_WEIGHTS, Q4K_FACTORS, Q4K_MINIMA, Q4K_PART,
    Q4K_STEP, Q4K_WEIGHTS, Q5K_STEP, Q6K_FACTORS, Q6K_PART, Q6K_WEIGHTS, WIDTH,
};

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn q4k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
    rows_with_minima::<R, Q4K_STEP>(panel, x, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn q5k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
    rows_with_minima::<R, Q5K_STEP>(panel, x, out);
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn rows_with_minima<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[Q8K; R]],
    out: &mut [Sums; R],
) {
    let part_bytes = (STEP - Q4K_WEIGHTS) / 8;
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        prefetch_all(step);
        let (scale, offset) = (halves(step), halves(&step[2 * WIDTH..]));
        for h in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            for part in 0..8 {
                let packed = &step[Q4K_WEIGHTS + part * part_bytes..][..part_bytes];
                let tops = match STEP {
                    Q5K_STEP => Some(vector(&packed[Q4K_PART..], h)),
                    _ => None,
                };
                let factors = half_vector(&step[Q4K_FACTORS + part * WIDTH..][..WIDTH], 0);
                let factors = match h {
                    0 => _mm256_cvtepu8_epi32(factors),
                    _ => _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(factors)),
                };
                let words = |r: usize, i: usize| x[r].words[8 * part + i];
                add_nibbles(&mut dots, packed, h, tops, in_both_halves(factors), words);
            }
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale[h], x[r].scale);
            });
            let mut least = [_mm256_setzero_si256(); R];
            for i in 0..4 {
                let minima = half_vector(&step[Q4K_MINIMA + 32 * i..], h);
                let minima = _mm256_cvtepu8_epi16(minima);
                each_row!(R, r, {
                    least[r] = add_pairs(least[r], minima, _mm256_set1_epi32(x[r].pairs[i]));
                });
            }
            each_row!(R, r, {
                let offset = _mm256_mul_ps(offset[h], _mm256_set1_ps(x[r].scale));
                sums[r][h] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(least[r]), offset, sums[r][h]);
            });
        }
    }
    store(sums, out);
}

/// Numbers of 16 bits twice: in both halves of 32 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn in_both_halves(numbers: __m256i) -> __m256i {
    _mm256_blend_epi16::<0xaa>(numbers, _mm256_slli_epi32::<16>(numbers))
}

/// Four times four inputs' weights of a part of Q2_K, with 32 added.
#[inline]
#[target_feature(enable = "avx2")]
fn two_bits(step: &[u8], part: usize, h: usize) -> [__m256i; 4] {
    let (bits, added) = (
        vector(&step[Q2K_WEIGHTS + part * Q2K_PART..], h),
        _mm256_set1_epi8(32),
    );
    let with = |bits| _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi8(3)), added);
    [
        with(bits),
        with(_mm256_srli_epi16::<2>(bits)),
        with(_mm256_srli_epi16::<4>(bits)),
        with(_mm256_srli_epi16::<6>(bits)),
    ]
}

/// Four times four inputs' weights of a part of Q6_K, with 32 added.
#[inline]
#[target_feature(enable = "avx2")]
fn six_bits(step: &[u8], part: usize, h: usize) -> [__m256i; 4] {
    let part = &step[Q6K_WEIGHTS + part * Q6K_PART..];
    let high = _mm256_set1_epi8(0x30);
    let [a0, a1] = nibbles(vector(part, h));
    let [b0, b1] = nibbles(vector(part, 2 + h));
    let c = vector(part, 4 + h);
    let with = |low, bits| _mm256_or_si256(low, _mm256_and_si256(bits, high));
    [
        with(a0, _mm256_slli_epi16::<4>(c)),
        with(a1, _mm256_slli_epi16::<2>(c)),
        with(b0, c),
        with(b1, _mm256_srli_epi16::<2>(c)),
    ]
}

/// 8 of 16 signed bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn integers(bytes: &[u8], h: usize) -> __m256i {
    let bytes = half_vector(&bytes[..WIDTH], 0);
    match h {
        0 => _mm256_cvtepi8_epi32(bytes),
        _ => _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes)),
    }
}

/// Adds dot products of 16 weights, which have 32 added, times factors.
#[inline]
#[target_feature(enable = "avx2")]
fn add_sixteen(
    dot: __m256i,
    weights: &[__m256i; 4],
    factors: __m256i,
    x: &Q8K,
    part: usize,
) -> __m256i {
    let of_added = _mm256_mullo_epi32(_mm256_set1_epi32(x.of_six_bits[part]), factors);
    let mut dot = in_order(_mm256_add_epi32(dot, of_added));
    // 16 bits have room for the products of 4 weights up to 63.
    for i in [0, 2] {
        let one = dots_of_two(weights[i], x.words[4 * part + i]);
        let other = dots_of_two(weights[i + 1], x.words[4 * part + i + 1]);
        dot = add_pairs(dot, _mm256_add_epi16(one, other), in_both_halves(factors));
    }
    dot
}

/// Rows with weights in Q2_K or Q6_K.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn rows_of_sixteens<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[Q8K; R]],
    out: &mut [Sums; R],
) {
    let factors_at = match STEP {
        Q2K_STEP => Q2K_FACTORS,
        _ => Q6K_FACTORS,
    };
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        prefetch_all(step);
        let scale = halves(step);
        for h in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            for part in 0..16 {
                let weights = match STEP {
                    Q2K_STEP => two_bits(step, part, h),
                    _ => six_bits(step, part, h),
                };
                let factors = integers(&step[factors_at + part * WIDTH..], h);
                each_row!(R, r, {
                    dots[r] = add_sixteen(dots[r], &weights, factors, &x[r], part);
                });
            }
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale[h], x[r].scale);
            });
            if STEP == Q2K_STEP {
                let offset = _mm256_cvtph_ps(half_vector(&step[2 * WIDTH..], h));
                each_row!(R, r, {
                    let least = least(step, &x[r], h);
                    sums[r][h] = add(sums[r][h], least, offset, x[r].scale / 32.0);
                });
            }
        }
    }
    store(sums, out);
}

/// What the minima of a step of Q2_K take, -32 times.
#[inline]
#[target_feature(enable = "avx2")]
fn least(step: &[u8], x: &Q8K, h: usize) -> __m256i {
    let mut least = _mm256_setzero_si256();
    for part in 0..16 {
        let minima = integers(&step[Q2K_MINIMA + part * WIDTH..], h);
        let of_part = _mm256_mullo_epi32(minima, _mm256_set1_epi32(x.of_six_bits[part]));
        least = _mm256_add_epi32(least, of_part);
    }
    least
}
