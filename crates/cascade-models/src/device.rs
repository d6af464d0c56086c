//! Where models compute.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "candle")]
use crate::backend::candle::CandleDevice;
use crate::memory::{self, FreeMemory};
use crate::{Error, Result};

/// The name of a device: `auto`, `cpu`, `cuda:N`, `metal:N` or `candle:cpu`. `cuda` and `metal` are
/// the first GPU, and `candle:cuda:N` and `candle:metal:N` are read as the names without `candle:`.
/// Reading and writing a name opens nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceSpec {
    /// The first GPU if this build has GPUs and it can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU, with our kernels.
    Cpu,
    /// The CPU, with candle: a second engine to compare ours with.
    CandleCpu,
    /// An NVIDIA GPU, with candle, by its number, counted from 0.
    Cuda(usize),
    /// A GPU of Apple's, with candle, by its number, counted from 0.
    Metal(usize),
}

/// The first GPU of those that this build computes on.
const FIRST_GPU: Option<DeviceSpec> = if cfg!(feature = "cuda") {
    Some(DeviceSpec::Cuda(0))
} else if cfg!(feature = "metal") {
    Some(DeviceSpec::Metal(0))
} else {
    None
};

impl DeviceSpec {
    /// Opens the device.
    ///
    /// # Errors
    /// [`Error::Device`] for a device that was named and cannot be used, with what would make it
    /// usable; never for [`Auto`](Self::Auto).
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
        if self == Self::Auto {
            return Ok(Self::choose(FIRST_GPU));
        }
        let opened = self.open_named().map_err(|reason| {
            let cure = "`--device cpu`, or `device: cpu` in the configuration, uses the CPU";
            unusable(text, format!("{reason}; {cure}"))
        })?;
        Ok(OpenDevice {
            device: opened,
            spec: self,
            no_gpu: None,
        })
    }

    /// The device for [`Auto`](Self::Auto): this GPU if it can be used, else the CPU.
    fn choose(gpu: Option<Self>) -> OpenDevice {
        let cpu = |no_gpu| OpenDevice {
            device: Device::Cpu,
            spec: Self::Cpu,
            no_gpu,
        };
        match gpu.map(|gpu| (gpu, gpu.open_named())) {
            Some((spec, Ok(device))) => OpenDevice {
                device,
                spec,
                no_gpu: None,
            },
            Some((spec, Err(reason))) => cpu(Some(format!("{spec}: {reason}"))),
            None => cpu(None),
        }
    }

    fn open_named(self) -> std::result::Result<Device, String> {
        match self {
            Self::Auto | Self::Cpu => Ok(Device::Cpu),
            Self::Cuda(_) if !cfg!(feature = "cuda") => Err(not_built("NVIDIA", "cuda")),
            Self::Metal(_) if !cfg!(feature = "metal") => Err(not_built("Apple", "metal")),
            #[cfg(feature = "candle")]
            candle => CandleDevice::open(candle).map(Device::Candle),
            #[cfg(not(feature = "candle"))]
            _ => Err("this build has no candle; build with the feature `candle`".to_owned()),
        }
    }
}

/// The error of a build without a vendor's GPUs: how to build one with them.
fn not_built(vendor: &str, feature: &str) -> String {
    format!(
        "this build computes on no {vendor} GPU; `cargo build --release --package cascade-cli \
         --features {feature}` builds one that does (docs/gpu.md)"
    )
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::CandleCpu => f.write_str("candle:cpu"),
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Metal(ordinal) => write!(f, "metal:{ordinal}"),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim();
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "candle:cpu" => Ok(Self::CandleCpu),
            _ => gpu_named(name.strip_prefix("candle:").unwrap_or(name)).ok_or_else(|| {
                let known = "give auto, cpu, cuda, cuda:N, metal, metal:N or candle:cpu";
                unusable(text, known.to_owned())
            }),
        }
    }
}

fn gpu_named(name: &str) -> Option<DeviceSpec> {
    let (vendor, ordinal) = name.split_once(':').unwrap_or((name, "0"));
    let ordinal = ordinal.parse().ok()?;
    match vendor {
        "cuda" => Some(DeviceSpec::Cuda(ordinal)),
        "metal" => Some(DeviceSpec::Metal(ordinal)),
        _ => None,
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
    /// The device's name; never [`DeviceSpec::Auto`].
    pub spec: DeviceSpec,
    /// Why [`DeviceSpec::Auto`] is the CPU although this build computes on GPUs.
    pub no_gpu: Option<String>,
}

/// Where models compute, opened.
#[derive(Clone, Debug, Default)]
pub enum Device {
    /// The CPU, with our kernels.
    #[default]
    Cpu,
    /// A device of candle's: a GPU, or the CPU.
    #[cfg(feature = "candle")]
    Candle(CandleDevice),
}

impl Device {
    /// The device's name; never [`DeviceSpec::Auto`].
    pub fn spec(&self) -> DeviceSpec {
        match self {
            Self::Cpu => DeviceSpec::Cpu,
            #[cfg(feature = "candle")]
            Self::Candle(device) => device.spec(),
        }
    }

    /// Whether this is the CPU, with our kernels.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// Whether this is a GPU.
    pub fn is_gpu(&self) -> bool {
        match self {
            Self::Cpu => false,
            #[cfg(feature = "candle")]
            Self::Candle(device) => !device.is_cpu(),
        }
    }

    /// The memory that can be had on the device, if it is reported: on the CPU within the limits of
    /// control groups and of this process, page cache included.
    pub fn free_memory(&self) -> Option<FreeMemory> {
        match self {
            Self::Cpu => memory::available(),
            #[cfg(feature = "candle")]
            Self::Candle(device) => device.free_memory(),
        }
    }

    /// The most bytes that this process has held at once, for whatever purpose, if models compute
    /// in the host's memory and the system reports it.
    pub fn peak_memory(&self) -> Option<usize> {
        if self.is_gpu() { None } else { memory::peak() }
    }
}

/// Opens a device by its name, as [`DeviceSpec`] reads it.
///
/// # Errors
/// [`Error::Device`] for another name, and for a device that cannot be used.
pub fn parse_device(text: &str) -> Result<Device> {
    let opened = text.parse::<DeviceSpec>()?.resolve_as(text)?;
    Ok(opened.device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_are_refused_with_those_that_there_are() {
        assert!(parse_device("cpu").unwrap().is_cpu());
        for text in [
            "gpu",
            "cuda:x",
            "metal:-1",
            "candle",
            "candle:cpu:0",
            "cpu:0",
            "",
        ] {
            let message = parse_device(text).unwrap_err().to_string();
            assert!(message.contains("cuda:N, metal"), "{message}");
        }
    }

    #[test]
    fn names_are_read_without_opening_anything() {
        for (text, spec) in [
            ("auto", DeviceSpec::Auto),
            ("cpu", DeviceSpec::Cpu),
            ("cuda", DeviceSpec::Cuda(0)),
            (" cuda:4000 ", DeviceSpec::Cuda(4000)),
            ("metal", DeviceSpec::Metal(0)),
            ("metal:1", DeviceSpec::Metal(1)),
            ("candle:cpu", DeviceSpec::CandleCpu),
            ("candle:cuda", DeviceSpec::Cuda(0)),
            ("candle:cuda:2", DeviceSpec::Cuda(2)),
            ("candle:metal:1", DeviceSpec::Metal(1)),
        ] {
            assert_eq!(text.parse::<DeviceSpec>().unwrap(), spec);
            assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
        }
        assert!(DeviceSpec::Cpu.open().unwrap().is_cpu());
    }

    #[test]
    fn gpus_that_cannot_be_used_say_what_would_make_them_usable() {
        let features = [cfg!(feature = "cuda"), cfg!(feature = "metal")];
        for (name, built) in ["cuda", "metal"].into_iter().zip(features) {
            // No machine has so many.
            let text = format!("{name}:4000");
            let message = parse_device(&text).unwrap_err().to_string();
            assert!(message.contains(&text), "{message}");
            assert!(message.contains("--device cpu"), "{message}");
            let cure = format!("--package cascade-cli --features {name}");
            assert_eq!(message.contains(&cure), !built, "{message}");
        }
    }

    #[test]
    fn auto_is_the_cpu_unless_a_gpu_can_be_used() {
        let opened = DeviceSpec::Auto.resolve().unwrap();
        assert_eq!(opened.device.is_cpu(), opened.spec == DeviceSpec::Cpu);
        // Where this build has no GPUs, nobody expects one.
        assert!(FIRST_GPU.is_some() || opened.no_gpu.is_none());
        let opened = DeviceSpec::choose(Some(DeviceSpec::Cuda(4000)));
        assert!(opened.device.is_cpu());
        assert!(opened.no_gpu.unwrap().contains("cuda:4000"));
        assert_eq!(DeviceSpec::Cpu.resolve().unwrap().no_gpu, None);
    }
}
