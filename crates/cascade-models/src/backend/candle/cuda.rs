//! NVIDIA GPUs: how candle's device is opened, and what candle does not tell of it.
#![allow(unsafe_code)]

use candle_core::cuda_backend::cudarc::driver::{CudaContext, DriverError, result, sys};
use candle_core::{Device, Error, Result};

/// Opens the GPU with this number.
pub(super) fn open(ordinal: usize) -> Result<Device> {
    let device = Device::new_cuda_with_stream(ordinal)?;
    let cuda = device.as_cuda_device()?;
    // SAFETY: everything runs on the one stream that was opened with the device, whichever thread
    // it comes from, and tensors of one device do not get to another. So nothing is read before it
    // is written, or freed before it is read.
    unsafe { cuda.disable_event_tracking() };
    keep_memory(cuda.cuda_stream().context()).map_err(Error::wrap)?;
    Ok(device)
}

/// Lets the device keep freed memory: by default it gives it back to the system whenever somebody
/// waits for the device, which is once a forward.
fn keep_memory(context: &CudaContext) -> std::result::Result<(), DriverError> {
    let mut all = u64::MAX;
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the device is that of the context, and the attribute is read as 64 bits.
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut all).cast()).result()
    }
}

/// Bytes of memory that are free, if the driver knows.
pub(super) fn free_memory(device: &Device) -> Option<usize> {
    let cuda = device.as_cuda_device().ok()?;
    cuda.cuda_stream().context().bind_to_thread().ok()?;
    result::mem_get_info().ok().map(|(free, _)| free)
}
