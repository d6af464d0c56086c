//! Where tensors are.

use std::fmt;

use crate::{DType, Error, Result};

/// A device of candle's; displayed as `cpu`, `cuda:N` or `metal:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU, by its number, counted from 0.
    Cuda(usize),
    /// A GPU of Apple's, by its number, counted from 0.
    Metal(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Metal(ordinal) => write!(f, "metal:{ordinal}"),
        }
    }
}

/// An opened device. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Device {
    place: Place,
    pub(crate) inner: candle_core::Device,
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::Device`] if it is not there, cannot be used, or this build has no support for it.
    pub fn open(place: Place) -> Result<Self> {
        let inner = match place {
            Place::Cpu => Ok(candle_core::Device::Cpu),
            #[cfg(feature = "cuda")]
            Place::Cuda(ordinal) => crate::cuda::open(ordinal),
            #[cfg(not(feature = "cuda"))]
            Place::Cuda(_) => Err(not_built("cuda")),
            #[cfg(feature = "metal")]
            Place::Metal(ordinal) => {
                candle_core::Device::new_metal(ordinal).map_err(|error| error.to_string())
            }
            #[cfg(not(feature = "metal"))]
            Place::Metal(_) => Err(not_built("metal")),
        };
        let inner = inner.map_err(|reason| Error::Device { place, reason })?;
        Ok(Self { place, inner })
    }

    /// Bytes of an NVIDIA GPU's memory that are free, and all of them.
    pub fn memory(&self) -> Option<(usize, usize)> {
        #[cfg(feature = "cuda")]
        return crate::cuda::memory(&self.inner);
        #[cfg(not(feature = "cuda"))]
        None
    }

    /// Its name.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Refuses types that candle does not multiply in here.
    ///
    /// # Errors
    /// [`Error::Type`].
    pub fn check(&self, dtype: DType) -> Result<()> {
        match (self.place, dtype) {
            (Place::Cpu, DType::BF16) => Err(Error::Type {
                place: self.place,
                dtype: "bf16",
                known: "f32, f16 and blocks of 8 and fewer bits",
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(not(all(feature = "cuda", feature = "metal")))]
fn not_built(feature: &str) -> String {
    format!("this build has no support for it; build with --features {feature}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_were_not_built_say_how_to_build_them() {
        let built = [cfg!(feature = "cuda"), cfg!(feature = "metal")];
        for (place, built) in [Place::Cuda(0), Place::Metal(0)].into_iter().zip(built) {
            if built {
                continue;
            }
            let message = Device::open(place).unwrap_err().to_string();
            assert!(message.contains("--features"), "{message}");
        }
        assert_eq!(Device::open(Place::Cpu).unwrap().place(), Place::Cpu);
    }
}
