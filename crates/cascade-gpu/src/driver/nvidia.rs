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

use super::{Driver, Facts};
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
    module: sys::CUmodule,
    functions: HashMap<&'static str, sys::CUfunction>,
    version: DriverVersion,
    capability: (i32, i32),
    /// Blocks of a linear map that it holds at once.
    slots: usize,
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

/// Launches that a GPU runs as one.
#[derive(Debug)]
pub struct Graph {
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
        if library().is_none() {
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
        let version = DriverVersion::read()?;
        let kernels = Kernels::load(capability, version)?;
        let slots = kernels.slots(device, Kernel::LinearBf16x1)?;
        Ok(Self {
            device,
            context,
            stream: stream()?,
            recorder: Mutex::new(stream()?),
            module: kernels.module,
            functions: kernels.functions,
            version,
            capability,
            slots,
            overlap: overlap_wanted() && can_overlap(capability, version),
            bounce: Mutex::new(Bounce {
                start: std::ptr::null_mut(),
                bytes: 0,
            }),
        })
    }

    /// Bytes of memory that are free, and all of them.
    fn free_memory(&self) -> Result<(usize, usize)> {
        self.bind()?;
        result::mem_get_info().map_err(of("cuMemGetInfo"))
    }

    fn bind(&self) -> Result<()> {
        // SAFETY: the context is valid as long as the process lives.
        unsafe { result::ctx::set_current(self.context) }.map_err(of("cuCtxSetCurrent"))
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
}

impl Driver for Gpu {
    fn facts(&self) -> Facts {
        let name = result::device::get_name(self.device);
        Facts {
            name: name.unwrap_or_else(|_| "a GPU".to_owned()),
            driver: self.version.to_string(),
            capability: self.capability,
            slots: self.slots,
            overlaps: self.overlap,
            can_overlap: can_overlap(self.capability, self.version),
        }
    }

    fn memory(&self) -> Result<(usize, usize)> {
        let (free, all) = self.free_memory()?;
        Ok((all - free, all))
    }

    fn allocate(&self, bytes: usize) -> Result<Address> {
        self.bind()?;
        // SAFETY: nothing reads the memory before it is written, but for padding that no result
        // depends on.
        match unsafe { result::malloc_sync(bytes.max(1)) } {
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Err(Error::OutOfMemory {
                bytes,
                free: self.free_memory().map_or(0, |(free, _)| free),
            }),
            address => address.map_err(of("cuMemAlloc")),
        }
    }

    /// Frees memory once everything under way is done.
    fn free(&self, address: Address) {
        // Nothing can be done about a failure here, and the process' end frees everything.
        if self.bind().and_then(|()| self.synchronize()).is_ok() {
            // SAFETY: the address is of an allocation that nobody uses any more.
            let _ = unsafe { result::free_sync(address) };
        }
    }

    fn upload(&self, to: Address, bytes: &[u8]) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller (`Buffer`) has checked that the bytes lie within an allocation that it
        // owns. The driver has read pageable memory of the host when the call returns.
        unsafe { result::memcpy_htod_async(to, bytes, self.stream) }.map_err(of("cuMemcpyHtoD"))
    }

    /// Copies to the host what is there once everything under way is done.
    fn download(&self, from: Address, bytes: &mut [u8]) -> Result<()> {
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

    fn zero(&self, at: Address, bytes: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller (`Buffer`) owns the bytes.
        unsafe { result::memset_d8_async(at, 0, bytes, self.stream) }.map_err(of("cuMemsetD8"))
    }

    fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream is valid.
        unsafe { result::stream::synchronize(self.stream) }.map_err(of("cuStreamSynchronize"))
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
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

    fn launch(&self, launch: &Launch) -> Result<()> {
        self.launch_on(self.stream, launch)
    }

    fn record(&self, launches: &[Launch]) -> Result<Option<Graph>> {
        self.bind()?;
        let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = *recorder;
        // SAFETY: the stream is valid; the capture is ended whatever happens in between. A graph
        // that fails to become executable is destroyed.
        unsafe {
            let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            result::stream::begin_capture(stream, mode).map_err(of("cuStreamBeginCapture"))?;
            let launched = launches.iter().try_for_each(|launch| {
                if self.overlap {
                    self.launch_overlapping(stream, launch)
                } else {
                    self.launch_on(stream, launch)
                }
            });
            let graph = result::stream::end_capture(stream).map_err(of("cuStreamEndCapture"));
            launched?;
            let graph = graph?;
            match result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) {
                Ok(executable) => Ok(Some(Graph { graph, executable })),
                Err(error) => {
                    let _ = result::graph::destroy(graph);
                    Err(of("cuGraphInstantiate")(error))
                }
            }
        }
    }

    fn run(&self, launches: &[Launch], graph: Option<&Graph>) -> Result<()> {
        let Some(graph) = graph else {
            return launches.iter().try_for_each(|launch| self.launch(launch));
        };
        self.bind()?;
        // SAFETY: both are valid.
        unsafe { result::graph::launch(graph.executable, self.stream) }.map_err(of("cuGraphLaunch"))
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

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.bind().is_err() {
            return;
        }
        let bounce = self
            .bounce
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let recorder = *self
            .recorder
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nobody has a handle any more, so that nothing is under way once the stream is
        // done. Failures cannot be helped, and leak a little.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            if !bounce.start.is_null() {
                let _ = result::free_host(bounce.start);
            }
            let _ = result::stream::destroy(self.stream);
            let _ = result::stream::destroy(recorder);
            let _ = result::module::unload(self.module);
        }
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

/// Whether `CASCADE_GPU_OVERLAP` asks for launches that overlap.
fn overlap_wanted() -> bool {
    std::env::var_os("CASCADE_GPU_OVERLAP").is_some_and(|value| value != "0" && !value.is_empty())
}

/// Whether a recorded launch can start before the one before it has ended: GPUs have the
/// instructions from compute capability 9.0 on, and drivers record it from CUDA 12.3 on.
fn can_overlap(capability: (i32, i32), version: DriverVersion) -> bool {
    capability.0 >= 9 && version >= DriverVersion::cuda(12, 3)
}

/// The kernels, compiled for the GPU.
struct Kernels {
    module: sys::CUmodule,
    functions: HashMap<&'static str, sys::CUfunction>,
}

/// Bytes of the assembler's messages that are kept.
const LOG: usize = 8192;

impl Kernels {
    fn load(capability: (i32, i32), version: DriverVersion) -> Result<Self> {
        let ptx = match capability.0 {
            ..9 => &PTX_80,
            _ => &PTX_90,
        };
        let broken = |reason: String, log: &str| Error::Kernels {
            reason,
            log: log.trim().to_owned(),
            driver: version.to_string(),
            needed: needed(capability).to_string(),
        };
        let text = CString::new(ptx.as_str()).map_err(|error| broken(error.to_string(), ""))?;
        let module = assemble(&text).map_err(|(error, log)| broken(describe(error), &log))?;
        let broken = |error: DriverError| broken(describe(error), "");
        let function = |kernel: &Kernel| {
            let name = CString::new(format!("cascade_{}", kernel.name())).unwrap_or_default();
            // SAFETY: the module is valid.
            let function = unsafe { result::module::get_function(module, name) }.map_err(broken)?;
            load_now(function, version).map_err(broken)?;
            Ok((kernel.name(), function))
        };
        let functions = Kernel::ALL.iter().map(function).collect::<Result<_>>()?;
        Ok(Self { module, functions })
    }

    /// Blocks of a kernel that a device holds at once.
    fn slots(&self, device: sys::CUdevice, kernel: Kernel) -> Result<usize> {
        use sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as COUNT;
        // SAFETY: the device is valid.
        let count = unsafe { result::device::get_attribute(device, COUNT) };
        let count = count.map_err(of("cuDeviceGetAttribute"))?;
        let mut blocks = 0;
        // SAFETY: the function is valid, and the result can be written.
        unsafe {
            let function = self.functions[kernel.name()];
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, 256, 0)
        }
        .result()
        .map_err(of("cuOccupancyMaxActiveBlocksPerMultiprocessor"))?;
        Ok((count.max(1) * blocks.max(1)) as usize)
    }
}

/// The first driver that understands the kernels for a compute capability: see
/// `scripts/compile-kernels.sh`.
fn needed(capability: (i32, i32)) -> DriverVersion {
    match capability {
        (10.., _) => DriverVersion::cuda(12, 8),
        (9, _) => DriverVersion::cuda(11, 8),
        (8, 9) => DriverVersion::cuda(11, 8),
        _ => DriverVersion::cuda(11, 4),
    }
}

/// Lets the driver compile a PTX module; if it does not, what its assembler says. The module is
/// unloaded with its GPU.
fn assemble(text: &CString) -> std::result::Result<sys::CUmodule, (DriverError, String)> {
    use sys::CUjit_option_enum::{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    let mut log = vec![0u8; LOG];
    let mut options = [CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // Values are passed in place of pointers.
    let mut values = [log.as_mut_ptr().cast::<c_void>(), LOG as *mut c_void];
    let mut module = std::ptr::null_mut();
    // SAFETY: the text ends with a zero, the options are as many as the values, and the log has as
    // many bytes as its option says.
    let loaded = unsafe {
        let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
        sys::cuModuleLoadDataEx(&mut module, text.as_ptr().cast(), 2, options, values)
    };
    let said = || {
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(LOG);
        String::from_utf8_lossy(&log[..end]).into_owned()
    };
    loaded
        .result()
        .map(|()| module)
        .map_err(|error| (error, said()))
}

/// The driver's library, if there is one. `cudarc` is not asked: whether it opens the library or is
/// linked to it, as candle's CUDA wants, is chosen by whoever builds the program.
fn library() -> Option<libloading::Library> {
    let names: &[&str] = if cfg!(windows) {
        &["nvcuda.dll"]
    } else {
        &["libcuda.so", "libcuda.so.1"]
    };
    // SAFETY: the driver's library may be opened and closed at any time.
    names
        .iter()
        .find_map(|name| unsafe { libloading::Library::new(*name) }.ok())
}

/// Loads a function now, not at its first launch, which may be while launches are recorded. Drivers
/// before CUDA 12.4 have no call for that; there, to ask for what it takes is enough.
fn load_now(
    function: sys::CUfunction,
    version: DriverVersion,
) -> std::result::Result<(), DriverError> {
    let has_call = |library: libloading::Library| {
        // SAFETY: the symbol is looked up, and not used.
        unsafe { library.get::<*const c_void>(b"cuFuncLoad\0") }.is_ok()
    };
    let known = version >= DriverVersion::cuda(12, 4) && library().is_some_and(has_call);
    // SAFETY: the function is valid, and results can be written.
    unsafe {
        if known {
            return sys::cuFuncLoad(function).result();
        }
        let mut registers = 0;
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
        sys::cuFuncGetAttribute(&mut registers, attribute, function).result()
    }
}

/// What a driver is: the last version of CUDA that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DriverVersion(i32);

impl DriverVersion {
    const fn cuda(major: i32, minor: i32) -> Self {
        Self(1000 * major + 10 * minor)
    }

    fn read() -> Result<Self> {
        let mut version = 0;
        // SAFETY: the result can be written.
        unsafe { sys::cuDriverGetVersion(&mut version) }
            .result()
            .map_err(of("cuDriverGetVersion"))?;
        Ok(Self(version))
    }

    /// The first driver with that version of CUDA, by its own number.
    fn first(self) -> Option<u32> {
        let known = [
            (Self::cuda(13, 0), 580),
            (Self::cuda(12, 8), 570),
            (Self::cuda(12, 4), 550),
            (Self::cuda(12, 0), 525),
            (Self::cuda(11, 8), 520),
            (Self::cuda(11, 4), 470),
        ];
        known
            .iter()
            .find(|(version, _)| *version == self)
            .map(|(_, number)| *number)
    }
}

/// `CUDA 11.8 (driver 520)`.
impl std::fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CUDA {}.{}", self.0 / 1000, self.0 % 1000 / 10)?;
        match self.first() {
            Some(number) => write!(f, " (driver {number})"),
            None => Ok(()),
        }
    }
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
