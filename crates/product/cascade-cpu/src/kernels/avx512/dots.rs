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
    ($first:literal $(, $rest:literal)*) => {
        concat!(
            four!(@ "0" $first $(, $rest)*),
            four!(@ "1" $first $(, $rest)*),
            four!(@ "2" $first $(, $rest)*),
            four!(@ "3" $first $(, $rest)*),
        )
    };
    (@ $row:literal $first:literal $(, $rest:literal)*) => {
        concat!($first, $($row, $rest,)* "\n")
    };
}

/// The same for one row.
macro_rules! one {
    ($first:literal $(, $rest:literal)*) => {
        concat!($first, $("0", $rest,)*)
    };
}

/// Adds the products of 32 inputs with vectors `a` to `h`.
macro_rules! multiply8 {
    ($rows:ident) => {
        concat!(
            multiply4!($rows),
            $rows!(
                "vpdpbusd {d",
                "}, {e}, dword ptr [{x} + ",
                "*{row} + 16]{{1to16}}"
            ),
            "\n",
            $rows!(
                "vpdpbusd {d",
                "}, {f}, dword ptr [{x} + ",
                "*{row} + 20]{{1to16}}"
            ),
            "\n",
            $rows!(
                "vpdpbusd {d",
                "}, {g}, dword ptr [{x} + ",
                "*{row} + 24]{{1to16}}"
            ),
            "\n",
            $rows!(
                "vpdpbusd {d",
                "}, {h}, dword ptr [{x} + ",
                "*{row} + 28]{{1to16}}"
            ),
        )
    };
}

/// Adds the products of 16 inputs with vectors `a` to `d`.
macro_rules! multiply4 {
    ($rows:ident) => {
        concat!(
            $rows!(
                "vpdpbusd {d",
                "}, {a}, dword ptr [{x} + ",
                "*{row}]{{1to16}}"
            ),
            "\n",
            $rows!(
                "vpdpbusd {d",
                "}, {b}, dword ptr [{x} + ",
                "*{row} + 4]{{1to16}}"
            ),
            "\n",
            $rows!(
                "vpdpbusd {d",
                "}, {c}, dword ptr [{x} + ",
                "*{row} + 8]{{1to16}}"
            ),
            "\n",
            $rows!(
                "vpdpbusd {d",
                "}, {d}, dword ptr [{x} + ",
                "*{row} + 12]{{1to16}}"
            ),
            "\n",
        )
    };
}

/// `sum = fma(dot, scale * x.scale, sum)`.
macro_rules! add_scaled {
    ($rows:ident) => {
        concat!(
            $rows!("vcvtdq2ps {d", "}, {d", "}"),
            "\n",
            $rows!(
                "vmulps {t}, {scale}, dword ptr [{x} + ",
                "*{row} + {of_scale}]{{1to16}}\n vfmadd231ps {s",
                "}, {d",
                "}, {t}"
            ),
        )
    };
}

/// `sum += dot * factor`, in integers.
macro_rules! add_integers {
    ($rows:ident) => {
        concat!(
            $rows!("vpmulld {d", "}, {d", "}, {factors}"),
            "\n",
            $rows!("vpaddd {s", "}, {s", "}, {d", "}"),
        )
    };
}

/// Where sums of products with weights begin, of which so much was added.
#[derive(Clone, Copy)]
pub(super) enum Added {
    /// 128.
    OfBytes,
    /// 8.
    OfNibbles,
}

impl Added {
    fn start(self, x: &Q8) -> *const i32 {
        match self {
            Self::OfBytes => &x.of_bytes,
            Self::OfNibbles => &x.of_nibbles,
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
    let [mut s0, mut s1, mut s2, mut s3] = sums;
    // SAFETY: the instructions are there, and so are four rows of words, scales and starts.
    unsafe {
        asm!(
            four!("vpbroadcastd {d", "}, dword ptr [{start} + ", "*{row}]"),
            multiply8!(four),
            add_scaled!(four),
            s0 = inout(zmm_reg) s0,
            s1 = inout(zmm_reg) s1,
            s2 = inout(zmm_reg) s2,
            s3 = inout(zmm_reg) s3,
            d0 = out(zmm_reg) _,
            d1 = out(zmm_reg) _,
            d2 = out(zmm_reg) _,
            d3 = out(zmm_reg) _,
            t = out(zmm_reg) _,
            a = in(zmm_reg) weights[0],
            b = in(zmm_reg) weights[1],
            c = in(zmm_reg) weights[2],
            d = in(zmm_reg) weights[3],
            e = in(zmm_reg) weights[4],
            f = in(zmm_reg) weights[5],
            g = in(zmm_reg) weights[6],
            h = in(zmm_reg) weights[7],
            scale = in(zmm_reg) scale,
            x = in(reg) x,
            start = in(reg) added.start(&x[0]),
            row = const size_of::<Q8>(),
            of_scale = const std::mem::offset_of!(Q8, scale),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    [s0, s1, s2, s3]
}

/// Adds a block to the sums of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add1(
    mut sum: __m512,
    weights: &[__m512i; 8],
    scale: __m512,
    x: &Q8,
    added: Added,
) -> __m512 {
    // SAFETY: the instructions are there, and so are words, scale and start.
    unsafe {
        asm!(
            one!("vpbroadcastd {d", "}, dword ptr [{start} + ", "*{row}]"),
            multiply8!(one),
            add_scaled!(one),
            s0 = inout(zmm_reg) sum,
            d0 = out(zmm_reg) _,
            t = out(zmm_reg) _,
            a = in(zmm_reg) weights[0],
            b = in(zmm_reg) weights[1],
            c = in(zmm_reg) weights[2],
            d = in(zmm_reg) weights[3],
            e = in(zmm_reg) weights[4],
            f = in(zmm_reg) weights[5],
            g = in(zmm_reg) weights[6],
            h = in(zmm_reg) weights[7],
            scale = in(zmm_reg) scale,
            x = in(reg) x,
            start = in(reg) added.start(x),
            row = const size_of::<Q8>(),
            of_scale = const std::mem::offset_of!(Q8, scale),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    sum
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
    let [mut s0, mut s1, mut s2, mut s3] = sums;
    // SAFETY: the instructions are there, and so are four rows of words.
    unsafe {
        asm!(
            four!("vpxord {d", "}, {d", "}, {d", "}"),
            multiply8!(four),
            add_integers!(four),
            s0 = inout(zmm_reg) s0,
            s1 = inout(zmm_reg) s1,
            s2 = inout(zmm_reg) s2,
            s3 = inout(zmm_reg) s3,
            d0 = out(zmm_reg) _,
            d1 = out(zmm_reg) _,
            d2 = out(zmm_reg) _,
            d3 = out(zmm_reg) _,
            a = in(zmm_reg) weights[0],
            b = in(zmm_reg) weights[1],
            c = in(zmm_reg) weights[2],
            d = in(zmm_reg) weights[3],
            e = in(zmm_reg) weights[4],
            f = in(zmm_reg) weights[5],
            g = in(zmm_reg) weights[6],
            h = in(zmm_reg) weights[7],
            factors = in(zmm_reg) factors,
            x = in(reg) &x[0].words[8 * part],
            row = const size_of::<Q8K>(),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    [s0, s1, s2, s3]
}

/// Adds part number `part` of Q4_K or Q5_K to the integers of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add_nibbles1(
    mut sum: __m512i,
    weights: &[__m512i; 8],
    factors: __m512i,
    x: &Q8K,
    part: usize,
) -> __m512i {
    // SAFETY: the instructions are there, and so are the words.
    unsafe {
        asm!(
            one!("vpxord {d", "}, {d", "}, {d", "}"),
            multiply8!(one),
            add_integers!(one),
            s0 = inout(zmm_reg) sum,
            d0 = out(zmm_reg) _,
            a = in(zmm_reg) weights[0],
            b = in(zmm_reg) weights[1],
            c = in(zmm_reg) weights[2],
            d = in(zmm_reg) weights[3],
            e = in(zmm_reg) weights[4],
            f = in(zmm_reg) weights[5],
            g = in(zmm_reg) weights[6],
            h = in(zmm_reg) weights[7],
            factors = in(zmm_reg) factors,
            x = in(reg) &x.words[8 * part],
            row = const size_of::<Q8K>(),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    sum
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
    let [mut s0, mut s1, mut s2, mut s3] = sums;
    // SAFETY: the instructions are there, and so are four rows of words and starts.
    unsafe {
        asm!(
            four!("vpbroadcastd {d", "}, dword ptr [{start} + ", "*{row}]"),
            multiply4!(four),
            add_integers!(four),
            s0 = inout(zmm_reg) s0,
            s1 = inout(zmm_reg) s1,
            s2 = inout(zmm_reg) s2,
            s3 = inout(zmm_reg) s3,
            d0 = out(zmm_reg) _,
            d1 = out(zmm_reg) _,
            d2 = out(zmm_reg) _,
            d3 = out(zmm_reg) _,
            a = in(zmm_reg) weights[0],
            b = in(zmm_reg) weights[1],
            c = in(zmm_reg) weights[2],
            d = in(zmm_reg) weights[3],
            factors = in(zmm_reg) factors,
            x = in(reg) &x[0].words[4 * part],
            start = in(reg) &x[0].of_six_bits[part],
            row = const size_of::<Q8K>(),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    [s0, s1, s2, s3]
}

/// Adds part number `part` of Q6_K to the integers of a row.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) fn add_six_bits1(
    mut sum: __m512i,
    weights: &[__m512i; 4],
    factors: __m512i,
    x: &Q8K,
    part: usize,
) -> __m512i {
    // SAFETY: the instructions are there, and so are words and start.
    unsafe {
        asm!(
            one!("vpbroadcastd {d", "}, dword ptr [{start} + ", "*{row}]"),
            multiply4!(one),
            add_integers!(one),
            s0 = inout(zmm_reg) sum,
            d0 = out(zmm_reg) _,
            a = in(zmm_reg) weights[0],
            b = in(zmm_reg) weights[1],
            c = in(zmm_reg) weights[2],
            d = in(zmm_reg) weights[3],
            factors = in(zmm_reg) factors,
            x = in(reg) &x.words[4 * part],
            start = in(reg) &x.of_six_bits[part],
            row = const size_of::<Q8K>(),
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    sum
}
