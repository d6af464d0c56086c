//! The reference: what each product is.
//!
//! * Floats: `sum = fma(x, w, sum)` for each input in turn. In bf16, of each pair of inputs the
//!   second comes first, as in the instructions of CPUs.
//! * Blocks: an integer for each block, exact, then `sum = fma(integer, scale of the weights *
//!   scale of the activations, sum)` for each block in turn; in Q2_K, Q4_K and Q5_K what minima
//!   take is subtracted after it in the same way, and in Q4_1 and Q5_1 what they give is added.

use super::{Bf16, Kernels, Sums};
use crate::activations::{Q8, Q8K};
use crate::format::{
    F32_STEP, HALF_STEP, Q2K_FACTORS, Q2K_MINIMA, Q2K_STEP, Q4_0_STEP, Q4_1_STEP, Q4K_FACTORS,
    Q4K_MINIMA, Q4K_STEP, Q4K_WEIGHTS, Q5_1_STEP, Q5K_STEP, Q6K_FACTORS, Q6K_STEP, Q8_0_STEP,
    TABLE_STEP, TABLES, WIDTH,
};
use crate::packed::{five_bits_at, single_at, six_bits_at, two_bits_at};
use half::f16;

pub(super) static KERNELS: Kernels = Kernels {
    f32: floats::<F32_STEP>,
    f16: floats::<HALF_STEP>,
    bf16: Bf16::Pairs(bf16),
    q8_0,
    q4_0,
    q4_1: with_minimum::<Q4_1_STEP>,
    q5_1: with_minimum::<Q5_1_STEP>,
    iq4: of_table::<0>,
    mxfp4: of_table::<1>,
    q2k: sixteens::<Q2K_STEP>,
    q4k: with_minima::<Q4K_STEP>,
    q5k: with_minima::<Q5K_STEP>,
    q6k: sixteens::<Q6K_STEP>,
    most: (16, 16, 16),
};

/// Calls a function for each step, row and output in turn.
fn each<X>(
    (panel, step): (&[u8], usize),
    x: &[X],
    sums: &mut [Sums],
    add: impl Fn(&[u8], &X, usize, &mut f32),
) {
    let steps = panel.chunks_exact(step).zip(x.chunks_exact(sums.len()));
    for (step, x) in steps {
        for (x, sums) in x.iter().zip(sums.iter_mut()) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                add(step, x, lane, sum);
            }
        }
    }
}

fn half_at(bytes: &[u8], index: usize) -> f32 {
    f16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]).to_f32()
}

fn floats<const STEP: usize>(panel: &[u8], x: &[[f32; 32]], sums: &mut [Sums]) {
    sums.fill([0.0; WIDTH]);
    each((panel, STEP), x, sums, |step, x, lane, sum| {
        for (i, x) in x.iter().enumerate() {
            let at = i * WIDTH + lane;
            let weight = match STEP {
                HALF_STEP => half_at(step, at),
                _ => single_at(step, at),
            };
            *sum = x.mul_add(weight, *sum);
        }
    });
}

pub(super) fn bf16(panel: &[u8], x: &[[u32; 16]], sums: &mut [Sums]) {
    sums.fill([0.0; WIDTH]);
    each((panel, HALF_STEP), x, sums, |step, x, lane, sum| {
        for (i, x) in x.iter().enumerate() {
            let at = 4 * (i * WIDTH + lane);
            let pair = u32::from_le_bytes([0, 1, 2, 3].map(|byte| step[at + byte]));
            let (first, second) = (|pair: u32| pair << 16, |pair: u32| pair & 0xffff_0000);
            *sum = f32::from_bits(second(*x)).mul_add(f32::from_bits(second(pair)), *sum);
            *sum = f32::from_bits(first(*x)).mul_add(f32::from_bits(first(pair)), *sum);
        }
    });
}

/// The `i`th of the integers in words of four.
fn integer(words: &[i32], i: usize) -> i32 {
    i32::from((words[i / 4] >> (8 * (i % 4))) as i8)
}

/// The `i`th of 32 weights of 4 bits.
fn nibble(packed: &[u8], lane: usize, i: usize) -> i32 {
    let byte = packed[i / 8 * 4 * WIDTH + 4 * lane + i % 4];
    i32::from(byte >> (i / 4 % 2 * 4) & 15)
}

fn q8_0(panel: &[u8], x: &[Q8], sums: &mut [Sums]) {
    sums.fill([0.0; WIDTH]);
    each((panel, Q8_0_STEP), x, sums, |step, x, lane, sum| {
        let weight = |i: usize| {
            let byte = step[2 * WIDTH + i / 4 * 4 * WIDTH + 4 * lane + i % 4];
            i32::from((byte ^ 0x80) as i8)
        };
        let dot: i32 = (0..32).map(|i| weight(i) * integer(&x.words, i)).sum();
        *sum = (dot as f32).mul_add(half_at(step, lane) * x.scale, *sum);
    });
}

fn q4_0(panel: &[u8], x: &[Q8], sums: &mut [Sums]) {
    sums.fill([0.0; WIDTH]);
    each((panel, Q4_0_STEP), x, sums, |step, x, lane, sum| {
        let weight = |i: usize| nibble(&step[2 * WIDTH..], lane, i) - 8;
        let dot: i32 = (0..32).map(|i| weight(i) * integer(&x.words, i)).sum();
        *sum = (dot as f32).mul_add(half_at(step, lane) * x.scale, *sum);
    });
}

/// Q4_1 and Q5_1.
fn with_minimum<const STEP: usize>(panel: &[u8], x: &[Q8], sums: &mut [Sums]) {
    sums.fill([0.0; WIDTH]);
    each((panel, STEP), x, sums, |step, x, lane, sum| {
        let weight = |i: usize| match STEP {
            Q4_1_STEP => nibble(&step[4 * WIDTH..], lane, i),
            _ => i32::from(five_bits_at(&step[4 * WIDTH..], lane, i)),
        };
        let dot: i32 = (0..32).map(|i| weight(i) * integer(&x.words, i)).sum();
        *sum = (dot as f32).mul_add(half_at(step, lane) * x.scale, *sum);
        *sum = half_at(step, WIDTH + lane).mul_add(x.of_minima, *sum);
    });
}

fn of_table<const TABLE: usize>(panel: &[u8], x: &[Q8], sums: &mut [Sums]) {
    sums.fill([0.0; WIDTH]);
    each((panel, TABLE_STEP), x, sums, |step, x, lane, sum| {
        let code = |i: usize| nibble(&step[4 * WIDTH..], lane, i) as usize;
        let weight = |i: usize| i32::from(TABLES[TABLE][code(i)]);
        let dot: i32 = (0..32).map(|i| weight(i) * integer(&x.words, i)).sum();
        *sum = (dot as f32).mul_add(single_at(step, lane) * x.scale, *sum);
    });
}

fn with_minima<const STEP: usize>(panel: &[u8], x: &[Q8K], sums: &mut [Sums]) {
    sums.fill([0.0; WIDTH]);
    each((panel, STEP), x, sums, |step, x, lane, sum| {
        let (mut dot, mut least) = (0, 0);
        for part in 0..8 {
            let weights = &step[Q4K_WEIGHTS + part * (STEP - Q4K_WEIGHTS) / 8..];
            let weight = |i: usize| match STEP {
                Q4K_STEP => nibble(weights, lane, i),
                _ => i32::from(five_bits_at(weights, lane, i)),
            };
            let words = &x.words[8 * part..];
            let of_part: i32 = (0..32).map(|i| weight(i) * integer(words, i)).sum();
            let factor = step[Q4K_FACTORS + part * WIDTH + lane];
            dot += i32::from(factor) * of_part;
            let minimum = step[Q4K_MINIMA + part / 2 * 2 * WIDTH + 2 * lane + part % 2];
            let of_x = (x.pairs[part / 2] >> (16 * (part % 2))) as i16;
            least += i32::from(minimum) * i32::from(of_x);
        }
        *sum = (dot as f32).mul_add(half_at(step, lane) * x.scale, *sum);
        let scale = half_at(step, WIDTH + lane) * x.scale;
        *sum = (-(least as f32)).mul_add(scale, *sum);
    });
}

/// Q2_K and Q6_K.
fn sixteens<const STEP: usize>(panel: &[u8], x: &[Q8K], sums: &mut [Sums]) {
    sums.fill([0.0; WIDTH]);
    each((panel, STEP), x, sums, |step, x, lane, sum| {
        let (mut dot, mut least) = (0, 0);
        for part in 0..16 {
            let weight = |i: usize| match STEP {
                Q2K_STEP => i32::from(two_bits_at(step, part, lane, i)),
                _ => i32::from(six_bits_at(step, part, lane, i)) - 32,
            };
            let words = &x.words[4 * part..];
            let of_part: i32 = (0..16).map(|i| weight(i) * integer(words, i)).sum();
            let factors = if STEP == Q2K_STEP {
                Q2K_FACTORS
            } else {
                Q6K_FACTORS
            };
            dot += i32::from(step[factors + part * WIDTH + lane] as i8) * of_part;
            if STEP == Q2K_STEP {
                least += i32::from(step[Q2K_MINIMA + part * WIDTH + lane]) * x.of_six_bits[part];
            }
        }
        *sum = (dot as f32).mul_add(half_at(step, lane) * x.scale, *sum);
        if STEP == Q2K_STEP {
            // 32 times the integers, whose sign is turned already.
            let scale = half_at(step, WIDTH + lane) * (x.scale / 32.0);
            *sum = (least as f32).mul_add(scale, *sum);
        }
    });
}
