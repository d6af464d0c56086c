//! AVX-512 with VNNI; bf16 with or without its own instructions. A vector is a panel wide.

mod dots;
mod round;
mod scores;

use std::arch::x86_64::*;

use self::dots::Added;
pub(super) use self::round::{q8, q8_k};
pub(super) use self::scores::{scores, scores_of_four};
use super::{Bf16, Kernels, Sums, by_rows, each_row, prefetch, prefetch_all};
use crate::activations::{Q8, Q8K};
use crate::format::{
    F32_STEP, HALF_STEP, Q2K_FACTORS, Q2K_MINIMA, Q2K_PART, Q2K_STEP, Q2K_WEIGHTS, Q4_0_STEP,
    Q4_1_STEP, Q4K_FACTORS, Q4K_MINIMA, Q4K_STEP, Q4K_WEIGHTS, Q5_1_STEP, Q5K_STEP, Q6K_FACTORS,
    Q6K_PART, Q6K_STEP, Q6K_WEIGHTS, Q8_0_STEP, TABLE_STEP, TABLES, WIDTH,
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
    most: (16, 16, 16),
};

pub(super) static WITH_BF16: Kernels = Kernels {
    bf16: Bf16::Pairs(bf16_native),
    ..KERNELS
};

macro_rules! kernels {
    ($($kernel:ident($x:ty): $rows:ident => $of_rows:expr;)*) => {$(
        pub(super) unsafe fn $kernel(panel: &[u8], x: &[$x], sums: &mut [Sums]) {
            by_rows!($rows => $of_rows, panel, x, sums, [1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16]);
        }
    )*};
}

kernels! {
    f32([f32; 32]): R => float_rows::<R, F32_STEP>;
    f16([f32; 32]): R => float_rows::<R, HALF_STEP>;
    bf16([u32; 16]): R => bf16_rows::<R>;
    bf16_native([u32; 16]): R => bf16_native_rows::<R>;
    q8_0(Q8): R => block_rows::<R, Q8_0_STEP>;
    q4_0(Q8): R => block_rows::<R, Q4_0_STEP>;
    q4_1(Q8): R => block_rows::<R, Q4_1_STEP>;
    q5_1(Q8): R => block_rows::<R, Q5_1_STEP>;
    iq4(Q8): R => table_rows::<R, 0>;
    mxfp4(Q8): R => table_rows::<R, 1>;
    q2k(Q8K): R => rows_of_sixteens::<R, Q2K_STEP>;
    q4k(Q8K): R => q4k_rows::<R>;
    q5k(Q8K): R => q5k_rows::<R>;
    q6k(Q8K): R => rows_of_sixteens::<R, Q6K_STEP>;
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes are there.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The `i`th vector.
#[inline]
#[target_feature(enable = "avx512f")]
fn vector(bytes: &[u8], i: usize) -> __m512i {
    load(&bytes.as_chunks::<64>().0[i])
}

/// 16 numbers in f16.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(bytes: &[u8]) -> __m512 {
    let bytes = &bytes.as_chunks::<32>().0[0];
    // SAFETY: 32 bytes are there.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) })
}

/// 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
fn bytes16(bytes: &[u8]) -> __m128i {
    let bytes = &bytes.as_chunks::<16>().0[0];
    // SAFETY: 16 bytes are there.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store<const R: usize>(vectors: [__m512; R], sums: &mut [Sums; R]) {
    for (to, vector) in sums.iter_mut().zip(vectors) {
        put_sums(to, vector);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn put_sums(to: &mut Sums, vector: __m512) {
    // SAFETY: there is room for 16 numbers.
    unsafe { _mm512_storeu_ps(to.as_mut_ptr(), vector) };
}

#[inline]
#[target_feature(enable = "avx512f")]
fn sums(from: &Sums) -> __m512 {
    // SAFETY: 16 numbers are there.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

/// Rows with weights in f32 or f16.
#[target_feature(enable = "avx512f")]
fn float_rows<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[[f32; 32]; R]],
    out: &mut [Sums; R],
) {
    let mut sums = [_mm512_setzero_ps(); R];
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        for (i, line) in step.chunks_exact(STEP / 32).enumerate() {
            prefetch(line);
            let weights = match STEP {
                HALF_STEP => halves(line),
                _ => _mm512_castsi512_ps(vector(line, 0)),
            };
            each_row!(R, r, {
                sums[r] = _mm512_fmadd_ps(_mm512_set1_ps(x[r][i]), weights, sums[r]);
            });
        }
    }
    store(sums, out);
}

#[target_feature(enable = "avx512f")]
fn bf16_rows<const R: usize>(panel: &[u8], x: &[[[u32; 16]; R]], out: &mut [Sums; R]) {
    let mut sums = [_mm512_setzero_ps(); R];
    let second = _mm512_set1_epi32(0xffff_0000_u32 as i32);
    for (step, x) in panel.as_chunks::<HALF_STEP>().0.iter().zip(x) {
        for (i, line) in step.as_chunks::<64>().0.iter().enumerate() {
            prefetch(line);
            let pairs = load(line);
            let w1 = _mm512_castsi512_ps(_mm512_and_si512(pairs, second));
            let w0 = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs));
            each_row!(R, r, {
                let pair = _mm512_set1_epi32(x[r][i] as i32);
                let x1 = _mm512_castsi512_ps(_mm512_and_si512(pair, second));
                let x0 = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pair));
                sums[r] = _mm512_fmadd_ps(x0, w0, _mm512_fmadd_ps(x1, w1, sums[r]));
            });
        }
    }
    store(sums, out);
}

#[target_feature(enable = "avx512f,avx512bf16")]
fn bf16_native_rows<const R: usize>(panel: &[u8], x: &[[[u32; 16]; R]], out: &mut [Sums; R]) {
    let mut sums = [_mm512_setzero_ps(); R];
    for (step, x) in panel.as_chunks::<HALF_STEP>().0.iter().zip(x) {
        for (i, line) in step.as_chunks::<64>().0.iter().enumerate() {
            prefetch(line);
            let pairs = load(line);
            each_row!(R, r, {
                let x = _mm512_set1_epi32(x[r][i] as i32);
                // SAFETY: vectors of one size, of which any bits are numbers.
                let (w, x) = unsafe { (as_bf16(pairs), as_bf16(x)) };
                sums[r] = _mm512_dpbf16_ps(sums[r], w, x);
            });
        }
    }
    store(sums, out);
}

/// The bits of a vector as bf16.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn as_bf16(vector: __m512i) -> __m512bh {
    // SAFETY: both have 512 bits, any of which are numbers.
    unsafe { std::mem::transmute(vector) }
}

/// Adds `dot * scale * x`.
#[inline]
#[target_feature(enable = "avx512f")]
fn add(sum: __m512, dot: __m512i, scale: __m512, x: f32) -> __m512 {
    let scale = _mm512_mul_ps(scale, _mm512_set1_ps(x));
    _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, sum)
}

/// Eight vectors of 4 bits each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nibbles(packed: &[u8]) -> [__m512i; 8] {
    let low = _mm512_set1_epi8(15);
    let mut vectors = [_mm512_setzero_si512(); 8];
    for i in 0..4 {
        let both = vector(packed, i);
        vectors[2 * i] = _mm512_and_si512(both, low);
        vectors[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16::<4>(both), low);
    }
    vectors
}

/// Weights of 5 bits: 4 of each and a fifth bit from the vector that follows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn five_bits(packed: &[u8]) -> [__m512i; 8] {
    let (fifth, tops) = (_mm512_set1_epi8(16), vector(packed, 4));
    let shifted = [
        _mm512_slli_epi16::<4>(tops),
        _mm512_slli_epi16::<3>(tops),
        _mm512_slli_epi16::<2>(tops),
        _mm512_slli_epi16::<1>(tops),
        tops,
        _mm512_srli_epi16::<1>(tops),
        _mm512_srli_epi16::<2>(tops),
        _mm512_srli_epi16::<3>(tops),
    ];
    let mut vectors = nibbles(packed);
    for i in 0..8 {
        vectors[i] = _mm512_or_si512(vectors[i], _mm512_and_si512(shifted[i], fifth));
    }
    vectors
}

/// Changes the sums of four rows at a time, and then of each of those left.
macro_rules! by_fours {
    ($rows:expr, $sums:ident, $x:ident, $four:block else $one:block) => {
        each_row!($rows / 4, four, {
            let at = 4 * four;
            let of_four = [$sums[at], $sums[at + 1], $sums[at + 2], $sums[at + 3]];
            let of_four = {
                let $sums = of_four;
                let $x = &$x.as_chunks::<4>().0[four];
                $four
            };
            for i in 0..4 {
                $sums[at + i] = of_four[i];
            }
        });
        each_row!($rows % 4, one, {
            let at = $rows / 4 * 4 + one;
            $sums[at] = {
                let ($sums, $x) = ($sums[at], &$x[at]);
                $one
            };
        });
    };
}

/// Adds a block of 32 inputs to the sums of all rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn add_block<const R: usize>(
    sums: &mut [__m512; R],
    weights: &[__m512i; 8],
    scale: __m512,
    x: &[Q8; R],
    added: Added,
) {
    by_fours!(R, sums, x, {
        dots::add4(sums, weights, scale, x, added)
    } else {
        dots::add1(sums, weights, scale, x, added)
    });
}

/// Rows with weights in Q8_0 or Q4_0, or, with minima, in Q4_1 or Q5_1.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn block_rows<const R: usize, const STEP: usize>(panel: &[u8], x: &[[Q8; R]], out: &mut [Sums; R]) {
    let mut sums = [_mm512_setzero_ps(); R];
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        prefetch_all(step);
        let (scale, packed) = (halves(step), &step[2 * WIDTH..]);
        let (weights, added) = match STEP {
            Q4_0_STEP => (nibbles(packed), Added::OfNibbles),
            Q4_1_STEP => (nibbles(&packed[2 * WIDTH..]), Added::Nothing),
            Q5_1_STEP => (five_bits(&packed[2 * WIDTH..]), Added::Nothing),
            _ => (std::array::from_fn(|i| vector(packed, i)), Added::OfBytes),
        };
        add_block(&mut sums, &weights, scale, x, added);
        if matches!(STEP, Q4_1_STEP | Q5_1_STEP) {
            let minimum = halves(packed);
            each_row!(R, r, {
                let of_minima = _mm512_set1_ps(x[r].of_minima);
                sums[r] = _mm512_fmadd_ps(minimum, of_minima, sums[r]);
            });
        }
    }
    store(sums, out);
}

/// Rows with codes for the integers of a table.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn table_rows<const R: usize, const TABLE: usize>(
    panel: &[u8],
    x: &[[Q8; R]],
    out: &mut [Sums; R],
) {
    let table = TABLES[TABLE].map(|integer| integer as u8 ^ 0x80);
    let table = _mm512_broadcast_i32x4(bytes16(&table));
    let mut sums = [_mm512_setzero_ps(); R];
    for (step, x) in panel.as_chunks::<TABLE_STEP>().0.iter().zip(x) {
        prefetch_all(step);
        let codes = nibbles(&step[4 * WIDTH..]);
        let weights = codes.map(|codes| _mm512_shuffle_epi8(table, codes));
        let scale = _mm512_castsi512_ps(vector(step, 0));
        add_block(&mut sums, &weights, scale, x, Added::OfBytes);
    }
    store(sums, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn q4k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
    rows_with_minima::<R, Q4K_STEP>(panel, x, out);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn q5k_rows<const R: usize>(panel: &[u8], x: &[[Q8K; R]], out: &mut [Sums; R]) {
    rows_with_minima::<R, Q5K_STEP>(panel, x, out);
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn rows_with_minima<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[Q8K; R]],
    out: &mut [Sums; R],
) {
    let part_bytes = (STEP - Q4K_WEIGHTS) / 8;
    // A register each would be more than there are, and they are used once in 256 inputs.
    out.fill([0.0; WIDTH]);
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        let mut dots = [_mm512_setzero_si512(); R];
        for part in 0..8 {
            let packed = &step[Q4K_WEIGHTS + part * part_bytes..][..part_bytes];
            prefetch_all(packed);
            let factors = bytes16(&step[Q4K_FACTORS + part * WIDTH..]);
            let factors = _mm512_cvtepu8_epi32(factors);
            let weights = match STEP {
                Q5K_STEP => five_bits(packed),
                _ => nibbles(packed),
            };
            by_fours!(R, dots, x, {
                dots::add_nibbles4(dots, &weights, factors, x, part)
            } else {
                dots::add_nibbles1(dots, &weights, factors, x, part)
            });
        }
        prefetch_all(&step[..Q4K_WEIGHTS]);
        let (scale, offset) = (halves(step), halves(&step[2 * WIDTH..]));
        let mut minima = [_mm512_setzero_si512(); 4];
        for i in 0..4 {
            let bytes = &step[Q4K_MINIMA + 32 * i..].as_chunks::<32>().0[0];
            // SAFETY: 32 bytes are there.
            let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            minima[i] = _mm512_cvtepu8_epi16(bytes);
        }
        each_row!(R, r, {
            let sum = add(sums(&out[r]), dots[r], scale, x[r].scale);
            let mut least = _mm512_setzero_si512();
            for i in 0..4 {
                let pair = _mm512_set1_epi32(x[r].pairs[i]);
                least = _mm512_dpwssd_epi32(least, minima[i], pair);
            }
            let offset = _mm512_mul_ps(offset, _mm512_set1_ps(x[r].scale));
            let sum = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(least), offset, sum);
            put_sums(&mut out[r], sum);
        });
    }
}

/// Four times four inputs' weights of a part of Q2_K, with 32 added.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn two_bits(part: &[u8]) -> [__m512i; 4] {
    let (bits, added) = (vector(part, 0), _mm512_set1_epi8(32));
    let with = |bits| _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi8(3)), added);
    [
        with(bits),
        with(_mm512_srli_epi16::<2>(bits)),
        with(_mm512_srli_epi16::<4>(bits)),
        with(_mm512_srli_epi16::<6>(bits)),
    ]
}

/// Four times four inputs' weights of a part of Q6_K, with 32 added.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn six_bits(part: &[u8]) -> [__m512i; 4] {
    let (low, high) = (_mm512_set1_epi8(15), _mm512_set1_epi8(0x30));
    let (a, b, c) = (vector(part, 0), vector(part, 1), vector(part, 2));
    let with = |low_bits, high_bits| {
        let low_bits = _mm512_and_si512(low_bits, low);
        _mm512_or_si512(low_bits, _mm512_and_si512(high_bits, high))
    };
    [
        with(a, _mm512_slli_epi16::<4>(c)),
        with(_mm512_srli_epi16::<4>(a), _mm512_slli_epi16::<2>(c)),
        with(b, c),
        with(_mm512_srli_epi16::<4>(b), _mm512_srli_epi16::<2>(c)),
    ]
}

/// Rows with weights in Q2_K or Q6_K.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn rows_of_sixteens<const R: usize, const STEP: usize>(
    panel: &[u8],
    x: &[[Q8K; R]],
    out: &mut [Sums; R],
) {
    let (factors, first, part_bytes) = match STEP {
        Q2K_STEP => (Q2K_FACTORS, Q2K_WEIGHTS, Q2K_PART),
        _ => (Q6K_FACTORS, Q6K_WEIGHTS, Q6K_PART),
    };
    // A register each would be more than there are, and they are used once in 256 inputs.
    out.fill([0.0; WIDTH]);
    for (step, x) in panel.as_chunks::<STEP>().0.iter().zip(x) {
        prefetch_all(&step[..first]);
        let mut dots = [_mm512_setzero_si512(); R];
        for part in 0..16 {
            let packed = &step[first + part * part_bytes..][..part_bytes];
            prefetch_all(packed);
            let weights = match STEP {
                Q2K_STEP => two_bits(packed),
                _ => six_bits(packed),
            };
            let factors = bytes16(&step[factors + part * WIDTH..]);
            let factors = _mm512_cvtepi8_epi32(factors);
            by_fours!(R, dots, x, {
                dots::add_six_bits4(dots, &weights, factors, x, part)
            } else {
                dots::add_six_bits1(dots, &weights, factors, x, part)
            });
        }
        let scale = halves(step);
        each_row!(R, r, {
            let mut sum = add(sums(&out[r]), dots[r], scale, x[r].scale);
            if STEP == Q2K_STEP {
                let offset = halves(&step[2 * WIDTH..]);
                sum = add(sum, least(step, &x[r]), offset, x[r].scale / 32.0);
            }
            put_sums(&mut out[r], sum);
        });
    }
}

/// What the minima of a step of Q2_K take, -32 times.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn least(step: &[u8], x: &Q8K) -> __m512i {
    let mut least = _mm512_setzero_si512();
    for part in 0..16 {
        let minima = _mm512_cvtepu8_epi32(bytes16(&step[Q2K_MINIMA + part * WIDTH..]));
        let of_part = _mm512_mullo_epi32(minima, _mm512_set1_epi32(x.of_six_bits[part]));
        least = _mm512_add_epi32(least, of_part);
    }
    least
}
