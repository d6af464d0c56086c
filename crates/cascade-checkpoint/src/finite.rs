//! NaN and infinities among weights.
//!
//! Such numbers mean that a file is damaged, or that its training failed. Rounding to integers
//! would make zeros of the one and noise of the other, and a damaged model would answer as if it
//! were whole: nothing is packed or written that was not looked at here.

use half::f16;
use rayon::prelude::*;

use crate::dtype::FloatType;
use crate::error::download_again;
use crate::{Error, ErrorKind, Result};

/// Values that are looked at before it is asked whether all were finite.
const AT_ONCE: usize = 1 << 10;
/// Bytes that a thread looks at: whole values of any type.
const CHUNK: usize = 1 << 18;

/// A tensor, as messages call it.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The file that it is in; nothing for a caller's own weights.
    pub file: Option<&'a str>,
    /// The name of the tensor in the file.
    pub tensor: &'a str,
}

impl Named<'_> {
    /// Refuses values that are not finite in f32. Costs one pass over them.
    ///
    /// # Errors
    /// For the first of them.
    pub fn check(self, dtype: FloatType, bytes: &[u8], shape: &[usize]) -> Result<()> {
        let chunks = bytes.par_chunks(CHUNK).enumerate();
        let found = chunks.find_map_first(|(chunk, bytes)| {
            let within = dtype.first_improper(bytes)?;
            Some(chunk * (CHUNK / dtype.bytes()) + within)
        });
        match found {
            None => Ok(()),
            Some(index) => Err(self.not_finite(shape, index, dtype.say(bytes, index))),
        }
    }

    /// Refuses blocks with scales that are not finite, of a tensor of `shape`. Costs one pass.
    ///
    /// # Errors
    /// For the first of them.
    pub fn check_blocks(self, scales: Scales, blocks: &[u8], shape: &[usize]) -> Result<()> {
        let at_once = CHUNK / scales.bytes;
        let chunks = blocks.par_chunks(at_once * scales.bytes).enumerate();
        let found = chunks.find_map_first(|(chunk, blocks)| {
            Some(chunk * at_once + scales.first_improper(blocks)?)
        });
        match found {
            None => Ok(()),
            Some(block) => Err(self.improper_block(scales, blocks, shape, block)),
        }
    }

    /// The error of a block, by its number, one of whose scales is not finite.
    pub fn improper_block(
        self,
        scales: Scales,
        blocks: &[u8],
        shape: &[usize],
        block: usize,
    ) -> Error {
        let scale = scales
            .of(&blocks[block * scales.bytes..])
            .find(|scale| !scale.is_finite());
        let said = format!("a scale of {}", scale.unwrap_or_default());
        self.not_finite(shape, block * scales.values, said)
    }

    /// The error of the value at `index`, row-major.
    pub fn not_finite(self, shape: &[usize], index: usize, value: String) -> Error {
        let mut rest = index;
        let mut place = vec![0; shape.len()];
        for (at, size) in place.iter_mut().zip(shape).rev() {
            *at = rest % size;
            rest /= size;
        }
        let file = self.file.unwrap_or("the weights that were given");
        let message = format!(
            "{file}: tensor {} has {value} at {place:?}, and weights are finite numbers: the file is damaged, or its \
             training failed; {}, or take another model",
            self.tensor,
            download_again(file)
        );
        Error::new(ErrorKind::Weight, message)
    }
}

impl FloatType {
    /// The first of some values that is not finite in f32.
    pub fn first_improper(self, bytes: &[u8]) -> Option<usize> {
        // As integers, magnitudes from that of infinity on are not finite.
        let (single, half, brain) = (0x7f80_0000, 0x7c00, 0x7f80);
        match self {
            Self::F32 => first(bytes, single, |v| i32::from_le_bytes(v) & i32::MAX),
            Self::F16 => first(bytes, half, |v| i16::from_le_bytes(v) & i16::MAX),
            Self::BF16 => first(bytes, brain, |v| i16::from_le_bytes(v) & i16::MAX),
            Self::F64 => first(bytes, single, |v| {
                (f64::from_le_bytes(v) as f32).abs().to_bits() as i32
            }),
        }
    }

    /// What messages say of the value at `index`, which is not finite in f32.
    pub fn say(self, bytes: &[u8], index: usize) -> String {
        let bytes = &bytes[index * self.bytes()..][..self.bytes()];
        let value = match (self, bytes.first_chunk()) {
            (Self::F64, Some(&bytes)) => f64::from_le_bytes(bytes),
            _ => self.to_f32(bytes)[0].into(),
        };
        if value.is_finite() {
            format!("{value:e}, which is infinite in f32,")
        } else {
            value.to_string()
        }
    }
}

/// The first value whose magnitude reaches `infinite`.
fn first<const N: usize, T: Ord + Copy + Default>(
    bytes: &[u8],
    infinite: T,
    magnitude: impl Fn([u8; N]) -> T,
) -> Option<usize> {
    let (values, _) = bytes.as_chunks();
    // Without a branch for each, so that vector instructions find the greatest.
    let greatest = |values: &[[u8; N]]| {
        let magnitudes = values.iter().map(|&value| magnitude(value));
        magnitudes.fold(T::default(), T::max)
    };
    let chunk = values
        .chunks(AT_ONCE)
        .position(|chunk| greatest(chunk) >= infinite)?;
    let start = chunk * AT_ONCE;
    let within = values[start..]
        .iter()
        .position(|&value| magnitude(value) >= infinite)?;
    Some(start + within)
}

/// How the scales of blocks are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleType {
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// A power of two in a byte, beside numbers up to 6.
    E8M0,
}

/// Where blocks of a format have their scales.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// Bytes of a block.
    pub bytes: usize,
    /// Values of a block.
    pub values: usize,
    /// Bytes before each scale.
    pub places: &'static [usize],
    /// How they are stored.
    pub stored_as: ScaleType,
}

impl Scales {
    /// The scales of the block that bytes begin with, or, of powers of two, the greatest number.
    fn of(self, block: &[u8]) -> impl Iterator<Item = f32> + '_ {
        self.places.iter().map(move |&at| match self.stored_as {
            ScaleType::F16 => f16::from_le_bytes([block[at], block[at + 1]]).to_f32(),
            ScaleType::F32 => f32::from_le_bytes(std::array::from_fn(|byte| block[at + byte])),
            ScaleType::E8M0 => 6.0 * f32::from_bits(u32::from(block[at]) << 23),
        })
    }

    /// The first block with a scale that is not finite.
    pub fn first_improper(self, blocks: &[u8]) -> Option<usize> {
        let mut blocks = blocks.chunks_exact(self.bytes);
        blocks.position(|block| self.of(block).any(|scale| !scale.is_finite()))
    }
}
