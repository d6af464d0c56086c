//! CPU kernels for transformer forwards, on plain slices.
//!
//! * [`Linear`]: a linear map of [`Packed`] weights, which lie in one of the [`Format`]s in the
//!   order in which a product reads them; [`quantize`]: f32 to a format; [`Isa`]: the instructions
//!   used.
//! * [`Cache`]: keys and values of a sequence; [`attend_texts`]: softmax attention to them.
//! * [`rms_norm`], [`rms_norm_in_place`], [`rotate`], [`activate`]: what is done to single values
//!   or rows of them.
//! * [`first_maximum`], [`greatest`], [`Softmax`], [`entropy`]: what a row of logits says.
//!
//! A forward that drafts or verifies a few tokens of a small model is over in a fraction of a
//! millisecond, of which general tensor operations spend most on waking threads, packing matrices,
//! copying views and allocating. These kernels read caches where they lie, keep weights in the
//! order in which they are read, and use several threads only where that is faster.
//!
//! **Row-invariant**: the bits of a row depend neither on how many rows are computed with it, nor
//! on keys that are hidden from it. So verifying a draft gives the very values that plain decoding
//! gives.

mod activations;
mod attention;
mod cache;
mod format;
mod kernels;
mod packed;
mod pointwise;
mod product;
mod quantize;
mod rounding;
mod rows;
mod threads;

pub use attention::{ScoreBias, TextAttention, attend_texts};
pub use cache::{Cache, CacheMemory, CacheShape, CacheType, KeysValues, KvPart, PAGE_SLOTS, Page};
pub use format::Format;
pub use kernels::{Isa, VARIABLE};
pub use packed::{Packed, dequantize};
pub use pointwise::{Activation, activate, rms_norm, rms_norm_in_place, rotate};
pub use product::Linear;
pub use quantize::quantize;
pub use rows::{Softmax, entropy, first_maximum, greatest};
pub use threads::{lead, start_threads};

/// Calls the closure with the widest vector instructions that this CPU has.
fn vectorized<T>(run: impl pulp::NullaryFnOnce<Output = T>) -> T {
    arch().dispatch(run)
}

/// The widest vector instructions that this CPU has, or what `CASCADE_CPU` chooses.
fn arch() -> pulp::Arch {
    match Isa::current() {
        Isa::Scalar => pulp::Arch::Scalar,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => match pulp::x86::V3::try_new() {
            Some(v3) => pulp::Arch::V3(v3),
            None => pulp::Arch::Scalar,
        },
        _ => pulp::Arch::new(),
    }
}

/// Joins matrices of `rows` rows, side by side, into one.
fn side_by_side(mut parts: Vec<Vec<f32>>, rows: usize) -> Vec<f32> {
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let mut joined = Vec::with_capacity(parts.iter().map(Vec::len).sum());
    for row in 0..rows {
        for part in &parts {
            let width = part.len() / rows;
            joined.extend_from_slice(&part[row * width..(row + 1) * width]);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    //! What the kernels' tests share.

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use crate::{Format, Packed, quantize};

    /// Values between -2 and 2, a function of their number.
    pub(super) fn random(count: usize) -> Vec<f32> {
        let mut rng = StdRng::seed_from_u64(count as u64);
        (0..count).map(|_| rng.random_range(-2.0..2.0)).collect()
    }

    /// Rows of a weight, rounded to a format.
    pub(super) fn packed(format: Format, weight: &[f32], inputs: usize) -> Packed {
        let row = |output: usize, bytes: &mut [u8]| {
            quantize(format, &weight[output * inputs..][..inputs], bytes);
        };
        Packed::from_rows(format, inputs, weight.len() / inputs, row).unwrap()
    }

    pub(super) fn assert_close(found: &[f32], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        for (&a, &b) in found.iter().zip(expected) {
            let off = (f64::from(a) - b).abs();
            assert!(off < tolerance * (1.0 + b.abs()), "{a} instead of {b}");
        }
    }
}
