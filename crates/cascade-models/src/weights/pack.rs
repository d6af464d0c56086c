//! Matrices in the formats that the CPU's kernels multiply with.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use cascade_checkpoint::{Blocks, DType, FloatType, Named, Scales, Stored, fits};
use cascade_cpu::{Format, Packed, quantize};

use crate::{Error, Result};

/// A matrix in memory, and what about it is not as was asked for.
#[derive(Debug)]
pub(crate) struct PackedMatrix {
    pub(crate) matrix: Packed,
    pub(crate) note: Option<String>,
}

impl From<Packed> for PackedMatrix {
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
    let format = dtype.format(stored);
    let block = format.block_values();
    if inputs.is_multiple_of(block) {
        (format, None)
    } else {
        let note =
            format!("f32 instead of {format}: a row of {inputs} has no whole blocks of {block}");
        (Format::F32, Some(note))
    }
}

/// Packs values of any type, a few rows at a time. Looks at all values of files, and at those of
/// others that are rounded, while a row is in the CPU's cache.
///
/// # Errors
/// A value that is NaN or infinite, or that the format has no number for; [`Error::OutOfMemory`].
pub(crate) fn pack(
    name: Named<'_>,
    stored: &Stored<'_>,
    [outputs, inputs]: [usize; 2],
    dtype: DType,
) -> Result<PackedMatrix> {
    let (format, note) = format_for(dtype, stored.dtype, inputs);
    let row_bytes = inputs * stored.dtype.bytes();
    let same = matches!(
        (format, stored.dtype),
        (Format::F32, FloatType::F32)
            | (Format::BF16, FloatType::BF16)
            | (Format::F16, FloatType::F16)
    );
    // A caller's own NaN that is not rounded stays NaN, and shows in the logits.
    let looked_at = !same || name.file.is_some();
    let (improper, too_large) = (First::default(), AtomicBool::new(false));
    let matrix = Packed::from_rows(format, inputs, outputs, |row, to| {
        let bytes = &stored.bytes[row * row_bytes..][..row_bytes];
        if looked_at {
            improper.note(row * inputs, stored.dtype.first_improper(bytes));
        }
        if same {
            to.copy_from_slice(bytes);
            return;
        }
        quantize(format, &stored.dtype.to_f32(bytes), to);
        if !fits(format, to) {
            too_large.store(true, Relaxed);
        }
    })
    .map_err(Error::no_memory(name.tensor, format, [outputs, inputs]))?;
    match improper.into_inner() {
        Some(index) => {
            let value = stored.dtype.say(&stored.bytes, index);
            Err(name.not_finite(&[outputs, inputs], index, value).into())
        }
        None if too_large.into_inner() => Err(too_large_for(name, format).into()),
        None => Ok(PackedMatrix { matrix, note }),
    }
}

/// Packs blocks as they are.
///
/// # Errors
/// A block with a scale that is NaN or infinite; [`Error::OutOfMemory`].
pub(crate) fn pack_blocks(
    name: Named<'_>,
    blocks: &Blocks<'_>,
    shape: [usize; 2],
) -> Result<PackedMatrix> {
    let (format, [outputs, inputs]) = (blocks.format, shape);
    let per_row = inputs / format.block_values();
    let row_bytes = per_row * format.block_bytes();
    let (scales, improper) = (Scales::of_format(format), First::default());
    let matrix = Packed::from_rows(format, inputs, outputs, |row, to| {
        let bytes = &blocks.bytes[row * row_bytes..][..row_bytes];
        improper.note(row * per_row, scales.first_improper(bytes));
        to.copy_from_slice(bytes);
    })
    .map_err(Error::no_memory(name.tensor, format, shape))?;
    match improper.into_inner() {
        Some(block) => Err(name
            .improper_block(scales, &blocks.bytes, &shape, block)
            .into()),
        None => Ok(matrix.into()),
    }
}

fn too_large_for(name: Named<'_>, format: Format) -> cascade_checkpoint::Error {
    cascade_checkpoint::Error::too_large_for_type(name.tensor, &format.to_string())
}

/// The least of the places that several threads note.
struct First(AtomicUsize);

impl Default for First {
    fn default() -> Self {
        Self(AtomicUsize::new(usize::MAX))
    }
}

impl First {
    /// Notes a place, counted from `start` on, if there is one.
    fn note(&self, start: usize, within: Option<usize>) {
        if let Some(within) = within {
            self.0.fetch_min(start + within, Relaxed);
        }
    }

    fn into_inner(self) -> Option<usize> {
        Some(self.0.into_inner()).filter(|&place| place < usize::MAX)
    }
}

/// The blocks that values of any type become, row by row as they are in a file.
///
/// # Errors
/// As [`pack`].
#[cfg(feature = "candle")]
pub(crate) fn blocks(
    format: Format,
    name: Named<'_>,
    stored: &Stored<'_>,
    [outputs, inputs]: [usize; 2],
) -> Result<Vec<u8>> {
    use rayon::prelude::*;

    name.check(stored.dtype, &stored.bytes, &[outputs, inputs])?;
    let row_bytes = inputs / format.block_values() * format.block_bytes();
    let mut blocks = vec![0; outputs * row_bytes];
    let rows = stored.bytes.par_chunks(inputs * stored.dtype.bytes());
    let fits = rows
        .zip(blocks.par_chunks_mut(row_bytes))
        .map(|(bytes, to)| {
            quantize(format, &stored.dtype.to_f32(bytes), to);
            fits(format, to)
        });
    if fits.reduce(|| true, |a, b| a && b) {
        Ok(blocks)
    } else {
        Err(too_large_for(name, format).into())
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

    const NAME: Named<'_> = Named {
        file: Some("a.safetensors"),
        tensor: "a.weight",
    };

    #[test]
    fn values_beyond_a_type_are_refused_by_name() {
        let mut values = [1.0; 64];
        values[40] = 1e30;
        for dtype in [DType::F16, DType::Q8_0, DType::Q4_0] {
            let refused = pack(NAME, &stored(&values), [2, 32], dtype).unwrap_err();
            let message = refused.to_string();
            assert!(
                message.contains("a.weight") && message.contains("bf16"),
                "{message}"
            );
        }
        for dtype in [DType::F32, DType::BF16, DType::Stored] {
            pack(NAME, &stored(&values), [2, 32], dtype).unwrap();
        }
        values[40] = f32::MAX;
        let refused = pack(NAME, &stored(&values), [2, 32], DType::BF16).unwrap_err();
        let message = refused.to_string();
        assert!(message.ends_with("compute in f32"), "{message}");
    }

    #[test]
    fn the_first_value_that_is_no_number_is_named_in_every_type() {
        for (improper, said) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf")] {
            let mut values = vec![0.25; 96 * 64];
            // In later rows too, which another thread may find first.
            for place in [64 * 64 + 17, 64 * 64 + 18, 95 * 64] {
                values[place] = improper;
            }
            for dtype in DType::ALL {
                let refused = pack(NAME, &stored(&values), [96, 64], dtype).unwrap_err();
                let message = refused.to_string();
                let expected = format!("a.safetensors: tensor a.weight has {said} at [64, 17]");
                assert!(message.starts_with(&expected), "{dtype}: {message}");
            }
        }
    }

    #[test]
    fn halves_and_doubles_are_looked_at_as_what_they_are() {
        let of = |dtype, bytes: Vec<u8>| Stored {
            dtype,
            bytes: bytes.into(),
        };
        let refused = |stored: &Stored<'_>| {
            let refused = pack(NAME, stored, [1, 32], DType::Q8_0).unwrap_err();
            refused.to_string()
        };
        let with = |last: &[u8]| [&vec![0; 31 * last.len()], last].concat();
        for (dtype, last, said) in [
            (FloatType::F16, &0x7c00u16.to_le_bytes()[..], "inf"),
            (FloatType::F16, &0xfe00u16.to_le_bytes(), "NaN"),
            (FloatType::BF16, &0xff80u16.to_le_bytes(), "-inf"),
            (FloatType::BF16, &0x7f81u16.to_le_bytes(), "NaN"),
            (FloatType::F64, &f64::NAN.to_le_bytes(), "NaN"),
            (
                FloatType::F64,
                &(-1e300f64).to_le_bytes(),
                "-1e300, which is infinite in f32,",
            ),
        ] {
            let message = refused(&of(dtype, with(last)));
            assert!(
                message.contains(&format!("has {said} at [0, 31]")),
                "{message}"
            );
        }
        for (dtype, greatest) in [
            (FloatType::F16, &0x7bffu16.to_le_bytes()[..]),
            (FloatType::BF16, &0xff7fu16.to_le_bytes()),
            (FloatType::F64, &f64::from(f32::MAX).to_le_bytes()),
        ] {
            pack(NAME, &of(dtype, with(greatest)), [1, 32], DType::F32).unwrap();
        }
    }

    #[test]
    fn blocks_with_scales_that_are_no_numbers_are_named() {
        for format in [
            Format::Q8_0,
            Format::Q4_0,
            Format::Q4K,
            Format::Q5K,
            Format::Q6K,
        ] {
            let scales = Scales::of_format(format);
            let whole = vec![0; 6 * scales.bytes];
            let blocks = |bytes: &Vec<u8>| Blocks {
                format,
                bytes: bytes.clone().into(),
            };
            let shape = [3, 2 * scales.values];
            pack_blocks(NAME, &blocks(&whole), shape).unwrap();
            for scale in scales.places {
                let mut damaged = whole.clone();
                damaged[5 * scales.bytes + scale..][..2].copy_from_slice(&[0, 0xfc]);
                let refused = pack_blocks(NAME, &blocks(&damaged), shape).unwrap_err();
                let message = refused.to_string();
                let said = format!("a.weight has a scale of -inf at [2, {}]", scales.values);
                assert!(message.contains(&said), "{format}: {message}");
                let error = NAME.check_blocks(scales, &damaged, &shape).unwrap_err();
                assert_eq!(error.to_string(), message);
            }
        }
    }

    #[test]
    fn rows_without_whole_blocks_are_kept_and_told() {
        let held = pack(NAME, &stored(&[0.5; 60]), [3, 20], DType::Q4_0).unwrap();
        assert_eq!(held.matrix.format(), Format::F32);
        assert!(held.note.unwrap().contains("f32 instead of q4_0"));
    }
}
