//! `mma.m16n8k16`: tile products, as they are distributed over the lanes of a warp.

use half::f16;

use crate::instruction::Half;
use crate::lanes::WARP;

type Lanes = [u32; WARP];

const ROWS: usize = 16;
const COLUMNS: usize = 8;
const DEPTH: usize = 16;

fn halves(half: Half, word: u32) -> [f32; 2] {
    match half {
        Half::BF16 => [word << 16, word & 0xffff_0000].map(f32::from_bits),
        Half::F16 => [word, word >> 16].map(|bits| f16::from_bits(bits as u16).to_f32()),
    }
}

/// c + a · b. Lane 4 · i + j holds row i of a and c and column i of b, at position j along the
/// other dimension: words of a are the quarters (row, row + 8) by (column, column + 8), those of b
/// the halves of the depth; those of c and d two neighbours of a row, and two of row + 8.
pub(crate) fn multiply(half: Half, a: [Lanes; 4], b: [Lanes; 2], c: [Lanes; 4]) -> [Lanes; 4] {
    let numbers = |word| halves(half, word);
    let mut left = [[0f32; DEPTH]; ROWS];
    // By depth first, so that a row of the result is one vector.
    let mut right = [[0f32; COLUMNS]; DEPTH];
    for lane in 0..WARP {
        let (row, place) = (lane / 4, lane % 4 * 2);
        for (quarter, words) in a.iter().enumerate() {
            let (row, column) = (row + quarter % 2 * 8, place + quarter / 2 * 8);
            left[row][column..column + 2].copy_from_slice(&numbers(words[lane]));
        }
        for (upper, words) in b.iter().enumerate() {
            let [first, second] = numbers(words[lane]);
            right[place + upper * 8][row] = first;
            right[place + upper * 8 + 1][row] = second;
        }
    }
    let mut d = c;
    for (row, of_row) in left.iter().enumerate() {
        let mut sums = [0f32; COLUMNS];
        for (x, column) in of_row.iter().zip(&right) {
            for (sum, y) in sums.iter_mut().zip(column) {
                *sum += x * y;
            }
        }
        for (column, sum) in sums.into_iter().enumerate() {
            let (lane, word) = (row % 8 * 4 + column / 2, row / 8 * 2 + column % 2);
            d[word][lane] = (f32::from_bits(c[word][lane]) + sum).to_bits();
        }
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition (PTX ISA, "Matrix Fragments for mma.m16n8k16"), element by element.
    #[test]
    fn tiles_are_spread_over_lanes_as_the_instruction_says() {
        check(Half::BF16, |number| half::bf16::from_f32(number).to_bits());
        check(Half::F16, |number| f16::from_f32(number).to_bits());
    }

    fn check(half: Half, bits: fn(f32) -> u16) {
        let number = |value: usize| u32::from(bits(value as f32));
        let pair = |low: usize, high: usize| number(low) | number(high) << 16;
        // Element (row, column) of a is 1 + row + 3 · column; of b 2 + 5 · row + column. All are
        // exact in both.
        let a_at = |row: usize, column: usize| 1 + row + 3 * column;
        let b_at = |row: usize, column: usize| 2 + 5 * row + column;
        let (mut a, mut b) = ([[0; WARP]; 4], [[0; WARP]; 2]);
        for lane in 0..WARP {
            let (group, in_group) = (lane >> 2, lane % 4);
            // a0, a1: row group; a2, a3: row group + 8; a4, a5 and a6, a7: the same, eight columns
            // on.
            for (i, words) in a.iter_mut().enumerate() {
                let row = if i == 0 || i == 2 { group } else { group + 8 };
                let column = in_group * 2 + if i < 2 { 0 } else { 8 };
                words[lane] = pair(a_at(row, column), a_at(row, column + 1));
            }
            for (i, words) in b.iter_mut().enumerate() {
                let row = in_group * 2 + i * 8;
                words[lane] = pair(b_at(row, group), b_at(row + 1, group));
            }
        }
        let c = [[100f32.to_bits(); WARP]; 4];
        let d = multiply(half, a, b, c);
        for lane in 0..WARP {
            for (i, words) in d.iter().enumerate() {
                let row = lane / 4 + if i < 2 { 0 } else { 8 };
                let column = lane % 4 * 2 + i % 2;
                let sum: usize = (0..DEPTH).map(|k| a_at(row, k) * b_at(k, column)).sum();
                assert_eq!(f32::from_bits(words[lane]), (100 + sum) as f32);
            }
        }
    }
}
