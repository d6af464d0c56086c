//! Activations to integers.

use std::arch::x86_64::*;

use crate::activations::{Q8, Q8K, scale_of, usable};

/// 16 of the values.
#[inline]
#[target_feature(enable = "avx512f")]
fn values(step: &[f32], i: usize) -> __m512 {
    let values = &step.as_chunks::<16>().0[i];
    // SAFETY: 16 numbers are there.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// The greatest magnitude; NaN is greater than all. Magnitudes are in the order of their bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn greatest<const N: usize>(step: &[f32; N]) -> f32 {
    let magnitude = _mm512_set1_epi32(0x7fff_ffff);
    let mut most = _mm512_setzero_si512();
    for i in 0..N / 16 {
        let bits = _mm512_castps_si512(values(step, i));
        most = _mm512_max_epu32(most, _mm512_and_si512(bits, magnitude));
    }
    f32::from_bits(_mm512_reduce_max_epu32(most))
}

/// 16 integers nearest to values times `inverse`, ties to even, and their sum.
#[inline]
#[target_feature(enable = "avx512f")]
fn integers(values: __m512, inverse: f32) -> ([i32; 4], i32) {
    let scaled = _mm512_mul_ps(values, _mm512_set1_ps(inverse));
    let rounded =
        _mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(scaled);
    let bytes = _mm512_cvtepi32_epi8(rounded);
    let mut words = [0; 4];
    // SAFETY: there is room for 16 bytes.
    unsafe { _mm_storeu_si128(words.as_mut_ptr().cast(), bytes) };
    // Of the bytes, which are not the integers if those are too large.
    let sum = _mm512_reduce_add_epi32(_mm512_cvtepi8_epi32(bytes));
    (words, sum)
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) fn q8(step: &[f32; 32]) -> Q8 {
    let (scale, inverse) = scale_of(greatest(step));
    let (first, of_first) = integers(values(step, 0), inverse);
    let (second, of_second) = integers(values(step, 1), inverse);
    let mut words = [0; 8];
    words[..4].copy_from_slice(&first);
    words[4..].copy_from_slice(&second);
    Q8::new(words, usable(scale, inverse), of_first + of_second)
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(in crate::kernels) fn q8_k(step: &[f32; 256]) -> Q8K {
    let (scale, inverse) = scale_of(greatest(step));
    let (mut words, mut sums) = ([0; 64], [0; 16]);
    for (i, words) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        (*words, sums[i]) = integers(values(step, i), inverse);
    }
    Q8K::new(words, usable(scale, inverse), sums)
}
