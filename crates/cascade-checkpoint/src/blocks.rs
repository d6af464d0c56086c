//! The ways in which GGUF packs numbers, and how they are unpacked.
//!
//! A row of a tensor is a sequence of blocks of 1, 32 or 256 values. Values come out as the
//! format defines them, bit for bit: as f32, computed in f32 in the order of llama.cpp's own
//! routines (`ggml-quants.c`), whose layout the comments follow.

use std::borrow::Cow;

use cascade_cpu::{Format, dequantize};
use half::{bf16, f16};
use rayon::prelude::*;

use crate::Result;
use crate::dtype::{DType, FloatType};
use crate::finite::{Named, ScaleType, Scales};

/// Values of a large block.
const SUPER: usize = 256;
/// Values of a small block.
const SMALL: usize = 32;
/// Values that a thread unpacks at a time.
const CHUNK: usize = 1 << 16;

/// How the values of a tensor are stored, numbered as in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum BlockType {
    F32 = 0,
    F16 = 1,
    BF16 = 30,
    F64 = 28,
    Q4_0 = 2,
    Q4_1 = 3,
    Q5_0 = 6,
    Q5_1 = 7,
    Q8_0 = 8,
    Q2K = 10,
    Q3K = 11,
    Q4K = 12,
    Q5K = 13,
    Q6K = 14,
    Iq4Nl = 20,
    Iq4Xs = 23,
    Mxfp4 = 39,
}

/// Types that are not read here, by their numbers.
const UNREAD: [(u32, &str); 24] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (29, "IQ1_M"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
    (40, "NVFP4"),
];

/// What is known of a type: its name in llama.cpp, values and bytes of a block, where a block has
/// its scales and what is taken from them, and the format that there are kernels for.
type Layout = (
    BlockType,
    &'static str,
    usize,
    usize,
    &'static [usize],
    Option<Format>,
);

/// All types.
#[rustfmt::skip]
const LAYOUTS: [Layout; 17] = [
    (BlockType::F32, "F32", 1, 4, &[], Some(Format::F32)),
    (BlockType::F16, "F16", 1, 2, &[], Some(Format::F16)),
    (BlockType::BF16, "BF16", 1, 2, &[], Some(Format::BF16)),
    (BlockType::F64, "F64", 1, 8, &[], None),
    (BlockType::Q4_0, "Q4_0", SMALL, 2 + 16, &[0], Some(Format::Q4_0)),
    (BlockType::Q4_1, "Q4_1", SMALL, 4 + 16, &[0, 2], Some(Format::Q4_1)),
    (BlockType::Q5_0, "Q5_0", SMALL, 2 + 4 + 16, &[0], None),
    (BlockType::Q5_1, "Q5_1", SMALL, 4 + 4 + 16, &[0, 2], Some(Format::Q5_1)),
    (BlockType::Q8_0, "Q8_0", SMALL, 2 + 32, &[0], Some(Format::Q8_0)),
    (BlockType::Q2K, "Q2_K", SUPER, 16 + 64 + 4, &[80, 82], Some(Format::Q2K)),
    (BlockType::Q3K, "Q3_K", SUPER, 32 + 64 + 12 + 2, &[108], None),
    (BlockType::Q4K, "Q4_K", SUPER, 4 + 12 + 128, &[0, 2], Some(Format::Q4K)),
    (BlockType::Q5K, "Q5_K", SUPER, 4 + 12 + 32 + 128, &[0, 2], Some(Format::Q5K)),
    (BlockType::Q6K, "Q6_K", SUPER, 128 + 64 + 16 + 2, &[208], Some(Format::Q6K)),
    (BlockType::Iq4Nl, "IQ4_NL", SMALL, 2 + 16, &[0], None),
    (BlockType::Iq4Xs, "IQ4_XS", SUPER, 2 + 2 + 4 + 128, &[0], None),
    (BlockType::Mxfp4, "MXFP4", SMALL, 1 + 16, &[0], Some(Format::Mxfp4)),
];

impl BlockType {
    /// The type of a number in a file; for one that is not read here, its name if it has one.
    pub(crate) fn of(number: u32) -> std::result::Result<Self, Option<&'static str>> {
        let known = LAYOUTS.iter().find(|(kind, ..)| kind.number() == number);
        let unread = || UNREAD.iter().find(|unread| unread.0 == number);
        known
            .map(|&(kind, ..)| kind)
            .ok_or_else(|| unread().map(|&(_, name)| name))
    }

    /// The number of the type in a file.
    pub(crate) fn number(self) -> u32 {
        self as u32
    }

    fn layout(self) -> &'static Layout {
        let found = LAYOUTS.iter().find(|(kind, ..)| *kind == self);
        // The table has all of them.
        found.unwrap_or(&LAYOUTS[0])
    }

    /// What llama.cpp calls it.
    pub(crate) fn name(self) -> &'static str {
        self.layout().1
    }

    /// Values of a block.
    pub(crate) fn values(self) -> usize {
        self.layout().2
    }

    /// Bytes of a block.
    pub(crate) fn bytes(self) -> usize {
        self.layout().3
    }

    /// The float that it is, if it packs nothing.
    pub(crate) fn as_float(self) -> Option<FloatType> {
        FloatType::named(self.name())
    }

    /// The format that there are kernels for, if it is one.
    pub(crate) fn format(self) -> Option<Format> {
        self.layout().5
    }

    /// The format of blocks that holds it without loss: its own, or one that it is
    /// [widened](Self::widened) to.
    pub(crate) fn as_blocks(self) -> Option<Format> {
        match self {
            Self::Q5_0 => Some(Format::Q8_0),
            Self::Iq4Nl | Self::Iq4Xs => Some(Format::Iq4),
            Self::Q3K => Some(Format::Q6K),
            _ if self.as_float().is_some() => None,
            _ => self.format(),
        }
    }

    /// Whether rows are, as they are, what they would be in memory in `dtype`.
    pub(crate) fn is_held_in(self, dtype: DType) -> bool {
        let in_floats = matches!(dtype, DType::F32 | DType::Stored);
        let format = self.format().or(self.as_blocks());
        in_floats && self.as_float().is_some() || format.is_some_and(|format| dtype.takes(format))
    }

    /// Refuses numbers and scales that are not finite. Costs one pass over the tensor.
    ///
    /// # Errors
    /// For the first of them.
    pub(crate) fn check(self, name: Named<'_>, bytes: &[u8], shape: &[usize]) -> Result<()> {
        match self.as_float() {
            Some(dtype) => name.check(dtype, bytes, shape),
            None => name.check_blocks(self.scales(), bytes, shape),
        }
    }

    /// Bytes of a row of whole blocks.
    pub(crate) fn row_bytes(self, inputs: usize) -> usize {
        inputs / self.values() * self.bytes()
    }

    /// The values of a row.
    pub(crate) fn read(self, row: &[u8], values: &mut [f32]) {
        match self.as_float() {
            Some(dtype) => values.copy_from_slice(&dtype.to_f32(row)),
            None => {
                let blocks = row.chunks_exact(self.bytes());
                for (block, values) in blocks.zip(values.chunks_exact_mut(self.values())) {
                    self.unpack_block(block, values);
                }
            }
        }
    }

    /// Where its blocks have what their values are multiplied with, and what is taken from those.
    pub(crate) fn scales(self) -> Scales {
        Scales {
            bytes: self.bytes(),
            values: self.values(),
            places: self.layout().4,
            stored_as: match self {
                Self::Mxfp4 => ScaleType::E8M0,
                _ => ScaleType::F16,
            },
        }
    }

    /// Bytes of a tensor of `sizes`, innermost first; nothing if a row is not made of whole blocks,
    /// a size is 0, or the bytes cannot be counted.
    pub(crate) fn bytes_of(self, sizes: &[u64]) -> Option<u64> {
        let (values, bytes) = (self.values() as u64, self.bytes() as u64);
        if !sizes.first()?.is_multiple_of(values) || sizes.contains(&0) {
            return None;
        }
        let count = sizes
            .iter()
            .try_fold(1, |count: u64, &size| count.checked_mul(size))?;
        // Values are unpacked into f32, and those are counted too.
        count
            .checked_mul(8)
            .filter(|&most| most <= isize::MAX as u64)?;
        (count / values).checked_mul(bytes)
    }

    /// The values of whole blocks, as little-endian f32.
    pub(crate) fn unpack(self, blocks: &[u8]) -> Vec<u8> {
        const F32: usize = size_of::<f32>();
        let count = blocks.len() / self.bytes() * self.values();
        let mut unpacked = vec![0; count * F32];
        let at_once = CHUNK / self.values();
        let chunks = unpacked
            .par_chunks_mut(at_once * self.values() * F32)
            .zip(blocks.par_chunks(at_once * self.bytes()));
        chunks.for_each_init(
            || vec![0.0; self.values()],
            |values, (unpacked, blocks)| {
                let unpacked = unpacked.chunks_exact_mut(self.values() * F32);
                for (block, unpacked) in blocks.chunks_exact(self.bytes()).zip(unpacked) {
                    self.unpack_block(block, values);
                    for (bytes, value) in unpacked.chunks_exact_mut(F32).zip(values.iter()) {
                        bytes.copy_from_slice(&value.to_le_bytes());
                    }
                }
            },
        );
        unpacked
    }

    /// Blocks in the format that [`as_blocks`](Self::as_blocks) gives, which has room for their
    /// scales and their integers.
    pub(crate) fn widened(self, blocks: &[u8]) -> Vec<u8> {
        let blocks = blocks.par_chunks_exact(self.bytes());
        blocks
            .flat_map_iter(|block| self.widen(block).into_owned())
            .collect()
    }

    fn widen(self, block: &[u8]) -> Cow<'_, [u8]> {
        Cow::Owned(match self {
            Self::Q3K => q6_k_of_q3_k(block),
            Self::Q5_0 => q8_0_of_q5_0(block),
            Self::Iq4Nl => [&half(block).to_le_bytes(), &block[2..]].concat(),
            Self::Iq4Xs => iq4_of_iq4_xs(block),
            _ => return Cow::Borrowed(block),
        })
    }

    fn unpack_block(self, block: &[u8], y: &mut [f32]) {
        match self {
            Self::F32 => y[0] = f32::from_le_bytes(head(block)),
            Self::F16 => y[0] = half(block),
            Self::BF16 => y[0] = bf16::from_le_bytes(head(block)).to_f32(),
            Self::F64 => y[0] = f64::from_le_bytes(head(block)) as f32,
            Self::Q4_0 => {
                let d = half(block);
                nibbles(&block[2..], y, |q| (i32::from(q) - 8) as f32 * d);
            }
            Self::Q8_0 => {
                let d = half(block);
                for (y, &q) in y.iter_mut().zip(&block[2..]) {
                    *y = f32::from(q as i8) * d;
                }
            }
            Self::Q4K => q4_k(block, y),
            Self::Q5K => q5_k(block, y),
            Self::Q6K => q6_k(block, y),
            _ => {
                // Of all others there are blocks.
                let format = self.as_blocks().unwrap_or(Format::F32);
                dequantize(format, &self.widen(block), y);
            }
        }
    }
}

impl From<FloatType> for BlockType {
    fn from(dtype: FloatType) -> Self {
        match dtype {
            FloatType::F32 => Self::F32,
            FloatType::F16 => Self::F16,
            FloatType::BF16 => Self::BF16,
            FloatType::F64 => Self::F64,
        }
    }
}

impl Scales {
    /// The scales of a format that the CPU's kernels multiply with; floats have none.
    pub fn of_format(format: Format) -> Self {
        if format == Format::Iq4 {
            return Self {
                bytes: format.block_bytes(),
                values: format.block_values(),
                places: &[0],
                stored_as: ScaleType::F32,
            };
        }
        let mut layouts = LAYOUTS.iter();
        let layout = layouts.find(|layout| layout.5 == Some(format));
        // The table has all of them.
        let (kind, ..) = layout.unwrap_or(&LAYOUTS[0]);
        kind.scales()
    }
}

fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut head = [0; N];
    head.copy_from_slice(&bytes[..N]);
    head
}

/// The half-precision number that bytes begin with.
fn half(bytes: &[u8]) -> f32 {
    f16::from_le_bytes(head(bytes)).to_f32()
}

/// 4 bits per value: the low halves of all bytes, then the high ones.
fn nibbles(packed: &[u8], y: &mut [f32], value: impl Fn(u8) -> f32) {
    let (low, high) = y.split_at_mut(packed.len());
    for ((low, high), &q) in low.iter_mut().zip(high).zip(packed) {
        *low = value(q & 15);
        *high = value(q >> 4);
    }
}

/// Unpacks Q3_K: the values, less 4, the scales of 16 each, less 32, and d.
fn q3_k_integers(block: &[u8]) -> ([i8; 256], [i8; 16], &[u8]) {
    let (tops, rest) = block.split_at(32);
    let (packed, rest) = rest.split_at(64);
    let (scales, d) = rest.split_at(12);
    let scale = |i: usize| {
        let low = scales[i % 8] >> (4 * (i / 8)) & 15;
        let high = scales[8 + i % 4] >> (2 * (i / 4)) & 3;
        (low | high << 4) as i8 - 32
    };
    let integer = |i: usize| {
        let (half, within) = (i / 128, i % 128);
        let low = packed[32 * half + within % 32] >> (2 * (within / 32)) & 3;
        let top = tops[i % 32] >> (i / 32) & 1;
        (low | top << 2) as i8 - 4
    };
    (std::array::from_fn(integer), std::array::from_fn(scale), d)
}

/// Writes Q3_K in the layout of Q6_K, where 32 is subtracted from integers.
fn q6_k_of_q3_k(block: &[u8]) -> Vec<u8> {
    let (integers, scales, d) = q3_k_integers(block);
    let mut wide = vec![0; BlockType::Q6K.bytes()];
    for (i, q) in integers.into_iter().enumerate() {
        let (half, quarter, within) = (i / 128, i % 128 / 32, i % 32);
        let q = (q + 32) as u8;
        wide[64 * half + 32 * (quarter % 2) + within] |= (q & 15) << (4 * (quarter / 2));
        wide[128 + 32 * half + within] |= q >> 4 << (2 * quarter);
    }
    wide[192..208].copy_from_slice(&scales.map(|scale| scale as u8));
    wide[208..].copy_from_slice(d);
    wide
}

/// The scale of a block, and integers in bytes: the highest bit of each is in 4 bytes, the others
/// are as [`nibbles`] has them.
fn q8_0_of_q5_0(block: &[u8]) -> Vec<u8> {
    let (tops, packed) = block[2..].split_at(4);
    let integer = |i: usize| {
        let low = packed[i % 16] >> (4 * (i / 16)) & 15;
        (low | (tops[i / 8] >> (i % 8) & 1) << 4).wrapping_sub(16)
    };
    block[..2]
        .iter()
        .copied()
        .chain((0..SMALL).map(integer))
        .collect()
}

/// Blocks with a scale in f32 of IQ4_XS, which has d, 8 scales of 6 bits, less 32, and codes.
fn iq4_of_iq4_xs(block: &[u8]) -> Vec<u8> {
    let (d, highs) = (half(block), u16::from_le_bytes(head(&block[2..])));
    let (lows, packed) = block[4..].split_at(4);
    let packed = packed.chunks_exact(SMALL / 2).enumerate();
    let wide = packed.flat_map(|(i, packed)| {
        let low = lows[i / 2] >> (4 * (i % 2)) & 15;
        let high = (highs >> (2 * i) & 3) as u8;
        let scale = d * (i32::from(low | high << 4) - 32) as f32;
        scale
            .to_le_bytes()
            .into_iter()
            .chain(packed.iter().copied())
    });
    wide.collect()
}

/// The `i`th of 8 scales and minima of 6 bits in 12 bytes.
fn scale_min(packed: &[u8], i: usize) -> (f32, f32) {
    let (scale, min) = match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => (
            packed[i + 4] & 15 | packed[i - 4] >> 6 << 4,
            packed[i + 4] >> 4 | packed[i] >> 6 << 4,
        ),
    };
    (scale.into(), min.into())
}

/// d, dmin, 8 scales and minima, 256 values of 4 bits.
fn q4_k(block: &[u8], y: &mut [f32]) {
    let (d, min) = (half(block), half(&block[2..]));
    let (scales, packed) = block[4..].split_at(12);
    for (i, y) in y.chunks_exact_mut(SMALL).enumerate() {
        let (scale, offset) = scale_min(scales, i);
        let (scale, offset) = (d * scale, min * offset);
        let packed = &packed[SMALL * (i / 2)..];
        for (y, &q) in y.iter_mut().zip(packed) {
            *y = scale * f32::from(q >> (4 * (i % 2)) & 15) - offset;
        }
    }
}

/// d, dmin, 8 scales and minima, 256 highest bits, 256 values of 4 bits.
fn q5_k(block: &[u8], y: &mut [f32]) {
    let (d, min) = (half(block), half(&block[2..]));
    let (scales, rest) = block[4..].split_at(12);
    let (tops, packed) = rest.split_at(32);
    for (i, y) in y.chunks_exact_mut(SMALL).enumerate() {
        let (scale, offset) = scale_min(scales, i);
        let (scale, offset) = (d * scale, min * offset);
        let packed = &packed[SMALL * (i / 2)..];
        for ((y, &q), &top) in y.iter_mut().zip(packed).zip(tops) {
            let q = q >> (4 * (i % 2)) & 15 | (top >> i & 1) << 4;
            *y = scale * f32::from(q) - offset;
        }
    }
}

/// 256 values of 4 low bits, of 2 high bits, 16 scales of 8 bits, d.
fn q6_k(block: &[u8], y: &mut [f32]) {
    let (lows, rest) = block.split_at(128);
    let (highs, rest) = rest.split_at(64);
    let (scales, d) = rest.split_at(16);
    let d = half(d);
    for (i, y) in y.iter_mut().enumerate() {
        let (half, quarter, within) = (i / 128, i % 128 / 32, i % 32);
        let low = lows[64 * half + 32 * (quarter % 2) + within] >> (4 * (quarter / 2)) & 15;
        let high = highs[32 * half + within] >> (2 * quarter) & 3;
        let q = i32::from(low | high << 4) - 32;
        *y = d * f32::from(scales[i / 16] as i8) * q as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_files_have() {
        let known: Vec<_> = (0..64)
            .filter_map(|number| Some((number, BlockType::of(number).ok()?)))
            .collect();
        assert_eq!(known.len(), 17);
        for (number, kind) in known {
            assert_eq!(kind.number(), number, "{}", kind.name());
        }
    }

    #[test]
    fn sizes_that_cannot_be_stored_have_no_bytes() {
        assert_eq!(BlockType::Q4K.bytes_of(&[256, 3]), Some(3 * 144));
        assert_eq!(BlockType::Q4K.bytes_of(&[128, 2]), None);
        assert_eq!(BlockType::F32.bytes_of(&[0]), None);
        assert_eq!(BlockType::F32.bytes_of(&[u64::MAX, 2]), None);
        assert_eq!(BlockType::F16.bytes_of(&[1 << 31, 1 << 31]), None);
        assert_eq!(BlockType::F16.bytes_of(&[]), None);
    }

    #[test]
    fn a_scale_that_is_no_number_is_one_of_those_that_are_looked_at() {
        let kinds = (0..64).filter_map(|number| BlockType::of(number).ok());
        for kind in kinds.filter(|kind| kind.as_float().is_none()) {
            for at in 0..kind.bytes() - 1 {
                let mut block = vec![0; kind.bytes()];
                block[at..at + 2].copy_from_slice(&[0xff, 0x7f]);
                let values = kind.unpack(&block);
                let finite = FloatType::F32.first_improper(&values).is_none();
                let looked_at = kind.scales().first_improper(&block).is_none();
                assert_eq!(finite, looked_at, "{kind:?} at {at}");
            }
        }
    }

    #[test]
    fn scales_of_six_bits_are_put_together() {
        let mut packed = [0; 12];
        // Scale 5 is 0b10_1101 and its minimum 0b01_0011.
        packed[9] = 0b0011_1101;
        packed[1] = 0b1000_0000;
        packed[5] = 0b0100_0000;
        assert_eq!(scale_min(&packed, 5), (45.0, 19.0));
    }
}
