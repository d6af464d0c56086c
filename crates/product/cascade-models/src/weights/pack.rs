//! Matrices in the formats that the CPU's kernels multiply with.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cascade_cpu::{quantize, Format, Packed};
use half::{bf16, f16};

use super::{FloatType, Stored};
use crate::{DType, Error, Result};

/// A matrix in memory, and what about it is not as was asked for.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) matrix: Packed,
    pub(crate) note: Option<String>,
}

impl From<Packed> for Held {
    fn from(matrix: Packed) -> Self {
        Self { matrix, note: None }
    }
}

/// The format of a matrix with rows of `inputs`, and why it is another one than asked for.
pub(crate) fn format_for(
    dtype: DType,
    stored: FloatType,
    inputs: usize,
) -> (Format, Option<String>) {
    let format = match dtype {
        DType::F32 => Format::F32,
        DType::BF16 => Format::BF16,
        DType::F16 => Format::F16,
        DType::Q8_0 => Format::Q8_0,
        DType::Q4_0 => Format::Q4_0,
        DType::Stored => match stored {
            FloatType::F32 | FloatType::F64 => Format::F32,
            FloatType::BF16 => Format::BF16,
            FloatType::F16 => Format::F16,
        },
    };
    let block = format.block_values();
    match inputs.is_multiple_of(block) {
        true => (format, None),
        false => {
            let note = format!(
                "f32 instead of {format}: a row of {inputs} has no whole blocks of {block}"
            );
            (Format::F32, Some(note))
        }
    }
}

/// Packs values of any type, a few rows at a time.
///
/// # Errors
/// [`Error::TooLargeForType`] for a value that the format has no number for;
/// [`Error::OutOfMemory`].
pub(crate) fn pack(
    tensor: &str,
    stored: &Stored<'_>,
    [outputs, inputs]: [usize; 2],
    dtype: DType,
) -> Result<Held> {
    let (format, note) = format_for(dtype, stored.dtype, inputs);
    let row_bytes = inputs * stored.dtype.bytes();
    let same = matches!(
        (format, stored.dtype),
        (Format::F32, FloatType::F32)
            | (Format::BF16, FloatType::BF16)
            | (Format::F16, FloatType::F16)
    );
    let too_large = AtomicBool::new(false);
    let matrix = Packed::from_rows(format, inputs, outputs, |row, to| {
        let bytes = &stored.bytes[row * row_bytes..][..row_bytes];
        if same {
            to.copy_from_slice(bytes);
            return;
        }
        let values = stored.dtype.to_f32(bytes);
        quantize(format, &values, to);
        if !fits(format, &values, to) {
            too_large.store(true, Relaxed);
        }
    });
    let matrix = matrix.map_err(Error::no_memory(tensor, format, [outputs, inputs]))?;
    match too_large.into_inner() {
        true => Err(Error::TooLargeForType {
            tensor: tensor.to_owned(),
            dtype: format.to_string(),
        }),
        false => Ok(Held { matrix, note }),
    }
}

/// The blocks of 8 bits that values of any type become, row by row as they are in a file.
///
/// # Errors
/// [`Error::TooLargeForType`] for a value that no block holds.
#[cfg(feature = "gpu")]
pub(crate) fn q8_0(
    tensor: &str,
    stored: &Stored<'_>,
    [outputs, inputs]: [usize; 2],
) -> Result<Vec<u8>> {
    use rayon::prelude::*;

    let format = Format::Q8_0;
    let row_bytes = inputs / format.block_values() * format.block_bytes();
    let mut blocks = vec![0; outputs * row_bytes];
    let rows = stored.bytes.par_chunks(inputs * stored.dtype.bytes());
    let fits = rows
        .zip(blocks.par_chunks_mut(row_bytes))
        .map(|(bytes, to)| {
            let values = stored.dtype.to_f32(bytes);
            quantize(format, &values, to);
            fits(format, &values, to)
        });
    match fits.reduce(|| true, |a, b| a && b) {
        true => Ok(blocks),
        false => Err(Error::TooLargeForType {
            tensor: tensor.to_owned(),
            dtype: format.to_string(),
        }),
    }
}

/// Whether finite values were written as finite numbers.
pub(crate) fn fits(format: Format, values: &[f32], blocks: &[u8]) -> bool {
    let finite = |bytes: &[u8]| f16::from_le_bytes([bytes[0], bytes[1]]).is_finite();
    let written = match format {
        Format::F32 | Format::BF16 => return true,
        _ => blocks.chunks_exact(format.block_bytes()).all(finite),
    };
    written || !values.iter().all(|value| value.is_finite())
}

impl FloatType {
    /// Bytes of a value.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::F64 => 8,
        }
    }

    /// Values, rounded if they are in f64.
    pub(crate) fn to_f32(self, bytes: &[u8]) -> Vec<f32> {
        let (twos, fours, eights) = (
            bytes.as_chunks().0,
            bytes.as_chunks().0,
            bytes.as_chunks().0,
        );
        match self {
            Self::F32 => fours.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Self::BF16 => twos
                .iter()
                .map(|b| bf16::from_le_bytes(*b).to_f32())
                .collect(),
            Self::F16 => twos
                .iter()
                .map(|b| f16::from_le_bytes(*b).to_f32())
                .collect(),
            Self::F64 => eights
                .iter()
                .map(|b| f64::from_le_bytes(*b) as f32)
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    fn stored(values: &[f32]) -> Stored<'static> {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Stored {
            dtype: FloatType::F32,
            bytes: Cow::Owned(bytes),
        }
    }

    #[test]
    fn values_beyond_a_type_are_refused_by_name() {
        let mut values = [1.0; 64];
        values[40] = 1e30;
        for dtype in [DType::F16, DType::Q8_0, DType::Q4_0] {
            let refused = pack("a.weight", &stored(&values), [2, 32], dtype).unwrap_err();
            let message = refused.to_string();
            assert!(
                message.contains("a.weight") && message.contains("bf16"),
                "{message}"
            );
        }
        for dtype in [DType::F32, DType::BF16, DType::Stored] {
            pack("a.weight", &stored(&values), [2, 32], dtype).unwrap();
        }
    }

    #[test]
    fn rows_without_whole_blocks_are_kept_and_told() {
        let held = pack("a.weight", &stored(&[0.5; 60]), [3, 20], DType::Q4_0).unwrap();
        assert_eq!(held.matrix.format(), Format::F32);
        assert!(held.note.unwrap().contains("f32 instead of q4_0"));
    }
}
