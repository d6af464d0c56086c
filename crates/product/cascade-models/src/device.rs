//! Where models compute.

use std::fmt;
use std::str::FromStr;

use crate::{memory, Error, Result};

/// The name of a device: `cpu`, `cuda` (the first GPU) or `cuda:N`. Reading and writing it opens
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceSpec {
    /// The CPU.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by its number, counted from 0.
    Cuda(usize),
}

impl DeviceSpec {
    /// Opens the device.
    ///
    /// # Errors
    /// [`Error::Device`] for a GPU that is not there or cannot be used.
    pub fn open(self) -> Result<Device> {
        self.open_as(&self.to_string())
    }

    fn open_as(self, text: &str) -> Result<Device> {
        match self {
            Self::Cpu => Ok(Device::Cpu),
            #[cfg(not(feature = "gpu"))]
            Self::Cuda(_) => {
                let reason = "this build has no GPU support; build with the feature `gpu`";
                Err(unusable(text, reason.to_owned()))
            }
            #[cfg(feature = "gpu")]
            Self::Cuda(ordinal) => {
                let gpu = cascade_gpu::Device::gpu(ordinal).map(Device::Gpu);
                gpu.map_err(|error| unusable(text, error.to_string()))
            }
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            other => other
                .strip_prefix("cuda:")
                .and_then(|ordinal| ordinal.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| unusable(text, "give cpu, cuda or cuda:N".to_owned())),
        }
    }
}

fn unusable(text: &str, reason: String) -> Error {
    Error::Device {
        text: text.to_owned(),
        reason,
    }
}

/// Where models compute, opened.
#[derive(Clone, Debug, Default)]
pub enum Device {
    /// The CPU.
    #[default]
    Cpu,
    /// An NVIDIA GPU.
    #[cfg(feature = "gpu")]
    Gpu(cascade_gpu::Device),
}

impl Device {
    /// Whether it is the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// Bytes of its memory that are free, if the system reports them.
    pub(crate) fn free_memory(&self) -> Result<Option<usize>> {
        match self {
            Self::Cpu => Ok(memory::available()),
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => {
                let (used, all) = gpu.memory()?;
                Ok(Some(all - used))
            }
        }
    }

    /// The most bytes that were allocated on it at once: on a GPU through this handle and its
    /// clones, on the CPU by this process, for whatever purpose, if the system reports them.
    pub fn peak_memory(&self) -> Option<usize> {
        match self {
            Self::Cpu => memory::peak(),
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => Some(gpu.peak()),
        }
    }
}

/// Opens a device by its name: `cpu`, `cuda` or `cuda:N`.
///
/// # Errors
/// [`Error::Device`] for another name, and for a GPU that is not there or cannot be used.
pub fn parse_device(text: &str) -> Result<Device> {
    text.parse::<DeviceSpec>()?.open_as(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names() {
        assert!(parse_device("cpu").unwrap().is_cpu());
        for (text, cure) in [("gpu", "cuda:N"), ("cuda:x", "cuda:N"), ("", "cpu")] {
            let message = parse_device(text).unwrap_err().to_string();
            assert!(message.contains(cure), "{message}");
        }
        // No machine has so many.
        let message = parse_device("cuda:4000").unwrap_err().to_string();
        assert!(message.contains("cuda:4000"), "{message}");
    }

    #[test]
    fn names_are_read_without_opening_anything() {
        for (text, spec) in [
            ("cpu", DeviceSpec::Cpu),
            ("cuda", DeviceSpec::Cuda(0)),
            (" cuda:4000 ", DeviceSpec::Cuda(4000)),
        ] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap(), spec);
            assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
        }
        assert!(DeviceSpec::Cpu.open().unwrap().is_cpu());
    }
}
