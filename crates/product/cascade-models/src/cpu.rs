//! Kernels for f32 on the CPU.
//!
//! A forward that drafts or checks a few tokens of a small model is over in a fraction of a millisecond, of which general
//! tensor operations spend most on waking threads, packing matrices, copying views and allocating. These kernels take
//! strided views as they are, keep weights in the order in which they are read, and use several threads only for what
//! is worth it.
//!
//! They are row-invariant: the bits of a row depend neither on how many rows are computed with it, nor on keys that are
//! hidden from it. So checking a draft gives the very numbers that plain decoding gives.

mod attention;
mod pointwise;
mod product;

use candle_core::{CpuStorage, Layout, Result, Tensor};
use pulp::Arch;

pub(crate) use attention::attend;
pub(crate) use pointwise::{exp, gated, rms_norm, rope};
pub(crate) use product::Panels;

/// Whether the kernels take `tensor` as their first input.
pub(crate) fn applies(tensor: &Tensor) -> bool {
    tensor.device().is_cpu() && tensor.dtype() == candle_core::DType::F32 && tensor.is_contiguous()
}

/// The values of a contiguous f32 tensor.
fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle_core::bail!("a CPU kernel was given a strided view")
    };
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// Calls the closure with the widest vector instructions that this processor has.
pub(crate) fn vectorized<T>(run: impl pulp::NullaryFnOnce<Output = T>) -> T {
    Arch::new().dispatch(run)
}

/// Joins matrices of `rows` rows into one.
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

    use candle_core::{Device, Shape, Tensor};

    pub(super) fn random(shape: impl Into<Shape>) -> Tensor {
        Tensor::randn(0f32, 1.0, shape, &Device::Cpu).unwrap()
    }

    pub(super) fn flat(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    pub(super) fn assert_close(found: &Tensor, expected: &Tensor) {
        assert_eq!(found.dims(), expected.dims());
        for (a, b) in flat(found).iter().zip(flat(expected)) {
            assert!((a - b).abs() < 2e-5 * (1.0 + b.abs()), "{a} instead of {b}");
        }
    }
}
