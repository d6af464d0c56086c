//! Rounding weights to a format, as `ggml-quants.c` does it without an importance matrix.

use half::{bf16, f16};

use crate::format::Format;

/// Writes the values of a row in `format`, as files have them: the same bytes on every machine.
///
/// # Panics
/// If the row has no whole blocks, `blocks` has another length, or the format is one that weights
/// are read in and never rounded to.
pub fn quantize(format: Format, row: &[f32], blocks: &mut [u8]) {
    let (values, bytes) = (format.block_values(), format.block_bytes());
    assert_eq!(
        row.len() / values * bytes,
        blocks.len(),
        "blocks of another length"
    );
    assert!(
        row.len().is_multiple_of(values),
        "rows without whole blocks"
    );
    let pairs = row.chunks_exact(values).zip(blocks.chunks_exact_mut(bytes));
    match format {
        Format::F32 => pairs.for_each(|(x, block)| block.copy_from_slice(&x[0].to_le_bytes())),
        Format::BF16 => pairs.for_each(|(x, block)| {
            block.copy_from_slice(&bf16::from_f32(x[0]).to_le_bytes());
        }),
        Format::F16 => pairs.for_each(|(x, block)| {
            block.copy_from_slice(&f16::from_f32(x[0]).to_le_bytes());
        }),
        Format::Q8_0 => pairs.for_each(|(x, block)| q8_0(x, block)),
        Format::Q4_0 => pairs.for_each(|(x, block)| q4_0(x, block)),
        // A caller's mistake: what files and people ask for has been turned to the formats above.
        _ => panic!("nothing is rounded to {format}"),
    }
}

fn q8_0(x: &[f32], block: &mut [u8]) {
    let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let scale = most / 127.0;
    let inverse = inverse(scale);
    block[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    for (q, x) in block[2..].iter_mut().zip(x) {
        *q = (x * inverse).round() as i8 as u8;
    }
}

/// The value of the greatest magnitude becomes -8, whatever its sign.
fn q4_0(x: &[f32], block: &mut [u8]) {
    let most = x.iter().fold(
        0.0f32,
        |most, &x| if x.abs() > most.abs() { x } else { most },
    );
    let scale = most / -8.0;
    let inverse = inverse(scale);
    block[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    let q = |x: f32| ((x * inverse + 8.5) as u8).min(15);
    for (i, packed) in block[2..].iter_mut().enumerate() {
        *packed = q(x[i]) | q(x[i + 16]) << 4;
    }
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}
