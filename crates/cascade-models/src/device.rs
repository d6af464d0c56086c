//! Where models compute.

use std::fmt;
use std::str::FromStr;

use crate::memory::{self, FreeMemory};
use crate::{Error, Result};

/// The name of a device: `auto` (the first GPU if it can be used, else the CPU), `cpu`, `cuda` (the
/// first GPU) or `cuda:N`; or one of candle's, the second engine: `candle:cpu`, `candle:cuda:N` or
/// `candle:metal:N`. Reading and writing it opens nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceSpec {
    /// The first GPU if it can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU, by its number, counted from 0: with our kernels, or candle's if it cannot be
    /// used with ours and this build has them.
    Cuda(usize),
    /// A device of candle's, with its kernels.
    Candle(CandlePlace),
}

/// Where candle computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CandlePlace {
    /// The CPU.
    Cpu,
    /// An NVIDIA GPU, by its number, counted from 0.
    Cuda(usize),
    /// A GPU of Apple's, by its number, counted from 0.
    Metal(usize),
}

impl fmt::Display for CandlePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("candle:cpu"),
            Self::Cuda(ordinal) => write!(f, "candle:cuda:{ordinal}"),
            Self::Metal(ordinal) => write!(f, "candle:metal:{ordinal}"),
        }
    }
}

impl CandlePlace {
    /// Reads what stands after `candle:`.
    fn named(text: &str) -> Option<Self> {
        let (kind, ordinal) = text.split_once(':').unwrap_or((text, "0"));
        let ordinal = ordinal.parse().ok()?;
        match kind {
            "cpu" if kind == text => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(ordinal)),
            "metal" => Some(Self::Metal(ordinal)),
            _ => None,
        }
    }

    #[cfg(feature = "candle")]
    fn open(self) -> std::result::Result<Device, String> {
        let place = match self {
            Self::Cpu => cascade_candle::Place::Cpu,
            Self::Cuda(ordinal) => cascade_candle::Place::Cuda(ordinal),
            Self::Metal(ordinal) => cascade_candle::Place::Metal(ordinal),
        };
        let opened = cascade_candle::Device::open(place);
        opened.map(Device::Candle).map_err(|error| match error {
            cascade_candle::Error::Device { reason, .. } => reason,
            other => other.to_string(),
        })
    }

    #[cfg(not(feature = "candle"))]
    fn open(self) -> std::result::Result<Device, String> {
        Err("this build has no candle; build with the feature `candle`".to_owned())
    }
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
            named => named.open_named(text),
        }
    }

    /// The first GPU if it can be used, else the CPU.
    fn choose() -> OpenDevice {
        const FIRST: DeviceSpec = DeviceSpec::Cuda(0);
        match Self::open_gpu(0) {
            Ok(device) => OpenDevice::new(device, FIRST),
            Err(no_gpu) => Self::with_candle(0, &no_gpu.reason).unwrap_or(OpenDevice {
                no_gpu: Some(no_gpu.reason),
                no_driver: no_gpu.no_driver,
                ..OpenDevice::new(Device::Cpu, Self::Cpu)
            }),
        }
    }

    /// A GPU that cannot be used with our kernels for some reason, with candle's if they can.
    fn with_candle(ordinal: usize, reason: &str) -> Option<OpenDevice> {
        let place = CandlePlace::Cuda(ordinal);
        let device = place.open().ok()?;
        Some(OpenDevice {
            fallback: Some(format!("cuda:{ordinal} computes with candle: {reason}")),
            ..OpenDevice::new(device, Self::Candle(place))
        })
    }

    fn open_named(self, text: &str) -> Result<OpenDevice> {
        let unusable = |reason: String| {
            let cure = "`--device cpu`, or `device: cpu` in the configuration, uses the CPU";
            unusable(text, format!("{reason}; {cure}"))
        };
        match self {
            Self::Auto | Self::Cpu => Ok(OpenDevice::new(Device::Cpu, Self::Cpu)),
            Self::Cuda(ordinal) => match Self::open_gpu(ordinal) {
                Ok(device) => Ok(OpenDevice::new(device, self)),
                Err(NoGpu { reason, .. }) => {
                    Self::with_candle(ordinal, &reason).ok_or_else(|| unusable(reason))
                }
            },
            Self::Candle(place) => match place.open() {
                Ok(device) => Ok(OpenDevice::new(device, self)),
                Err(reason) => Err(unusable(reason)),
            },
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
            Self::Candle(place) => place.fmt(f),
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
            other => named(other).ok_or_else(|| {
                let known =
                    "give auto, cpu, cuda, cuda:N, candle:cpu, candle:cuda:N or candle:metal";
                unusable(text, known.to_owned())
            }),
        }
    }
}

fn named(text: &str) -> Option<DeviceSpec> {
    if let Some(place) = text.strip_prefix("candle:") {
        return CandlePlace::named(place).map(DeviceSpec::Candle);
    }
    let ordinal = text.strip_prefix("cuda:")?.parse().ok()?;
    Some(DeviceSpec::Cuda(ordinal))
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
    /// Why a GPU computes with another engine than ours, in a sentence.
    pub fallback: Option<String>,
}

impl OpenDevice {
    fn new(device: Device, spec: DeviceSpec) -> Self {
        Self {
            device,
            spec,
            no_gpu: None,
            no_driver: false,
            fallback: None,
        }
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
    /// A device of candle's.
    #[cfg(feature = "candle")]
    Candle(cascade_candle::Device),
}

impl Device {
    /// Whether it is the CPU, with our own kernels.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// Whether it is a GPU, with whatever kernels.
    pub fn is_gpu(&self) -> bool {
        match self {
            Self::Cpu => false,
            #[cfg(feature = "gpu")]
            Self::Gpu(_) => true,
            #[cfg(feature = "candle")]
            Self::Candle(device) => device.place() != cascade_candle::Place::Cpu,
        }
    }

    /// Whether it is a GPU with our own kernels.
    pub(crate) fn is_own_gpu(&self) -> bool {
        match self {
            Self::Cpu => false,
            #[cfg(feature = "gpu")]
            Self::Gpu(_) => true,
            #[cfg(feature = "candle")]
            Self::Candle(_) => false,
        }
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
            #[cfg(feature = "candle")]
            Self::Candle(device) => Ok(match device.place() {
                cascade_candle::Place::Cpu => memory::available(),
                _ => device.memory().map(|(bytes, _)| FreeMemory {
                    bytes,
                    limit: memory::MemoryLimit::Gpu,
                }),
            }),
        }
    }

    /// The most bytes that were allocated on it at once: on a GPU through this handle and its
    /// clones, on the CPU by this process, for whatever purpose, if the system reports them.
    pub fn peak_memory(&self) -> Option<usize> {
        match self {
            Self::Cpu => memory::peak(),
            #[cfg(feature = "gpu")]
            Self::Gpu(gpu) => Some(gpu.peak()),
            #[cfg(feature = "candle")]
            Self::Candle(device) => match device.place() {
                cascade_candle::Place::Cpu => memory::peak(),
                _ => None,
            },
        }
    }
}

/// Opens a device by its name, as [`DeviceSpec`] reads it.
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
        for (text, cure) in [
            ("gpu", "cuda:N"),
            ("cuda:x", "cuda:N"),
            ("candle", "candle:cpu"),
            ("candle:cpu:0", "candle:cpu"),
            ("", "cpu"),
        ] {
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
            ("candle:cpu", DeviceSpec::Candle(CandlePlace::Cpu)),
            ("candle:cuda", DeviceSpec::Candle(CandlePlace::Cuda(0))),
            ("candle:metal:1", DeviceSpec::Candle(CandlePlace::Metal(1))),
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
        assert!(!opened.device.is_cpu() || opened.fallback.is_none());
        let named = DeviceSpec::Cpu.resolve().unwrap();
        assert_eq!(named.no_gpu, None);
    }
}
