//! Where models compute.

use std::fmt;
use std::str::FromStr;

use crate::memory::{self, FreeMemory};
use crate::{Error, Result};

/// The name of a device: `auto` (the first GPU if it can be used, else the CPU), `cpu`, `cuda` (the
/// first GPU) or `cuda:N`. Reading and writing it opens nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceSpec {
    /// The first GPU if it can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU, by its number, counted from 0.
    Cuda(usize),
}

impl DeviceSpec {
    /// Opens the device.
    ///
    /// # Errors
    /// [`Error::Device`] for a GPU that was named and is not there or cannot be used; never for
    /// [`Auto`](Self::Auto).
    pub fn open(self) -> Result<Device> {
        self.resolve().map(|opened| opened.device)
    }

    /// Opens the device, and says which it is: for [`Auto`](Self::Auto), the one that was chosen
    /// and why.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn resolve(self) -> Result<OpenDevice> {
        self.resolve_as(&self.to_string())
    }

    fn resolve_as(self, text: &str) -> Result<OpenDevice> {
        match self {
            Self::Auto => Ok(Self::choose()),
            named => named.open_named(text).map(|device| OpenDevice {
                device,
                spec: named,
                no_gpu: None,
                no_driver: false,
            }),
        }
    }

    /// The first GPU if it can be used, else the CPU.
    fn choose() -> OpenDevice {
        const FIRST: DeviceSpec = DeviceSpec::Cuda(0);
        match Self::open_gpu(0) {
            Ok(device) => OpenDevice {
                device,
                spec: FIRST,
                no_gpu: None,
                no_driver: false,
            },
            Err(NoGpu { reason, no_driver }) => OpenDevice {
                device: Device::Cpu,
                spec: Self::Cpu,
                no_gpu: Some(reason),
                no_driver,
            },
        }
    }

    fn open_named(self, text: &str) -> Result<Device> {
        match self {
            Self::Auto | Self::Cpu => Ok(Device::Cpu),
            Self::Cuda(ordinal) => Self::open_gpu(ordinal).map_err(|NoGpu { reason, .. }| {
                let cure = "`--device cpu`, or `device: cpu` in the configuration, uses the CPU";
                unusable(text, format!("{reason}; {cure}"))
            }),
        }
    }

    #[cfg(not(feature = "gpu"))]
    fn open_gpu(_: usize) -> std::result::Result<Device, NoGpu> {
        Err(NoGpu {
            reason: "this build has no GPU support; build with the feature `gpu`".to_owned(),
            no_driver: false,
        })
    }

    #[cfg(feature = "gpu")]
    fn open_gpu(ordinal: usize) -> std::result::Result<Device, NoGpu> {
        let gpu = cascade_gpu::Device::gpu(ordinal).map(Device::Gpu);
        gpu.map_err(|error| NoGpu {
            reason: error.to_string(),
            no_driver: matches!(error, cascade_gpu::Error::NoDriver),
        })
    }
}

/// Why a GPU cannot be used.
struct NoGpu {
    reason: String,
    no_driver: bool,
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            other => other
                .strip_prefix("cuda:")
                .and_then(|ordinal| ordinal.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| unusable(text, "give auto, cpu, cuda or cuda:N".to_owned())),
        }
    }
}

fn unusable(text: &str, reason: String) -> Error {
    Error::Device {
        text: text.to_owned(),
        reason,
    }
}

/// An opened device, and how it was chosen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OpenDevice {
    /// The device.
    pub device: Device,
    /// Its name; never [`DeviceSpec::Auto`].
    pub spec: DeviceSpec,
    /// Why no GPU is used although one would have been: for [`DeviceSpec::Auto`] on the CPU.
    pub no_gpu: Option<String>,
    /// Whether that is for want of a driver: so it is on most machines, which have no GPU.
    pub no_driver: bool,
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

    /// The memory that can be had on it, if the system reports it: on the CPU within the limits of
    /// control groups and of this process, page cache included.
    ///
    /// # Errors
    /// What a GPU's driver fails with.
    pub fn free_memory(&self) -> Result<Option<FreeMemory>> {
        match self {
            Self::Cpu => Ok(memory::available()),
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => {
                let (used, all) = gpu.memory()?;
                Ok(Some(FreeMemory {
                    bytes: all - used,
                    limit: memory::MemoryLimit::Gpu,
                }))
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

/// Opens a device by its name: `auto`, `cpu`, `cuda` or `cuda:N`.
///
/// # Errors
/// [`Error::Device`] for another name, and for a GPU that is not there or cannot be used.
pub fn parse_device(text: &str) -> Result<Device> {
    let opened = text.parse::<DeviceSpec>()?.resolve_as(text)?;
    Ok(opened.device)
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
        assert!(message.contains("--device cpu"), "{message}");
    }

    #[test]
    fn names_are_read_without_opening_anything() {
        for (text, spec) in [
            ("auto", DeviceSpec::Auto),
            ("cpu", DeviceSpec::Cpu),
            ("cuda", DeviceSpec::Cuda(0)),
            (" cuda:4000 ", DeviceSpec::Cuda(4000)),
        ] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap(), spec);
            assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
        }
        assert!(DeviceSpec::Cpu.open().unwrap().is_cpu());
    }

    #[test]
    fn auto_opens_whatever_works_and_says_why_it_is_not_a_gpu() {
        let opened = DeviceSpec::Auto.resolve().unwrap();
        assert_ne!(opened.spec, DeviceSpec::Auto);
        assert_eq!(opened.device.is_cpu(), opened.spec == DeviceSpec::Cpu);
        assert_eq!(opened.device.is_cpu(), opened.no_gpu.is_some());
        let named = DeviceSpec::Cpu.resolve().unwrap();
        assert_eq!(named.no_gpu, None);
    }
}
