//! Where models compute.

use crate::{memory, Error, Result};

/// Where models compute.
#[derive(Clone, Debug, Default)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU.
    Gpu(cascade_gpu::Device),
}

impl Device {
    /// Whether it is the processor.
    pub fn is_cpu(&self) -> bool {
        matches!(self, Self::Cpu)
    }

    /// Bytes of its memory that are free, if the system tells.
    pub(crate) fn free_memory(&self) -> Result<Option<usize>> {
        match self {
            Self::Cpu => Ok(memory::available()),
            Self::Gpu(gpu) => {
                let (used, all) = gpu.memory()?;
                Ok(Some(all - used))
            }
        }
    }

    /// The most bytes that were allocated on it at once: on a GPU through this handle and its clones, on the CPU by this
    /// process, for whatever purpose, if the system tells.
    pub fn peak_memory(&self) -> Option<usize> {
        match self {
            Self::Cpu => memory::peak(),
            Self::Gpu(gpu) => Some(gpu.peak()),
        }
    }
}

/// Reads the name of a device: `cpu`, `cuda` or `cuda:N`.
///
/// # Errors
/// [`Error::Device`] for another name, and for a GPU that is not there or cannot be used.
pub fn parse_device(text: &str) -> Result<Device> {
    let fail = |reason: String| Error::Device {
        text: text.to_owned(),
        reason,
    };
    let ordinal = match text.trim() {
        "cpu" => return Ok(Device::Cpu),
        "cuda" => 0,
        other => other
            .strip_prefix("cuda:")
            .and_then(|ordinal| ordinal.parse().ok())
            .ok_or_else(|| fail("give cpu, cuda or cuda:N".to_owned()))?,
    };
    let gpu = cascade_gpu::Device::gpu(ordinal);
    gpu.map(Device::Gpu)
        .map_err(|error| fail(error.to_string()))
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
}
