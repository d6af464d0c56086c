//! Weights of a linear map, in the order in which kernels read them.

use std::io;

use half::f16;
use memmap2::MmapMut;
use rayon::prelude::*;

use crate::format::{
    Format, IQ4, MXFP4, Q2K_FACTORS, Q2K_MINIMA, Q2K_PART, Q2K_WEIGHTS, Q4K_FACTORS, Q4K_MINIMA,
    Q4K_PART, Q4K_WEIGHTS, Q5K_PART, Q6K_FACTORS, Q6K_PART, Q6K_WEIGHTS, WIDTH,
};

/// A matrix `[outputs, inputs]` in one [`Format`], in panels of 16 outputs: what files have in the
/// rows of those outputs lies step by step side by side, so that a product reads memory from front
/// to back, and never sums across a vector. Nothing is rounded; what is padded is zeros.
pub struct Packed {
    format: Format,
    inputs: usize,
    outputs: usize,
    panels: MmapMut,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Packed({} [{}, {}])",
            self.format, self.outputs, self.inputs
        )
    }
}

impl Packed {
    /// Takes rows as files have them, `outputs` times `inputs / block_values` blocks,
    /// little-endian.
    ///
    /// # Errors
    /// If there is no memory for them.
    ///
    /// # Panics
    /// If a row has no whole blocks, or there are no whole rows.
    pub fn from_blocks(format: Format, blocks: &[u8], inputs: usize) -> io::Result<Self> {
        let row = row_bytes(format, inputs);
        assert!(
            blocks.len().is_multiple_of(row),
            "a weight without whole rows"
        );
        Self::from_rows(format, inputs, blocks.len() / row, |output, bytes| {
            bytes.copy_from_slice(&blocks[output * row..][..row]);
        })
    }

    /// Takes rows from whoever writes them, as files have them, in any order and on several
    /// threads; no more than one for each thread is in memory.
    ///
    /// # Errors
    /// If there is no memory for them.
    ///
    /// # Panics
    /// If a row has no whole blocks.
    pub fn from_rows(
        format: Format,
        inputs: usize,
        outputs: usize,
        row: impl Fn(usize, &mut [u8]) + Sync,
    ) -> io::Result<Self> {
        let bytes = row_bytes(format, inputs);
        let panel = inputs.div_ceil(format.step()) * format.step_bytes();
        let mut panels = zeros(outputs.div_ceil(WIDTH) * panel)?;
        let rows_of = |panel: usize| panel * WIDTH..outputs.min((panel + 1) * WIDTH);
        if panel > 0 {
            panels
                .par_chunks_exact_mut(panel)
                .enumerate()
                .for_each_init(
                    || vec![0; bytes],
                    |scratch, (number, panel)| {
                        for (lane, output) in rows_of(number).enumerate() {
                            row(output, scratch);
                            pack_row(format, panel, lane, scratch);
                        }
                    },
                );
        }
        Ok(Self {
            format,
            inputs,
            outputs,
            panels,
        })
    }

    /// How weights are stored.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Length of a row.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Number of rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Bytes that a product reads.
    pub fn bytes(&self) -> usize {
        self.outputs.div_ceil(WIDTH) * self.panel_bytes()
    }

    /// The panels, each of as many bytes.
    pub(crate) fn panels(&self) -> &[u8] {
        &self.panels[..self.bytes()]
    }

    pub(crate) fn panel_bytes(&self) -> usize {
        self.inputs.div_ceil(self.format.step()) * self.format.step_bytes()
    }

    /// The weights of an output, as the format defines them.
    ///
    /// # Panics
    /// If there is no such output, or the row has another length.
    pub fn read_row(&self, output: usize, row: &mut [f32]) {
        assert!(output < self.outputs, "a row that is not there");
        assert_eq!(row.len(), self.inputs, "a row of another length");
        let panel = &self.panels()[output / WIDTH * self.panel_bytes()..][..self.panel_bytes()];
        let steps = panel.chunks_exact(self.format.step_bytes());
        for (row, step) in row.chunks_mut(self.format.step()).zip(steps) {
            for (i, value) in row.iter_mut().enumerate() {
                *value = value_at(self.format, step, output % WIDTH, i);
            }
        }
    }
}

/// The weights of a row, or of any blocks one after the other, as files have them: what
/// [`Packed::read_row`] gives of the same row.
///
/// # Panics
/// If there are not as many values.
pub fn dequantize(format: Format, blocks: &[u8], values: &mut [f32]) {
    assert_eq!(
        blocks.len(),
        row_bytes(format, values.len()),
        "values for other blocks"
    );
    let of_step = format.step() / format.block_values() * format.block_bytes();
    let mut step = vec![0; format.step_bytes()];
    for (blocks, values) in blocks.chunks(of_step).zip(values.chunks_mut(format.step())) {
        step.fill(0);
        pack_row(format, &mut step, 0, blocks);
        for (i, value) in values.iter_mut().enumerate() {
            *value = value_at(format, &step, 0, i);
        }
    }
}

/// Memory of its own pages, large ones where the system has them.
fn zeros(bytes: usize) -> io::Result<MmapMut> {
    let memory = MmapMut::map_anon(bytes.max(1))?;
    // Fewer of its pages fit the CPU's table otherwise. It is no loss if they are refused.
    #[cfg(target_os = "linux")]
    if bytes >= 1 << 21 {
        let _ = memory.advise(memmap2::Advice::HugePage);
    }
    Ok(memory)
}

fn row_bytes(format: Format, inputs: usize) -> usize {
    let values = format.block_values();
    assert!(inputs.is_multiple_of(values), "rows without whole blocks");
    inputs / values * format.block_bytes()
}

/// Copies the `index`th number of two bytes.
fn put2(to: &mut [u8], index: usize, from: &[u8]) {
    to[2 * index..2 * index + 2].copy_from_slice(&from[..2]);
}

fn half_at(bytes: &[u8], index: usize) -> f32 {
    f16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]).to_f32()
}

pub(crate) fn single_at(bytes: &[u8], index: usize) -> f32 {
    f32::from_le_bytes(std::array::from_fn(|byte| bytes[4 * index + byte]))
}

/// Puts the row of an output into its place in a panel.
fn pack_row(format: Format, panel: &mut [u8], lane: usize, row: &[u8]) {
    let blocks = row.chunks_exact(format.block_bytes());
    let pack_block: fn(&mut [u8], usize, &[u8]) = match format {
        Format::F32 => {
            for (to, value) in panel.chunks_exact_mut(4 * WIDTH).zip(blocks) {
                to[4 * lane..4 * lane + 4].copy_from_slice(value);
            }
            return;
        }
        Format::F16 => {
            for (to, value) in panel.chunks_exact_mut(2 * WIDTH).zip(blocks) {
                put2(to, lane, value);
            }
            return;
        }
        Format::BF16 => {
            for (to, pair) in panel.chunks_exact_mut(4 * WIDTH).zip(row.chunks(4)) {
                to[4 * lane..4 * lane + pair.len()].copy_from_slice(pair);
            }
            return;
        }
        Format::Q8_0 => pack_q8_0,
        Format::Q4_0 => pack_q4_0,
        Format::Q4_1 => pack_q4_1,
        Format::Q5_1 => pack_q5_1,
        Format::Iq4 => |step, lane, block| pack_codes(step, lane, &block[..4], &block[4..]),
        Format::Mxfp4 => |step, lane, block| {
            pack_codes(step, lane, &power(block[0]).to_le_bytes(), &block[1..]);
        },
        Format::Q2K => pack_q2k,
        Format::Q4K => pack_q4k,
        Format::Q5K => pack_q5k,
        Format::Q6K => pack_q6k,
    };
    let steps = panel.chunks_exact_mut(format.step_bytes());
    for (step, block) in steps.zip(blocks) {
        pack_block(step, lane, block);
    }
}

fn pack_q8_0(step: &mut [u8], lane: usize, block: &[u8]) {
    put2(step, lane, block);
    for (i, &q) in block[2..].iter().enumerate() {
        step[2 * WIDTH + word(i, lane)] = q ^ 0x80;
    }
}

fn pack_q4_0(step: &mut [u8], lane: usize, block: &[u8]) {
    put2(step, lane, block);
    put_nibbles(&mut step[2 * WIDTH..], lane, |i| nibble(&block[2..], i));
}

fn pack_q4_1(step: &mut [u8], lane: usize, block: &[u8]) {
    put2(step, lane, block);
    put2(&mut step[2 * WIDTH..], lane, &block[2..]);
    put_nibbles(&mut step[4 * WIDTH..], lane, |i| nibble(&block[4..], i));
}

fn pack_q5_1(step: &mut [u8], lane: usize, block: &[u8]) {
    put2(step, lane, block);
    put2(&mut step[2 * WIDTH..], lane, &block[2..]);
    let (highs, weights) = block[4..].split_at(4);
    let to = &mut step[4 * WIDTH..];
    put_nibbles(to, lane, |i| nibble(weights, i));
    for i in 0..32 {
        to[Q4K_PART + 4 * lane + i % 4] |= (highs[i / 8] >> (i % 8) & 1) << (i / 4);
    }
}

fn pack_codes(step: &mut [u8], lane: usize, scale: &[u8], codes: &[u8]) {
    step[4 * lane..4 * lane + 4].copy_from_slice(scale);
    put_nibbles(&mut step[4 * WIDTH..], lane, |i| nibble(codes, i));
}

/// What the integers of a block of MXFP4 are multiplied with: 2 to the power of its first byte,
/// less 128.
fn power(exponent: u8) -> f32 {
    match exponent {
        0 | 1 => f32::from_bits(0x0020_0000 << exponent),
        _ => f32::from_bits((u32::from(exponent) - 1) << 23),
    }
}

fn pack_q2k(step: &mut [u8], lane: usize, block: &[u8]) {
    let (scales, rest) = block.split_at(16);
    let (packed, rest) = rest.split_at(64);
    put2(step, lane, rest);
    put2(&mut step[2 * WIDTH..], lane, &rest[2..]);
    for (part, &scale) in scales.iter().enumerate() {
        step[Q2K_FACTORS + part * WIDTH + lane] = scale & 15;
        step[Q2K_MINIMA + part * WIDTH + lane] = scale >> 4;
    }
    for i in 0..256 {
        let q = packed[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        let to = &mut step[Q2K_WEIGHTS + i / 16 * Q2K_PART..];
        to[4 * lane + i % 4] |= q << (i % 16 / 4 * 2);
    }
}

fn pack_q4k(step: &mut [u8], lane: usize, block: &[u8]) {
    put_scales(step, lane, block);
    for part in 0..8 {
        let to = &mut step[Q4K_WEIGHTS + part * Q4K_PART..];
        put_nibbles(to, lane, |i| k_nibble(&block[16..], part, i));
    }
}

fn pack_q5k(step: &mut [u8], lane: usize, block: &[u8]) {
    put_scales(step, lane, block);
    let (highs, weights) = block[16..].split_at(32);
    for part in 0..8 {
        let to = &mut step[Q4K_WEIGHTS + part * Q5K_PART..][..Q5K_PART];
        put_nibbles(to, lane, |i| k_nibble(weights, part, i));
        for (i, high) in highs.iter().enumerate() {
            to[Q4K_PART + 4 * lane + i % 4] |= (high >> part & 1) << (i / 4);
        }
    }
}

fn pack_q6k(step: &mut [u8], lane: usize, block: &[u8]) {
    let (lows, rest) = block.split_at(128);
    let (highs, rest) = rest.split_at(64);
    let (scales, scale) = rest.split_at(16);
    put2(step, lane, scale);
    let six_bits = |i: usize| {
        let (half, quarter, within) = (i / 128, i % 128 / 32, i % 32);
        let low = lows[64 * half + 32 * (quarter % 2) + within] >> (4 * (quarter / 2));
        let high = highs[32 * half + within] >> (2 * quarter) & 3;
        low & 15 | high << 4
    };
    for (part, &factor) in scales.iter().enumerate() {
        step[Q6K_FACTORS + part * WIDTH + lane] = factor;
        let to = &mut step[Q6K_WEIGHTS + part * Q6K_PART..][..Q6K_PART];
        for i in 0..16 {
            let q = six_bits(16 * part + i);
            to[word(i / 8 * 4 + i % 4, lane)] |= (q & 15) << (i / 4 % 2 * 4);
            to[8 * WIDTH + 4 * lane + i % 4] |= q >> 4 << (i / 4 * 2);
        }
    }
}

/// Puts what precedes the weights of Q4_K and Q5_K: scale and offset, and their factors.
fn put_scales(step: &mut [u8], lane: usize, block: &[u8]) {
    put2(step, lane, block);
    put2(&mut step[2 * WIDTH..], lane, &block[2..]);
    for part in 0..8 {
        let (scale, minimum) = scale_min(&block[4..16], part);
        step[Q4K_FACTORS + part * WIDTH + lane] = scale;
        step[Q4K_MINIMA + part / 2 * 2 * WIDTH + 2 * lane + part % 2] = minimum;
    }
}

/// The low 4 bits of the `i`th weight of a part, as Q4_K and Q5_K have them.
fn k_nibble(packed: &[u8], part: usize, i: usize) -> u8 {
    packed[32 * (part / 2) + i] >> (4 * (part % 2)) & 15
}

/// Where the `i`th byte of a lane lies among words of four.
fn word(i: usize, lane: usize) -> usize {
    i / 4 * 4 * WIDTH + 4 * lane + i % 4
}

/// The `i`th of 32 weights of 4 bits, as Q4_0 has them: low halves first.
fn nibble(packed: &[u8], i: usize) -> u8 {
    packed[i % 16] >> (i / 16 * 4) & 15
}

/// Packs 32 weights of 4 bits: of each 8, the first four are low halves.
fn put_nibbles(to: &mut [u8], lane: usize, weight: impl Fn(usize) -> u8) {
    for i in 0..32 {
        to[word(i / 8 * 4 + i % 4, lane)] |= weight(i) << (i / 4 % 2 * 4);
    }
}

fn nibble_at(packed: &[u8], lane: usize, i: usize) -> u8 {
    packed[word(i / 8 * 4 + i % 4, lane)] >> (i / 4 % 2 * 4) & 15
}

/// The `i`th of 8 scales and minima of 6 bits in 12 bytes.
fn scale_min(packed: &[u8], i: usize) -> (u8, u8) {
    match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (
            packed[i + 4] & 15 | packed[i - 4] >> 6 << 4,
            packed[i + 4] >> 4 | packed[i] >> 6 << 4,
        ),
    }
}

/// A weight as its format defines it, computed as `ggml-quants.c` does.
fn value_at(format: Format, step: &[u8], lane: usize, i: usize) -> f32 {
    let bits16 = |at: usize| u16::from_le_bytes([step[at], step[at + 1]]);
    let of_table = |table: [i8; 16]| {
        let code = nibble_at(&step[4 * WIDTH..], lane, i);
        single_at(step, lane) * f32::from(table[usize::from(code)])
    };
    match format {
        Format::F32 => single_at(step, i * WIDTH + lane),
        Format::F16 => half_at(step, i * WIDTH + lane),
        Format::BF16 => {
            let at = i / 2 * 4 * WIDTH + 4 * lane + i % 2 * 2;
            f32::from_bits(u32::from(bits16(at)) << 16)
        }
        Format::Q8_0 => {
            let q = step[2 * WIDTH + word(i, lane)] ^ 0x80;
            f32::from(q as i8) * half_at(step, lane)
        }
        Format::Q4_0 => {
            let q = nibble_at(&step[2 * WIDTH..], lane, i);
            (i32::from(q) - 8) as f32 * half_at(step, lane)
        }
        Format::Q4_1 | Format::Q5_1 => {
            let q = match format {
                Format::Q4_1 => nibble_at(&step[4 * WIDTH..], lane, i),
                _ => five_bits_at(&step[4 * WIDTH..], lane, i),
            };
            f32::from(q) * half_at(step, lane) + half_at(step, WIDTH + lane)
        }
        Format::Iq4 => of_table(IQ4),
        Format::Mxfp4 => of_table(MXFP4),
        Format::Q2K | Format::Q4K | Format::Q5K | Format::Q6K => of_256_at(format, step, lane, i),
    }
}

/// A weight of a block of 256.
fn of_256_at(format: Format, step: &[u8], lane: usize, i: usize) -> f32 {
    match format {
        Format::Q2K => {
            let at = i / 16 * WIDTH + lane;
            let (factor, minimum) = (step[Q2K_FACTORS + at], step[Q2K_MINIMA + at]);
            let scale = half_at(step, lane) * f32::from(factor);
            let offset = half_at(step, WIDTH + lane) * f32::from(minimum);
            scale * f32::from(two_bits_at(step, i / 16, lane, i % 16)) - offset
        }
        Format::Q4K | Format::Q5K => {
            let (part, within) = (i / 32, i % 32);
            let factor = step[Q4K_FACTORS + part * WIDTH + lane];
            let minimum = step[Q4K_MINIMA + part / 2 * 2 * WIDTH + 2 * lane + part % 2];
            let q = match format {
                Format::Q4K => nibble_at(&step[Q4K_WEIGHTS + part * Q4K_PART..], lane, within),
                _ => five_bits_at(&step[Q4K_WEIGHTS + part * Q5K_PART..], lane, within),
            };
            let scale = half_at(step, lane) * f32::from(factor);
            let offset = half_at(step, WIDTH + lane) * f32::from(minimum);
            scale * f32::from(q) - offset
        }
        _ => {
            let (part, within) = (i / 16, i % 16);
            let factor = step[Q6K_FACTORS + part * WIDTH + lane] as i8;
            let q = six_bits_at(step, part, lane, within);
            half_at(step, lane) * f32::from(factor) * (i32::from(q) - 32) as f32
        }
    }
}

/// The `i`th weight of a part of Q5_K, from 0 to 31.
pub(crate) fn five_bits_at(part: &[u8], lane: usize, i: usize) -> u8 {
    nibble_at(part, lane, i) | (part[Q4K_PART + 4 * lane + i % 4] >> (i / 4) & 1) << 4
}

/// The `i`th weight of a part of Q2_K, from 0 to 3.
pub(crate) fn two_bits_at(step: &[u8], part: usize, lane: usize, i: usize) -> u8 {
    step[Q2K_WEIGHTS + part * Q2K_PART + 4 * lane + i % 4] >> (i / 4 * 2) & 3
}

/// The `i`th weight of a part of Q6_K, from 0 to 63.
pub(crate) fn six_bits_at(step: &[u8], part: usize, lane: usize, i: usize) -> u8 {
    let packed = &step[Q6K_WEIGHTS + part * Q6K_PART..][..Q6K_PART];
    let low = packed[word(i / 8 * 4 + i % 4, lane)] >> (i / 4 % 2 * 4) & 15;
    let high = packed[8 * WIDTH + 4 * lane + i % 4] >> (i / 4 * 2) & 3;
    low | high << 4
}
