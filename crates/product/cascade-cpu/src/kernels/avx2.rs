//! AVX2 with FMA and F16C. Two vectors are a panel wide.

use std::arch::x86_64::*;

use super::{by_rows, each_row, prefetch_all, Kernels, Sums};
use crate::activations::{Q8, Q8K};
use crate::format::{
    F32_STEP, HALF_STEP, Q4K_FACTORS, Q4K_MINIMA, Q4K_PART, Q4K_STEP, Q4K_WEIGHTS, Q4_0_STEP,
    Q5K_STEP, Q6K_FACTORS, Q6K_PART, Q6K_STEP, Q6K_WEIGHTS, Q8_0_STEP, WIDTH,
};

pub(super) static KERNELS: Kernels = Kernels {
    f32,
    f16,
    bf16,
    q8_0,
    q4_0,
    q4k,
    q5k,
    q6k,
    most: (6, 4),
};

macro_rules! kernels {
    ($($kernel:ident: $of_rows:ident, $x:ty, [$($rows:literal)*];)*) => {$(
        unsafe fn $kernel(panel: &[u8], x: &[$x], sums: &mut [Sums]) {
            by_rows!($of_rows, panel, x, sums, [$($rows)*]);
        }
    )*};
}

kernels! {
    f32: f32_rows, [f32; 32], [1 2 3 4 5 6];
    f16: f16_rows, [f32; 32], [1 2 3 4 5 6];
    bf16: bf16_rows, [u32; 16], [1 2 3 4 5 6];
    q8_0: q8_0_rows, Q8, [1 2 3 4];
    q4_0: q4_0_rows, Q8, [1 2 3 4];
    q4k: q4k_rows, Q8K, [1 2 3 4];
    q5k: q5k_rows, Q8K, [1 2 3 4];
    q6k: q6k_rows, Q8K, [1 2 3 4];
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

#[target_feature(enable = "avx2,fma")]
fn f32_rows<const R: usize>(panel: &[u8], x: &[[[f32; 32]; R]], out: &mut [Sums; R]) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (step, x) in panel.as_chunks::<F32_STEP>().0.iter().zip(x) {
        for (i, line) in step.as_chunks::<64>().0.iter().enumerate() {
            prefetch_all(line);
            for h in 0..2 {
                let weights = _mm256_castsi256_ps(vector(line, h));
                each_row!(R, r, {
                    sums[r][h] = _mm256_fmadd_ps(_mm256_set1_ps(x[r][i]), weights, sums[r][h]);
                });
            }
        }
    }
    store(sums, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn f16_rows<const R: usize>(panel: &[u8], x: &[[[f32; 32]; R]], out: &mut [Sums; R]) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (step, x) in panel.as_chunks::<HALF_STEP>().0.iter().zip(x) {
        prefetch_all(step);
        for (i, line) in step.as_chunks::<32>().0.iter().enumerate() {
            let weights = halves(line);
            for h in 0..2 {
                each_row!(R, r, {
                    let x = _mm256_set1_ps(x[r][i]);
                    sums[r][h] = _mm256_fmadd_ps(x, weights[h], sums[r][h]);
                });
            }
        }
    }
    store(sums, out);
}

/// The first and the second of each pair of bf16.
#[inline]
#[target_feature(enable = "avx2")]
fn apart(pairs: __m256i) -> (__m256, __m256) {
    let second = _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff_0000_u32 as i32));
    let first = _mm256_slli_epi32::<16>(pairs);
    (_mm256_castsi256_ps(first), _mm256_castsi256_ps(second))
}

#[target_feature(enable = "avx2,fma")]
fn bf16_rows<const R: usize>(panel: &[u8], x: &[[[u32; 16]; R]], out: &mut [Sums; R]) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (step, x) in panel.as_chunks::<HALF_STEP>().0.iter().zip(x) {
        for (i, line) in step.as_chunks::<64>().0.iter().enumerate() {
            prefetch_all(line);
            for h in 0..2 {
                let (w0, w1) = apart(vector(line, h));
                each_row!(R, r, {
                    let (x0, x1) = apart(_mm256_set1_epi32(x[r][i] as i32));
                    sums[r][h] = _mm256_fmadd_ps(x0, w0, _mm256_fmadd_ps(x1, w1, sums[r][h]));
                });
            }
        }
    }
    store(sums, out);
}

/// Adds dot products of unsigned bytes up to 127 with four inputs.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_unsigned(sum: __m256i, weights: __m256i, word: i32) -> __m256i {
    let products = _mm256_maddubs_epi16(weights, _mm256_set1_epi32(word));
    _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)))
}

/// The same of signed bytes, inputs being -127 to 127.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_signed(sum: __m256i, weights: __m256i, word: i32) -> __m256i {
    let magnitudes = _mm256_abs_epi8(weights);
    let x = _mm256_sign_epi8(_mm256_set1_epi32(word), weights);
    let products = _mm256_maddubs_epi16(magnitudes, x);
    _mm256_add_epi32(sum, _mm256_madd_epi16(products, _mm256_set1_epi16(1)))
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
    for (step, x) in panel.as_chunks::<Q8_0_STEP>().0.iter().zip(x) {
        prefetch_all(step);
        let scale = halves(step);
        let weights = &step[2 * WIDTH..];
        for h in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            for i in 0..8 {
                let weights = _mm256_xor_si256(vector(weights, 2 * i + h), sign);
                each_row!(R, r, {
                    dots[r] = dot_signed(dots[r], weights, x[r].words[i]);
                });
            }
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale[h], x[r].scale);
            });
        }
    }
    store(sums, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4_0_rows<const R: usize>(panel: &[u8], x: &[[Q8; R]], out: &mut [Sums; R]) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for (step, x) in panel.as_chunks::<Q4_0_STEP>().0.iter().zip(x) {
        prefetch_all(step);
        let scale = halves(step);
        for h in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            each_row!(R, r, {
                // Weights have 8 added.
                dots[r] = _mm256_set1_epi32(x[r].of_nibbles);
            });
            nibble_dots(
                &step[2 * WIDTH..],
                h,
                _mm256_setzero_si256(),
                &mut dots,
                |r, i| x[r].words[i],
            );
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale[h], x[r].scale);
            });
        }
    }
    store(sums, out);
}

/// Adds dot products of 32 weights of 4 bits, and a fifth bit: of each 4 inputs, the next of each
/// byte of `tops`.
#[inline]
#[target_feature(enable = "avx2")]
fn nibble_dots<const R: usize>(
    packed: &[u8],
    h: usize,
    mut tops: __m256i,
    dots: &mut [__m256i; R],
    word: impl Fn(usize, usize) -> i32,
) {
    let fifth = _mm256_set1_epi8(16);
    for i in 0..4 {
        let [low, high] = nibbles(vector(packed, 2 * i + h));
        let low = _mm256_or_si256(low, _mm256_and_si256(_mm256_slli_epi16::<4>(tops), fifth));
        let high = _mm256_or_si256(high, _mm256_and_si256(_mm256_slli_epi16::<3>(tops), fifth));
        tops = _mm256_srli_epi16::<2>(tops);
        each_row!(R, r, {
            dots[r] = dot_unsigned(dots[r], low, word(r, 2 * i));
            dots[r] = dot_unsigned(dots[r], high, word(r, 2 * i + 1));
        });
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q4k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
    rows_with_minima::<R, Q4K_STEP>(panel, x, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q5k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
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
                    Q5K_STEP => vector(&packed[Q4K_PART..], h),
                    _ => _mm256_setzero_si256(),
                };
                let factors = &step[Q4K_FACTORS + part * WIDTH..][..WIDTH];
                let factors = half_vector(factors, 0);
                let factors = match h {
                    0 => _mm256_cvtepu8_epi32(factors),
                    _ => _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(factors)),
                };
                let mut of_part = [_mm256_setzero_si256(); R];
                nibble_dots(packed, h, tops, &mut of_part, |r, i| {
                    x[r].words[8 * part + i]
                });
                each_row!(R, r, {
                    let product = _mm256_mullo_epi32(of_part[r], factors);
                    dots[r] = _mm256_add_epi32(dots[r], product);
                });
            }
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale[h], x[r].scale);
                let mut least = _mm256_setzero_si256();
                for i in 0..4 {
                    let minima = half_vector(&step[Q4K_MINIMA + 32 * i..], h);
                    let minima = _mm256_cvtepu8_epi16(minima);
                    let products = _mm256_madd_epi16(minima, _mm256_set1_epi32(x[r].pairs[i]));
                    least = _mm256_add_epi32(least, products);
                }
                let offset = _mm256_mul_ps(offset[h], _mm256_set1_ps(x[r].scale));
                sums[r][h] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(least), offset, sums[r][h]);
            });
        }
    }
    store(sums, out);
}

#[target_feature(enable = "avx2,fma,f16c")]
fn q6k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    let high = _mm256_set1_epi8(0x30);
    for (step, x) in panel.as_chunks::<Q6K_STEP>().0.iter().zip(x) {
        prefetch_all(step);
        let scale = halves(step);
        for h in 0..2 {
            let mut dots = [_mm256_setzero_si256(); R];
            for part in 0..16 {
                let packed = &step[Q6K_WEIGHTS + part * Q6K_PART..][..Q6K_PART];
                let [a0, a1] = nibbles(vector(packed, h));
                let [b0, b1] = nibbles(vector(packed, 2 + h));
                let c = vector(packed, 4 + h);
                let with = |low, bits| _mm256_or_si256(low, _mm256_and_si256(bits, high));
                let weights = [
                    with(a0, _mm256_slli_epi16::<4>(c)),
                    with(a1, _mm256_slli_epi16::<2>(c)),
                    with(b0, c),
                    with(b1, _mm256_srli_epi16::<2>(c)),
                ];
                let factors = half_vector(&step[Q6K_FACTORS + part * WIDTH..][..WIDTH], 0);
                let factors = match h {
                    0 => _mm256_cvtepi8_epi32(factors),
                    _ => _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(factors)),
                };
                each_row!(R, r, {
                    // Weights have 32 added.
                    let mut of_part = _mm256_set1_epi32(x[r].of_six_bits[part]);
                    for i in 0..4 {
                        of_part = dot_unsigned(of_part, weights[i], x[r].words[4 * part + i]);
                    }
                    let product = _mm256_mullo_epi32(of_part, factors);
                    dots[r] = _mm256_add_epi32(dots[r], product);
                });
            }
            each_row!(R, r, {
                sums[r][h] = add(sums[r][h], dots[r], scale[h], x[r].scale);
            });
        }
    }
    store(sums, out);
}
