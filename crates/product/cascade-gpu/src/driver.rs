//! NVIDIA's driver: the only place that talks to a GPU.
//!
//! The library is opened at run time, so that a program starts where there is none. Everything runs
//! on one stream, in the order of calls, whichever thread they come from.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{c_void, CString};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use crate::launch::{Kernel, Launch, PTX_80, PTX_90};
use crate::{Address, Error, Result};

/// A GPU: its primary context, streams, and the kernels.
#[derive(Debug)]
pub(crate) struct Gpu {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// A stream on which launches are recorded, by one thread at a time, and nothing runs: another
    /// thread's calls would get into what is recorded.
    recorder: Mutex<sys::CUstream>,
    functions: HashMap<&'static str, sys::CUfunction>,
    /// Whether a recorded launch may start while the one before it is still at work: see
    /// `wait_for_kernel_before` in the kernels.
    overlap: bool,
    /// Pinned memory that copies to the host pass through: the driver copies to it without a
    /// detour.
    bounce: Mutex<Bounce>,
}

// SAFETY: handles of the driver may be used from any thread, as long as the context is current
// there, which every method sees to.
unsafe impl Send for Gpu {}
// SAFETY: the driver locks its own state; the stream keeps the order of calls.
unsafe impl Sync for Gpu {}

/// Launches that the GPU runs as one.
#[derive(Debug)]
pub(crate) struct Graph {
    graph: sys::CUgraph,
    executable: sys::CUgraphExec,
}

// SAFETY: as for `Gpu`. A graph is launched by one thread at a time: whoever owns it holds it
// exclusively.
unsafe impl Send for Graph {}

#[derive(Debug)]
struct Bounce {
    start: *mut c_void,
    bytes: usize,
}

impl Gpu {
    pub(crate) fn new(ordinal: usize) -> Result<Self> {
        // SAFETY: opens the library and closes it again.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::NoDriver);
        }
        result::init().map_err(of("cuInit"))?;
        let count = result::device::get_count().map_err(of("cuDeviceGetCount"))? as usize;
        if ordinal >= count {
            return Err(Error::NoDevice { ordinal, count });
        }
        let device = result::device::get(ordinal as i32).map_err(of("cuDeviceGet"))?;
        let capability = capability(device)?;
        // SAFETY: the device is valid; the context is never released, as a process has one per
        // device.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = context.map_err(of("cuDevicePrimaryCtxRetain"))?;
        // SAFETY: the context is valid.
        unsafe { result::ctx::set_current(context) }.map_err(of("cuCtxSetCurrent"))?;
        let stream = || {
            result::stream::create(result::stream::StreamKind::NonBlocking)
                .map_err(of("cuStreamCreate"))
        };
        Ok(Self {
            device,
            context,
            stream: stream()?,
            recorder: Mutex::new(stream()?),
            functions: load_kernels(capability)?,
            overlap: capability.0 >= 9 && std::env::var_os("CASCADE_GPU_OVERLAP").is_some(),
            bounce: Mutex::new(Bounce {
                start: std::ptr::null_mut(),
                bytes: 0,
            }),
        })
    }

    /// Its name, as the driver reports it.
    pub(crate) fn name(&self) -> String {
        result::device::get_name(self.device).unwrap_or_else(|_| "a GPU".to_owned())
    }

    /// Bytes of memory that are free, and all of them.
    pub(crate) fn memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        result::mem_get_info().map_err(of("cuMemGetInfo"))
    }

    fn bind(&self) -> Result<()> {
        // SAFETY: the context is valid as long as the process lives.
        unsafe { result::ctx::set_current(self.context) }.map_err(of("cuCtxSetCurrent"))
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<Address> {
        self.bind()?;
        // SAFETY: nothing reads the memory before it is written, but for padding that no result
        // depends on.
        match unsafe { result::malloc_sync(bytes.max(1)) } {
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Err(Error::OutOfMemory {
                bytes,
                free: self.memory().map_or(0, |(free, _)| free),
            }),
            address => address.map_err(of("cuMemAlloc")),
        }
    }

    /// Frees memory once everything under way is done.
    pub(crate) fn free(&self, address: Address) {
        // Nothing can be done about a failure here, and the process' end frees everything.
        if self.bind().and_then(|()| self.synchronize()).is_ok() {
            // SAFETY: the address is of an allocation that nobody uses any more.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    pub(crate) fn upload(&self, to: Address, bytes: &[u8]) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller (`Buffer`) has checked that the bytes lie within an allocation that it
        // owns. The driver has read pageable memory of the host when the call returns.
        unsafe { result::memcpy_htod_async(to, bytes, self.stream) }.map_err(of("cuMemcpyHtoD"))
    }

    /// Copies to the host what is there once everything under way is done.
    pub(crate) fn download(&self, from: Address, bytes: &mut [u8]) -> Result<()> {
        self.bind()?;
        let mut bounce = self.bounce.lock().unwrap_or_else(PoisonError::into_inner);
        bounce.reserve(bytes.len())?;
        // SAFETY: the pinned memory is as long as `bytes`, and locked; the copy is done when the
        // stream is.
        unsafe {
            let pinned = std::slice::from_raw_parts_mut(bounce.start.cast::<u8>(), bytes.len());
            result::memcpy_dtoh_async(pinned, from, self.stream).map_err(of("cuMemcpyDtoH"))?;
            self.synchronize()?;
            bytes.copy_from_slice(pinned);
        }
        Ok(())
    }

    pub(crate) fn zero(&self, at: Address, bytes: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller (`Buffer`) owns the bytes.
        unsafe { result::memset_d8_async(at, 0, bytes, self.stream) }.map_err(of("cuMemsetD8"))
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream is valid.
        unsafe { result::stream::synchronize(self.stream) }.map_err(of("cuStreamSynchronize"))
    }

    pub(crate) fn launch(&self, launch: &Launch) -> Result<()> {
        self.launch_on(self.stream, launch)
    }

    fn launch_on(&self, stream: sys::CUstream, launch: &Launch) -> Result<()> {
        self.bind()?;
        let function = self.functions[launch.kernel.name()];
        let [x, y, z] = launch.grid;
        let mut parameters = [launch.arguments.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: arguments have the layout that the kernel expects (compared in a test), and their
        // addresses are of buffers that live as long as the launch is known to anyone. That kernels
        // stay within them is tested in the emulator.
        unsafe {
            let block = (launch.threads, 1, 1);
            result::launch_kernel(function, (x, y, z), block, 0, stream, &mut parameters)
        }
        .map_err(of("cuLaunchKernel"))
    }

    /// The same, but it may start while the launch before it is still at work.
    fn launch_overlapping(&self, stream: sys::CUstream, launch: &Launch) -> Result<()> {
        let [x, y, z] = launch.grid;
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue {
                programmaticStreamSerializationAllowed: 1,
            },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: stream,
            attrs: &mut attribute,
            numAttrs: 1,
        };
        let function = self.functions[launch.kernel.name()];
        let mut parameters = [launch.arguments.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: as for `launch`. Kernels of recorded forwards wait for the one before them.
        unsafe {
            sys::cuLaunchKernelEx(
                &config,
                function,
                parameters.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
        .result()
        .map_err(of("cuLaunchKernelEx"))
    }

    /// Records launches, to be run as one.
    pub(crate) fn record(&self, launches: &[Launch]) -> Result<Graph> {
        self.bind()?;
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = *recorder;
        // SAFETY: the stream is valid; the capture is ended whatever happens in between. A graph
        // that fails to become executable is destroyed.
        unsafe {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            result::stream::begin_capture(stream, mode).map_err(of("cuStreamBeginCapture"))?;
            let launched = launches.iter().try_for_each(|launch| match self.overlap {
                true => self.launch_overlapping(stream, launch),
                false => self.launch_on(stream, launch),
            });
            let graph = result::stream::end_capture(stream).map_err(of("cuStreamEndCapture"));
            launched?;
            let graph = graph?;
            match result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) {
                Ok(executable) => Ok(Graph { graph, executable }),
                Err(error) => {
                    let _ = result::graph::destroy(graph);
                    Err(of("cuGraphInstantiate")(error))
                }
            }
        }
    }

    pub(crate) fn replay(&self, graph: &Graph) -> Result<()> {
        self.bind()?;
        // SAFETY: both are valid.
        unsafe { result::graph::launch(graph.executable, self.stream) }.map_err(of("cuGraphLaunch"))
    }

    /// Seconds that the GPU takes for what `work` puts on the stream.
    pub(crate) fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.bind()?;
        let flags = sys::CUevent_flags::CU_EVENT_DEFAULT;
        let start = result::event::create(flags).map_err(of("cuEventCreate"))?;
        let end = result::event::create(flags).map_err(of("cuEventCreate"))?;
        // SAFETY: events and stream are valid, and events are destroyed once.
        unsafe {
            let timed = (|| {
                result::event::record(start, self.stream).map_err(of("cuEventRecord"))?;
                work()?;
                result::event::record(end, self.stream).map_err(of("cuEventRecord"))?;
                result::event::synchronize(end).map_err(of("cuEventSynchronize"))?;
                result::event::elapsed(start, end).map_err(of("cuEventElapsedTime"))
            })();
            let _ = result::event::destroy(start);
            let _ = result::event::destroy(end);
            Ok(f64::from(timed?) / 1e3)
        }
    }
}

impl Bounce {
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let wanted = bytes.next_power_of_two().max(1 << 16);
        // SAFETY: the old memory is ours, and no copy to it is under way: whoever starts one holds
        // the lock until it is done.
        unsafe {
            if !self.start.is_null() {
                let _ = result::free_host(self.start);
                *self = Self {
                    start: std::ptr::null_mut(),
                    bytes: 0,
                };
            }
            self.start = result::malloc_host(wanted, 0).map_err(of("cuMemHostAlloc"))?;
        }
        self.bytes = wanted;
        Ok(())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: both are valid and used no more. Failures cannot be helped, and leak a little
        // memory.
        unsafe {
            let _ = result::graph::exec_destroy(self.executable);
            let _ = result::graph::destroy(self.graph);
        }
    }
}

/// Major and minor number of the compute capability, if it is one that kernels are made for.
fn capability(device: sys::CUdevice) -> Result<(i32, i32)> {
    use sys::CUdevice_attribute as Attribute;
    // SAFETY: the device is valid.
    let get = |attribute| {
        unsafe { result::device::get_attribute(device, attribute) }
            .map_err(of("cuDeviceGetAttribute"))
    };
    let major = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    if major >= 8 {
        return Ok((major, minor));
    }
    let name = result::device::get_name(device).map_err(of("cuDeviceGetName"))?;
    Err(Error::TooOld { name, major, minor })
}

fn load_kernels(capability: (i32, i32)) -> Result<HashMap<&'static str, sys::CUfunction>> {
    let broken = |error: DriverError| Error::Kernels {
        reason: describe(error),
    };
    let ptx = if capability.0 >= 9 { PTX_90 } else { PTX_80 };
    let text = CString::new(ptx).map_err(|error| Error::Kernels {
        reason: error.to_string(),
    })?;
    // SAFETY: the text ends with a zero. The module is never unloaded.
    let module = unsafe { result::module::load_data(text.as_ptr().cast()) }.map_err(broken)?;
    let function = |kernel: &Kernel| {
        let name =
            CString::new(format!("cascade_{}", kernel.name())).map_err(|error| Error::Kernels {
                reason: error.to_string(),
            })?;
        // SAFETY: the module is valid.
        let function = unsafe { result::module::get_function(module, name) }.map_err(broken)?;
        // Loaded now, not at its first launch, which may be while launches are recorded.
        // SAFETY: the function is valid.
        unsafe { sys::cuFuncLoad(function) }
            .result()
            .map_err(broken)?;
        Ok((kernel.name(), function))
    };
    Kernel::ALL.iter().map(function).collect()
}

fn of(call: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Driver {
        call,
        reason: describe(error),
    }
}

fn describe(error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy());
    text.map_or_else(|_| format!("{:?}", error.0), |text| text.into_owned())
}
