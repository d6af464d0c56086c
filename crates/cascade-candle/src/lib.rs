//! The operations of transformer layers in candle's tensors.
//!
//! A [`Device`] holds weights ([`Matrix`], [`Norm`], [`Rotary`], …) and [`Cache`]s of keys and
//! values; a [`Forward`] takes rows through the operations of their layers. Nothing waits for the
//! device before logits or hidden states are copied to the host ([`Forward::on_host`]).
//!
//! The bits of a row depend on the rows beside it: products of matrices choose their order of
//! summation by shape.

mod cache;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod dtype;
mod forward;
mod weights;

pub use cache::{Cache, CacheShape};
pub use candle_core::Tensor;
pub use device::{Device, Place};
pub use dtype::DType;
pub use forward::{Activation, Bias, Forward, HeadNorms, Heads};
pub use weights::{BlockFormat, Linear, Matrix, Norm, RelativeBias, Rotary};

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device that is not there, cannot be used, or needs another build.
    #[error("candle:{place}: {reason}")]
    Device {
        /// The device.
        place: Place,
        /// Why.
        reason: String,
    },
    /// A type that candle has no products of matrices for on this device.
    #[error("candle:{place} computes in {known}, not in {dtype}")]
    Type {
        /// The device.
        place: Place,
        /// The type that was asked for.
        dtype: &'static str,
        /// Those that there are.
        known: &'static str,
    },
    /// What an operation fails with.
    #[error("candle: {0}")]
    Candle(Box<candle_core::Error>),
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Candle(Box::new(error))
    }
}

/// A result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
