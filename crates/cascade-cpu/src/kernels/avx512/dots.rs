//! Dot products of unsigned bytes with four rows of words, or with one, in instructions that are
//! written out.
//!
//! A compiler that orders them for itself keeps weights or sums in memory, because it moves what
//! ends a row away from it. Here a step of 16 rows needs 30 registers, weights are in them for all
//! rows, each instruction reads the word that it uses, and the sums of four rows are under way at a
//! time, which is as many as hide the time that an instruction takes.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::activations::{Q8, Q8K};

/// An instruction for each of four rows, whose number stands between the pieces.
macro_rules! four {
    ($first:expr $(, $rest:expr)*) => {
        concat!(
            four!(@ "0" $first $(, $rest)*),
            four!(@ "1" $first $(, $rest)*),
            four!(@ "2" $first $(, $rest)*),
            four!(@ "3" $first $(, $rest)*),
        )
    };
    (@ $row:literal $first:expr $(, $rest:expr)*) => {
        concat!($first, $($row, $rest,)* "\n")
    };
}

/// Products of one row.
macro_rules! one {
    ($first:expr $(, $rest:expr)*) => {
        concat!($first, $("0", $rest,)* "\n")
    };
}

/// `dot += inputs * weights`, where the inputs of a row are four bytes from a place on.
macro_rules! multiply {
    ($rows:ident $(, $weights:literal at $place:literal)*) => {
        concat!($($rows!(
            "vpdpbusd {d",
            concat!("}, {", $weights, "}, dword ptr [{x} + "),
            concat!("*{row} + ", $place, "]{{1to16}}")
        )),*)
    };
}

/// Adds the products of 16 inputs with vectors `a` to `d`.
macro_rules! multiply4 {
    ($rows:ident) => {
        multiply!($rows, "a" at 0, "b" at 4, "c" at 8, "d" at 12)
    };
}

/// Adds the products of 32 inputs with vectors `a` to `h`.
macro_rules! multiply8 {
    ($rows:ident) => {
        concat!(
            multiply4!($rows),
            multiply!($rows, "e" at 16, "f" at 20, "g" at 24, "h" at 28)
        )
    };
}

/// `dot = start`, which is another number for each row.
macro_rules! begin {
    ($rows:ident) => {
        $rows!("vpbroadcastd {d", "}, dword ptr [{start} + ", "*{row}]")
    };
}

/// `sum += dot * factor`, in integers.
macro_rules! add_integers {
    ($rows:ident) => {
        concat!(
            $rows!("vpmulld {d", "}, {d", "}, {factors}"),
            $rows!("vpaddd {s", "}, {s", "}, {d", "}"),
        )
    };
}

/// Adds a block of 32 inputs: `sum = fma(dot, scale * x.scale, sum)`.
macro_rules! block {
    ($rows:ident) => {
        concat!(
            begin!($rows),
            multiply8!($rows),
            $rows!("vcvtdq2ps {d", "}, {d", "}"),
            $rows!(
                "vmulps {t}, {scale}, dword ptr [{x} + ",
                "*{row} + {of_scale}]{{1to16}}\n vfmadd231ps {s",
                "}, {d",
                "}, {t}"
            ),
        )
    };
}

/// Adds a part of Q4_K or Q5_K.
macro_rules! nibbles {
    ($rows:ident) => {
        concat!(
            $rows!("vpxord {d", "}, {d", "}, {d", "}"),
            multiply8!($rows),
            add_integers!($rows),
        )
    };
}

/// Adds a part of Q6_K.
macro_rules! six_bits {
    ($rows:ident) => {
        concat!(begin!($rows), multiply4!($rows), add_integers!($rows))
    };
}

/// Runs instructions on the sums of four rows or of one, `$row` bytes apart, with 4 or 8 vectors of
/// weights and further operands.
macro_rules! run {
    (four $text:ident, $sums:expr, $($rest:tt)*) => {{
        let [mut s0, mut s1, mut s2, mut s3] = $sums;
        run!(
            @ $text!(four), $($rest)*
            s0 = inout(zmm_reg) s0,
            s1 = inout(zmm_reg) s1,
            s2 = inout(zmm_reg) s2,
            s3 = inout(zmm_reg) s3,
            d0 = out(zmm_reg) _,
            d1 = out(zmm_reg) _,
            d2 = out(zmm_reg) _,
            d3 = out(zmm_reg) _,
        );
        [s0, s1, s2, s3]
    }};
    (one $text:ident, $sum:expr, $($rest:tt)*) => {{
        let mut sum = $sum;
        run!(@ $text!(one), $($rest)* s0 = inout(zmm_reg) sum, d0 = out(zmm_reg) _,);
        sum
    }};
    (@ $text:expr, 8 of $weights:ident, $($rest:tt)*) => {
        run!(
            @ $text, 4 of $weights, $($rest)*
            e = in(zmm_reg) $weights[4],
            f = in(zmm_reg) $weights[5],
            g = in(zmm_reg) $weights[6],
            h = in(zmm_reg) $weights[7],
        )
    };
    (@ $text:expr, 4 of $weights:ident, $row:ty, $($operands:tt)*) => {
        // SAFETY: callers have the instructions; the types of `x` are of that many rows, and words,
        // scales and starts are in each.
        unsafe {
            asm!(
                $text,
                $($operands)*
                a = in(zmm_reg) $weights[0],
                b = in(zmm_reg) $weights[1],
                c = in(zmm_reg) $weights[2],
                d = in(zmm_reg) $weights[3],
                row = const size_of::<$row>(),
                options(pure, readonly, nostack, preserves_flags),
            )
        }
    };
}

/// Where sums of products with weights begin, of which so much was added.
#[derive(Clone, Copy)]
pub(super) enum Added {
    /// 128.
    OfBytes,
    /// 8.
    OfNibbles,
    Nothing,
}

/// Rows whose sums begin at 0.
static ZEROS: [Q8; 4] = [Q8 {
    words: [0; 8],
    scale: 0.0,
    of_bytes: 0,
    of_nibbles: 0,
    of_minima: 0.0,
}; 4];

impl Added {
    fn start(self, x: &Q8) -> *const i32 {
        match self {
            Self::OfBytes => &x.of_bytes,
            Self::OfNibbles => &x.of_nibbles,
            Self::Nothing => &ZEROS[0].of_bytes,
        }
    }
}

/// Adds a block to the sums of four rows.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add4(
    sums: [__m512; 4],
    weights: &[__m512i; 8],
    scale: __m512,
    x: &[Q8; 4],
    added: Added,
) -> [__m512; 4] {
    run!(
        four block, sums, 8 of weights, Q8,
        t = out(zmm_reg) _,
        scale = in(zmm_reg) scale,
        x = in(reg) x,
        start = in(reg) added.start(&x[0]),
        of_scale = const std::mem::offset_of!(Q8, scale),
    )
}

/// Adds a block to the sum of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add1(
    sum: __m512,
    weights: &[__m512i; 8],
    scale: __m512,
    x: &Q8,
    added: Added,
) -> __m512 {
    run!(
        one block, sum, 8 of weights, Q8,
        t = out(zmm_reg) _,
        scale = in(zmm_reg) scale,
        x = in(reg) x,
        start = in(reg) added.start(x),
        of_scale = const std::mem::offset_of!(Q8, scale),
    )
}

/// Adds part number `part` of Q4_K or Q5_K to the integers of four rows.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add_nibbles4(
    sums: [__m512i; 4],
    weights: &[__m512i; 8],
    factors: __m512i,
    x: &[Q8K; 4],
    part: usize,
) -> [__m512i; 4] {
    run!(
        four nibbles, sums, 8 of weights, Q8K,
        factors = in(zmm_reg) factors,
        x = in(reg) &x[0].words[8 * part],
    )
}

/// Adds part number `part` of Q4_K or Q5_K to the integers of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add_nibbles1(
    sum: __m512i,
    weights: &[__m512i; 8],
    factors: __m512i,
    x: &Q8K,
    part: usize,
) -> __m512i {
    run!(
        one nibbles, sum, 8 of weights, Q8K,
        factors = in(zmm_reg) factors,
        x = in(reg) &x.words[8 * part],
    )
}

/// Adds part number `part` of Q6_K to the integers of four rows.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add_six_bits4(
    sums: [__m512i; 4],
    weights: &[__m512i; 4],
    factors: __m512i,
    x: &[Q8K; 4],
    part: usize,
) -> [__m512i; 4] {
    run!(
        four six_bits, sums, 4 of weights, Q8K,
        factors = in(zmm_reg) factors,
        x = in(reg) &x[0].words[4 * part],
        start = in(reg) &x[0].of_six_bits[part],
    )
}

/// Adds part number `part` of Q6_K to the integers of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add_six_bits1(
    sum: __m512i,
    weights: &[__m512i; 4],
    factors: __m512i,
    x: &Q8K,
    part: usize,
) -> __m512i {
    run!(
        one six_bits, sum, 4 of weights, Q8K,
        factors = in(zmm_reg) factors,
        x = in(reg) &x.words[4 * part],
        start = in(reg) &x.of_six_bits[part],
    )
}
