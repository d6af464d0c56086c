//! NVIDIA GPUs: how candle's device is opened, and what it does not tell.
#![allow(unsafe_code)]

use candle_core::Device;
use cudarc::driver::{result, sys, CudaContext, DriverError};

/// Libraries that are opened when first called, where a program was linked as
/// `scripts/cuda-toolkit.sh` says; the names that one after the other are tried for each.
const LIBRARIES: [&[&str]; 3] = [
    &["libcuda.so.1", "libcuda.so"],
    &["libcublas.so.13", "libcublas.so.12"],
    &["libcurand.so.10"],
];

/// Opens a GPU.
pub(crate) fn open(ordinal: usize) -> Result<Device, String> {
    let opened = Device::new_cuda_with_stream(ordinal).and_then(|device| {
        let cuda = device.as_cuda_device()?;
        // SAFETY: everything runs on the one stream that was opened with the device, whichever
        // thread it comes from, and tensors of one device do not get to another. So nothing is read
        // before it is written, or freed before it is read.
        unsafe { cuda.disable_event_tracking() };
        keep_memory(cuda.cuda_stream().context()).map_err(candle_core::Error::wrap)?;
        Ok(device)
    });
    opened.map_err(|error| match &missing()[..] {
        [] => error.to_string(),
        missing => format!(
            "the loader does not find {} (of NVIDIA's driver and CUDA libraries; LD_LIBRARY_PATH \
             says where else to look)",
            missing.join(", ")
        ),
    })
}

/// Lets the device keep memory that was freed: by default it gives it back to the system whenever
/// somebody waits for it, that is, once a forward.
fn keep_memory(context: &CudaContext) -> Result<(), DriverError> {
    let mut all = u64::MAX;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the device is that of the context, and the attribute is read as 64 bits.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut all).cast()).result()
    }
}

/// Bytes of memory that are free, and all of them, if the driver knows.
pub(crate) fn memory(device: &Device) -> Option<(usize, usize)> {
    let cuda = device.as_cuda_device().ok()?;
    cuda.cuda_stream().context().bind_to_thread().ok()?;
    result::mem_get_info().ok()
}

/// The libraries that are not where the loader looks, by their first names.
fn missing() -> Vec<&'static str> {
    // SAFETY: what NVIDIA's libraries do when they are opened, they also do for candle.
    let opens = |name: &&str| unsafe { libloading::Library::new(*name) }.is_ok();
    let of_linux = LIBRARIES.iter().filter(|_| cfg!(target_os = "linux"));
    let missing = of_linux.filter(|names| !names.iter().any(opens));
    missing.map(|names| names[0]).collect()
}
