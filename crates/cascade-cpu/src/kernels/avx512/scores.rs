//! Dot products of queries with keys.
//!
//! Each adds lane by lane, then halves of the vector until one number is left: the bits that it has
//! if it is computed alone. Of 16 together, four halvings take 15 additions instead of 64.

use std::arch::x86_64::*;

/// Which product is summed in which register, so that the sums end up in order.
const ORDER: [usize; 16] = [0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15];

/// Dot products of a query with 16 keys that lie one after the other.
///
/// # Panics
/// If there are fewer than 16 keys, or their length is no multiple of 16.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in crate::kernels) fn scores(query: &[f32], keys: &[f32], scores: &mut [f32; 16]) {
    let (query, rest) = query.as_chunks::<16>();
    assert!(rest.is_empty(), "keys whose length is no multiple of 16");
    let keys = &keys.as_chunks::<16>().0[..16 * query.len()];
    let mut sums = [_mm512_setzero_ps(); 16];
    for (step, query) in query.iter().enumerate() {
        let query = vector(query);
        for (sum, key) in sums.iter_mut().zip(ORDER) {
            let key = vector(&keys[key * (keys.len() / 16) + step]);
            *sum = _mm512_fmadd_ps(query, key, *sum);
        }
    }
    // SAFETY: there is room for 16 numbers.
    unsafe { _mm512_storeu_ps(scores.as_mut_ptr(), halved(sums)) };
}

/// Dot products of four queries with keys that lie one after the other, a multiple of four. Those
/// of the next query go `width` further on. Vectors are read once for four products.
///
/// # Panics
/// If lengths of queries or keys are no multiple of 16, or there is no room for the products.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in crate::kernels) fn scores_of_four(
    queries: [&[f32]; 4],
    keys: &[f32],
    scores: &mut [f32],
    width: usize,
) {
    let [a, b, c, d] = queries.map(|query| query.as_chunks::<16>().0);
    let steps = a.len();
    let queries = [a, &b[..steps], &c[..steps], &d[..steps]];
    let (keys, rest) = keys.as_chunks::<16>();
    assert!(rest.is_empty(), "keys whose length is no multiple of 16");
    for (four, keys) in keys.chunks_exact(4 * steps).enumerate() {
        let (first, last) = keys.split_at(2 * steps);
        let (first, last) = (first.split_at(steps), last.split_at(steps));
        let keys = [first.0, first.1, last.0, &last.1[..steps]];
        let mut sums = [_mm512_setzero_ps(); 16];
        for step in 0..steps {
            let (mut of_keys, mut of_queries) = ([sums[0]; 4], [sums[0]; 4]);
            for i in 0..4 {
                of_keys[i] = vector(&keys[i][step]);
                of_queries[i] = vector(&queries[i][step]);
            }
            for i in 0..16 {
                let (query, key) = (of_queries[ORDER[i] / 4], of_keys[ORDER[i] % 4]);
                sums[i] = _mm512_fmadd_ps(query, key, sums[i]);
            }
        }
        let products = halved(sums);
        let of_queries = [
            _mm512_castps512_ps128(products),
            _mm512_extractf32x4_ps::<1>(products),
            _mm512_extractf32x4_ps::<2>(products),
            _mm512_extractf32x4_ps::<3>(products),
        ];
        for (query, products) in of_queries.into_iter().enumerate() {
            let to = &mut scores[query * width + 4 * four..][..4];
            // SAFETY: there is room for four numbers.
            unsafe { _mm_storeu_ps(to.as_mut_ptr(), products) };
        }
    }
}

/// The sums of the lanes of each vector, in the [order](ORDER) of products.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn halved(sums: [__m512; 16]) -> __m512 {
    let eight: [__m512; 8] = std::array::from_fn(|i| halves_of_512(sums[i], sums[i + 8]));
    let four: [__m512; 4] = std::array::from_fn(|i| halves_of_256(eight[i], eight[i + 4]));
    let two: [__m512; 2] = std::array::from_fn(|i| halves_of_128(four[i], four[i + 2]));
    halves_of_64(two[0], two[1])
}

#[inline]
#[target_feature(enable = "avx512f")]
fn vector(values: &[f32; 16]) -> __m512 {
    // SAFETY: 16 numbers are there.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// The sums of both halves of `a`, then those of `b`.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves_of_512(a: __m512, b: __m512) -> __m512 {
    let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(a, b);
    let high = _mm512_shuffle_f32x4::<0b11_10_11_10>(a, b);
    _mm512_add_ps(low, high)
}

/// The sums of halves of the two halves of `a`, then of those of `b`.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves_of_256(a: __m512, b: __m512) -> __m512 {
    let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
    let high = _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b);
    _mm512_add_ps(low, high)
}

/// The sums of halves of each quarter of `a` and `b`, side by side.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves_of_128(a: __m512, b: __m512) -> __m512 {
    let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
    let low = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
    let high = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    _mm512_add_ps(low, high)
}

/// The sums of pairs of `a` and `b`, by quarters.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves_of_64(a: __m512, b: __m512) -> __m512 {
    let low = _mm512_shuffle_ps::<0b10_00_10_00>(a, b);
    let high = _mm512_shuffle_ps::<0b11_01_11_01>(a, b);
    _mm512_add_ps(low, high)
}
