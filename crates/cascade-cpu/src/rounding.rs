//! Makes activations of rows of f32: cuts them into blocks, and rounds them to what the kernels of
//! a format read.

use half::bf16;

use crate::activations::{ActivationKind, Activations, Q8, Q8K, Values, scale_of, usable};
use crate::kernels::Wide;
use crate::threads::map;
use crate::{Isa, threads, vectorized};

/// Estimated single-thread time in ns of rounding `values`.
fn duration(values: usize) -> usize {
    values * 2 / 5
}

/// Turns `[rows, inputs]` into blocks of at most `most` rows. Inputs are padded with zeros.
/// Which instructions do it makes no difference to the bits.
pub(crate) fn round_rows(
    isa: Isa,
    input: &[f32],
    inputs: usize,
    kind: ActivationKind,
    most: usize,
) -> Activations {
    let rows = input.len() / inputs;
    let blocks = even_blocks(rows, most);
    let steps = inputs.div_ceil(kind.step());
    let order = Order {
        input,
        inputs,
        blocks: &blocks,
        steps,
    };
    let values = match kind {
        ActivationKind::F32 => Values::F32(order.map([0.0; 32], |step: &[f32; 32]| *step)),
        ActivationKind::BF16 => Values::BF16(order.map([0; 16], pairs)),
        ActivationKind::Rounded => Values::F32(order.map([0.0; 32], rounded)),
        ActivationKind::Q8 => Values::Q8(match Wide::of(isa) {
            Some(wide) => order.map(Q8::default(), |step| wide.q8(step)),
            None => order.map(Q8::default(), q8),
        }),
        ActivationKind::Q8K => Values::Q8K(match Wide::of(isa) {
            Some(wide) => order.map(Q8K::default(), |step| wide.q8_k(step)),
            None => order.map(Q8K::default(), q8_k),
        }),
    };
    Activations {
        values,
        blocks,
        steps,
    }
}

/// The sizes of blocks of at most `most` rows that so many rows make.
fn even_blocks(rows: usize, most: usize) -> Vec<usize> {
    let count = rows.div_ceil(most);
    let end = |block: usize| rows * block / count;
    (0..count)
        .map(|block| end(block + 1) - end(block))
        .collect()
}

/// In which order the steps of rows lie.
struct Order<'a> {
    input: &'a [f32],
    inputs: usize,
    blocks: &'a [usize],
    steps: usize,
}

impl Order<'_> {
    /// What `make` turns each step into, with several threads if that is worth it.
    fn map<T, const N: usize>(&self, empty: T, make: impl Fn(&[f32; N]) -> T + Sync) -> Vec<T>
    where
        T: Clone + Send,
    {
        let rows: usize = self.blocks.iter().sum();
        let mut made = vec![empty; rows * self.steps];
        let (mut to, mut from) = (&mut made[..], self.input);
        let blocks = self.blocks.iter().map(|&rows| {
            let (block, rest) = from.split_at(rows * self.inputs);
            from = rest;
            let (made, rest) = std::mem::take(&mut to).split_at_mut(rows * self.steps);
            to = rest;
            (rows, block, made)
        });
        let threads = threads::waiting_threads(duration(self.input.len()));
        // As many pieces as threads take in turn.
        let pieces = if threads > 1 { 4 * threads } else { 1 };
        let share = (self.blocks.len() * self.steps).div_ceil(pieces).max(1);
        let fill = |(rows, block, first, made): (usize, &[f32], usize, &mut [T])| {
            vectorized(
                #[inline(always)]
                || self.fill(rows, block, first, made, &make),
            );
        };
        let pieces = blocks.flat_map(|(rows, block, made)| {
            let pieces = made.chunks_mut(rows * share).enumerate();
            pieces.map(move |(piece, made)| (rows, block, piece * share, made))
        });
        map(threads, pieces.collect(), fill);
        made
    }

    /// The steps of a block of rows, from the `first` on.
    #[inline(always)]
    fn fill<T, const N: usize>(
        &self,
        rows: usize,
        block: &[f32],
        first: usize,
        made: &mut [T],
        make: impl Fn(&[f32; N]) -> T,
    ) {
        let starts = (first * N..self.inputs).step_by(N);
        for (start, made) in starts.zip(made.chunks_exact_mut(rows)) {
            for (made, row) in made.iter_mut().zip(block.chunks_exact(self.inputs)) {
                *made = match row[start..].first_chunk::<N>() {
                    Some(step) => make(step),
                    None => {
                        let mut padded = [0.0; N];
                        padded[..row.len() - start].copy_from_slice(&row[start..]);
                        make(&padded)
                    }
                };
            }
        }
    }
}

#[inline(always)]
fn rounded(step: &[f32; 32]) -> [f32; 32] {
    step.map(
        #[inline(always)]
        |value| f32::from_bits(u32::from(round(value)) << 16),
    )
}

#[inline(always)]
fn pairs(step: &[f32; 32]) -> [u32; 16] {
    let rounded = step.map(
        #[inline(always)]
        |value| u32::from(round(value)),
    );
    std::array::from_fn(
        #[inline(always)]
        |i| rounded[2 * i] | rounded[2 * i + 1] << 16,
    )
}

/// To the nearest bf16, ties to even; [`bf16::from_f32`] without branches.
#[inline(always)]
fn round(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16;
    if value.is_nan() {
        bf16::NAN.to_bits()
    } else {
        rounded
    }
}

/// The greatest magnitude; NaN is greater than all. Magnitudes are in the order of their bits.
#[inline(always)]
fn greatest<const N: usize>(values: &[f32; N]) -> f32 {
    let mut lanes = [0u32; 16];
    for values in values.as_chunks::<16>().0 {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = (*lane).max(value.to_bits() & 0x7fff_ffff);
        }
    }
    f32::from_bits(lanes.into_iter().fold(0, u32::max))
}

/// The scale of the integers -127 to 127 is a 127th of the greatest magnitude. Values that are not
/// finite make the scale NaN, and so whatever is computed with it.
#[inline(always)]
fn q8(step: &[f32; 32]) -> Q8 {
    let (scale, inverse) = scale_of(greatest(step));
    let (words, [first, second]) = integers(step, inverse);
    Q8::new(words, usable(scale, inverse), first + second)
}

#[inline(always)]
fn q8_k(step: &[f32; 256]) -> Q8K {
    let (scale, inverse) = scale_of(greatest(step));
    let (words, sums) = integers(step, inverse);
    Q8K::new(words, usable(scale, inverse), sums)
}

/// The integers nearest to `N` values times `inverse`, ties to even, in words of four, and their
/// sums by 16.
#[inline(always)]
fn integers<const N: usize, const WORDS: usize, const SUMS: usize>(
    values: &[f32; N],
    inverse: f32,
) -> ([i32; WORDS], [i32; SUMS]) {
    // Adding and subtracting this leaves an integer.
    const MAGIC: f32 = 12_582_912.0;
    let mut rounded = [0i8; N];
    for (rounded, value) in rounded.iter_mut().zip(values) {
        let shifted = value * inverse + MAGIC;
        *rounded = (shifted.to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32) as i8;
    }
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(rounded.as_chunks::<4>().0) {
        *word = i32::from_le_bytes(bytes.map(|byte| byte as u8));
    }
    let mut sums = [0; SUMS];
    for (sum, values) in sums.iter_mut().zip(rounded.as_chunks::<16>().0) {
        *sum = values.iter().map(|&value| i32::from(value)).sum();
    }
    (words, sums)
}
