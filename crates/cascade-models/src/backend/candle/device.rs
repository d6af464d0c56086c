//! candle's devices, opened.

use candle_core::Device;

use crate::DeviceSpec;
use crate::memory::{self, FreeMemory, MemoryLimit};

/// A device that candle computes on. Clones are one device.
#[derive(Clone, Debug)]
pub struct CandleDevice {
    spec: DeviceSpec,
    pub(super) inner: Device,
}

impl CandleDevice {
    /// Opens a device, or says why it cannot be used.
    pub(crate) fn open(spec: DeviceSpec) -> Result<Self, String> {
        let inner: candle_core::Result<Device> = match spec {
            #[cfg(feature = "cuda")]
            DeviceSpec::Cuda(ordinal) => super::cuda::open(ordinal),
            #[cfg(feature = "metal")]
            DeviceSpec::Metal(ordinal) => Device::new_metal(ordinal),
            _ => Ok(Device::Cpu),
        };
        match inner {
            Ok(inner) => Ok(Self { spec, inner }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The device's name.
    pub(crate) fn spec(&self) -> DeviceSpec {
        self.spec
    }

    /// Whether the device is the CPU.
    pub(crate) fn is_cpu(&self) -> bool {
        self.inner.is_cpu()
    }

    /// The memory that can be had on the device, if the system or the driver reports it.
    pub(crate) fn free_memory(&self) -> Option<FreeMemory> {
        if self.is_cpu() {
            return memory::available();
        }
        #[cfg(feature = "cuda")]
        let bytes = super::cuda::free_memory(&self.inner);
        #[cfg(not(feature = "cuda"))]
        let bytes = None;
        bytes.map(|bytes| FreeMemory {
            bytes,
            limit: MemoryLimit::Gpu,
        })
    }
}
