//! A mock CUDA driver, so that programs which open `libcuda` at run time can be tested as a whole
//! where there is no GPU. Kernels run on the PTX interpreter.
//!
//! The library (`libcascade_cuda_mock.so`) has the part of the driver's interface that this project
//! uses. Under the name `libcuda.so` in a folder of `LD_LIBRARY_PATH` a program takes it for the
//! driver; tests put it there with `install`. It is not part of any released program.
//!
//! It has a device for each [`ExecutionOrder`](cascade_ptx_interpreter::ExecutionOrder): device 0
//! runs blocks and threads in ascending order, 1 in descending order (it has compute capability
//! 8.0, the others 9.0), 2 in random order. Each has `CASCADE_PTX_MEMORY` bytes of memory, 1 GiB by
//! default.
//!
//! **Work on a stream is done as late as possible**: when somebody waits for it. A program that
//! reads a result without waiting for it reads something else. What the driver forbids is refused
//! with the driver's error: calls without a context, handles of other kinds, allocating or waiting
//! while launches are captured, kernels for a later compute capability. The fault of a kernel is
//! printed on the standard error, and every call fails from then on, as after a fault on a GPU.
#![allow(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
// Names are the driver's.
#![allow(non_snake_case)]

mod driver;
mod handle;
#[cfg(unix)]
mod install;
mod stream;

#[cfg(unix)]
pub use install::install;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void, CStr};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUgraph, CUgraphExec, CUjit_option, CUlaunchConfig, CUmodule, CUresult,
    CUstream, CUstreamCaptureMode,
};
use cudarc::driver::sys::{CUlaunchAttributeID, CUresult as Answer};

use driver::{answer, Driver};
use handle::Handle;
use stream::{Node, Work};

type Result<T> = std::result::Result<T, CUresult>;

/// Writes a result to where the caller of the driver wants it.
///
/// # Safety
/// `to` must be null or valid for writes.
unsafe fn give<T>(to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Answer::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: it is not null, so that the caller guarantees that it is valid for writes.
    unsafe { to.write(value) };
    Ok(())
}

/// Answers a call that has one result.
///
/// # Safety
/// `to` must be null or valid for writes.
unsafe fn answer_with<T>(to: *mut T, call: impl FnOnce(&mut Driver) -> Result<T>) -> CUresult {
    answer(|driver| {
        let value = call(driver)?;
        // SAFETY: the caller guarantees what `give` needs.
        unsafe { give(to, value) }
    })
}

/// Copies a string of the caller's into the buffer of another.
///
/// # Safety
/// `to` must be valid for writes of `room` bytes, at least one.
unsafe fn give_text(to: *mut c_char, room: usize, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(room - 1)];
    // SAFETY: the text and the zero after it fit into the `room` bytes, which are the caller's own
    // and do not overlap a string of ours.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len());
        to.add(bytes.len()).write(0);
    }
}

/// Whether a launch may overlap the one before; no other attribute is known.
///
/// # Safety
/// `config.attrs` must point to `config.numAttrs` attributes.
unsafe fn overlaps(config: &CUlaunchConfig) -> Result<bool> {
    let mut overlaps = false;
    for index in 0..config.numAttrs as usize {
        // SAFETY: the caller guarantees that there are so many attributes.
        let attribute = unsafe { &*config.attrs.add(index) };
        if attribute.id
            != CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        {
            return Err(Answer::CUDA_ERROR_NOT_SUPPORTED);
        }
        // SAFETY: the attribute's id says that this is the member of the union that was written.
        overlaps = unsafe { attribute.value.programmaticStreamSerializationAllowed } != 0;
    }
    Ok(overlaps)
}

/// The last version of CUDA that the driver knows.
fn cuda_version() -> c_int {
    let version = std::env::var("CASCADE_PTX_CUDA").ok();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(13_000)
}

/// The buffer for errors among the options of a module, and its size; none is empty.
///
/// # Safety
/// `options` and `values` must point to `count` of each.
unsafe fn error_log(
    count: usize,
    options: *const CUjit_option,
    values: *const *mut c_void,
) -> Result<(*mut c_char, usize)> {
    let (mut buffer, mut room) = (std::ptr::null_mut(), 0);
    for index in 0..count {
        // SAFETY: the caller guarantees so many.
        let (option, value) = unsafe { (*options.add(index), *values.add(index)) };
        match option {
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER => buffer = value.cast(),
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES => room = value as usize,
            _ => return Err(Answer::CUDA_ERROR_NOT_SUPPORTED),
        }
    }
    Ok((buffer, if buffer.is_null() { 0 } else { room }))
}

/// Calls of the driver's interface that give nothing but an error code.
macro_rules! calls {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $driver:ident $body:block)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// That of the driver's function.
        #[no_mangle]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            answer(|$driver| $body)
        }
    )*};
}

/// Calls that write a result to their first argument.
macro_rules! results {
    ($($(#[$meta:meta])* fn $name:ident($to:ident: *mut $result:ty $(, $argument:ident: $type:ty)*) -> $driver:ident $body:block)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// That of the driver's function.
        #[no_mangle]
        pub unsafe extern "C" fn $name($to: *mut $result $(, $argument: $type)*) -> CUresult {
            let call = |$driver: &mut Driver| -> Result<$result> { $body };
            // SAFETY: the driver's function demands that its result can be written there.
            unsafe { answer_with($to, call) }
        }
    )*};
}

results! {
    /// The number of devices.
    fn cuDeviceGetCount(count: *mut c_int) -> driver { Ok(driver.devices() as c_int) }

    /// A device by ordinal.
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> driver {
        driver.device(ordinal)?;
        Ok(ordinal)
    }

    /// The last version of CUDA that the driver knows: `CASCADE_PTX_CUDA`, or 13.0.
    fn cuDriverGetVersion(version: *mut c_int) -> _driver { Ok(cuda_version()) }

    /// Blocks that a multiprocessor holds at once.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CUfunction, threads: c_int, _shared: usize) -> driver {
        driver.kernel(Handle::of(function))?;
        if threads < 1 { return Err(Answer::CUDA_ERROR_INVALID_VALUE); }
        Ok(2)
    }

    /// Registers of a kernel; other attributes are not known.
    fn cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction) -> driver {
        driver.kernel(Handle::of(function))?;
        match attribute {
            CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS => Ok(128),
            _ => Err(Answer::CUDA_ERROR_NOT_SUPPORTED),
        }
    }

    /// The compute capability and the number of multiprocessors; other attributes are not known.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice) -> driver {
        let (major, minor) = driver.device(device)?.capability();
        match attribute {
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => Ok(major),
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => Ok(minor),
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT => Ok(132),
            _ => Err(Answer::CUDA_ERROR_NOT_SUPPORTED),
        }
    }

    /// A device's context, the same at every call.
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> driver {
        driver.device(device)?;
        Ok((device + 1) as usize as CUcontext)
    }

    /// A kernel by name.
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> driver {
        // SAFETY: the driver's function demands a string that ends with a zero byte.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        Ok(driver.function(Handle::of(module), &name)?.pointer())
    }

    /// Allocates memory of the device.
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> driver {
        driver.unless_recording()?;
        driver.current()?.allocate(bytes)
    }

    /// Allocates pinned memory of the host, to which copies are asynchronous.
    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, _flags: c_uint) -> driver {
        driver.unless_recording()?;
        Ok(driver.pin(bytes))
    }

    /// Creates a stream. Flags are ignored: no other stream runs at the same time.
    fn cuStreamCreate(stream: *mut CUstream, _flags: c_uint) -> driver {
        Ok(driver.create_stream()?.pointer())
    }

    /// Makes a captured graph executable.
    fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) -> driver {
        if flags != 0 {
            return Err(Answer::CUDA_ERROR_NOT_SUPPORTED);
        }
        Ok(driver.instantiate(Handle::of(graph))?.pointer())
    }

    /// Creates an event.
    fn cuEventCreate(event: *mut CUevent, _flags: c_uint) -> driver {
        Ok(driver.create_event()?.pointer())
    }

    /// Milliseconds from one event to another.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> driver {
        let elapsed = driver.elapsed(Handle::of(start), Handle::of(end))?;
        Ok(elapsed.as_secs_f32() * 1e3)
    }
}

calls! {
    /// Initialises the driver.
    fn cuInit(_flags: c_uint) -> _driver { Ok(()) }

    /// Loads the kernels of a PTX module, which ends with a zero byte. Of the options it knows the
    /// buffer for errors, and its size.
    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> driver {
        driver.unless_recording()?;
        // SAFETY: the driver's function demands PTX that ends with a zero byte.
        let text = unsafe { CStr::from_ptr(image.cast()) }.to_str();
        let text = text.map_err(|_| Answer::CUDA_ERROR_INVALID_PTX)?;
        let loaded = driver.load(text, cuda_version());
        // SAFETY: the driver's function demands as many options and values as it says, and a buffer
        // of as many bytes as its option says; the result can be written.
        unsafe {
            if let Err((_, said)) = &loaded {
                let (buffer, room) = error_log(count as usize, options, values)?;
                if room > 0 { give_text(buffer, room, said); }
            }
            give(module, loaded.map_err(|(code, _)| code)?.pointer())
        }
    }

    /// Unloads a module.
    fn cuModuleUnload(module: CUmodule) -> driver { driver.destroy(Handle::of(module)) }

    /// Destroys a stream once its work is done.
    fn cuStreamDestroy_v2(stream: CUstream) -> driver {
        driver.finish(Handle::of(stream))?;
        driver.destroy(Handle::of(stream))
    }

    /// A device's name, cut to `length` bytes.
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice) -> driver {
        let text = driver.device(device)?.name();
        let room = usize::try_from(length).unwrap_or(0);
        if name.is_null() || room == 0 {
            return Err(Answer::CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the driver's function demands `length` bytes; there is at least one.
        unsafe { give_text(name, room, &text) };
        Ok(())
    }

    /// Makes a context that of this thread's calls.
    fn cuCtxSetCurrent(context: CUcontext) -> driver { driver.set_current(context as usize) }

    /// Does nothing: kernels are ready when their module is loaded. Drivers before CUDA 12.4 do not
    /// have it.
    fn cuFuncLoad(function: CUfunction) -> driver {
        match cuda_version() {
            12_040.. => driver.kernel(Handle::of(function)).map(drop),
            _ => Err(Answer::CUDA_ERROR_NOT_FOUND),
        }
    }

    /// Free memory and total memory in bytes.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> driver {
        let (left, all) = driver.current()?.memory();
        // SAFETY: the driver's function demands that both results can be written.
        unsafe { give(free, left).and_then(|()| give(total, all)) }
    }

    /// Frees memory of the device when all work is done.
    fn cuMemFree_v2(address: CUdeviceptr) -> driver {
        driver.unless_recording()?;
        driver.finish_all()?;
        driver.current()?.free(address);
        Ok(())
    }

    /// Frees pinned memory of the host.
    fn cuMemFreeHost(address: *mut c_void) -> driver {
        driver.unless_recording()?;
        driver.unpin(address)
    }

    /// Copies to the device. Memory of the host is read at once, as pageable memory is.
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> driver {
        // SAFETY: the driver's function demands so many readable bytes.
        let bytes = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) }.to_vec();
        driver.put(Handle::of(stream), Work::Upload { to, bytes })
    }

    /// Copies to the host: to pinned memory when somebody waits for it, to other memory at once.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> driver {
        let stream = Handle::of(stream);
        driver.put(stream, Work::Download { from, to: to as usize, bytes })?;
        if driver.is_pinned(to as usize, bytes) { Ok(()) } else { driver.finish(stream) }
    }

    /// Fills memory with a byte.
    fn cuMemsetD8Async(at: CUdeviceptr, value: u8, bytes: usize, stream: CUstream) -> driver {
        driver.put(Handle::of(stream), Work::Fill { at, value, bytes })
    }

    /// Waits until all work on a stream is done.
    fn cuStreamSynchronize(stream: CUstream) -> driver {
        driver.unless_recording()?;
        driver.finish(Handle::of(stream))
    }

    /// Puts a launch on a stream.
    fn cuLaunchKernel(
        function: CUfunction,
        x: c_uint,
        y: c_uint,
        z: c_uint,
        threads: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        shared: c_uint,
        stream: CUstream,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> driver {
        if (threads_y, threads_z, shared) != (1, 1, 0) || !extra.is_null() {
            return Err(Answer::CUDA_ERROR_NOT_SUPPORTED);
        }
        let kernel = driver.kernel(Handle::of(function))?;
        // SAFETY: the driver's function demands a pointer to each parameter of the kernel.
        let parameters = unsafe { kernel.read(parameters) }?;
        let node = Node { kernel: kernel.name, grid: [x, y, z], threads, parameters, overlaps: false };
        driver.put(Handle::of(stream), Work::Launch(node))
    }

    /// Puts a launch with attributes on a stream; of these it knows only the permission to overlap
    /// the launch before.
    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> driver {
        // SAFETY: the driver's function demands a valid configuration.
        let config = unsafe { &*config };
        if (config.blockDimY, config.blockDimZ, config.sharedMemBytes) != (1, 1, 0) || !extra.is_null() {
            return Err(Answer::CUDA_ERROR_NOT_SUPPORTED);
        }
        // SAFETY: a valid configuration points to as many attributes as it says.
        let overlaps = unsafe { overlaps(config) }?;
        let kernel = driver.kernel(Handle::of(function))?;
        let node = Node {
            // SAFETY: the driver's function demands a pointer to each parameter of the kernel.
            parameters: unsafe { kernel.read(parameters) }?,
            kernel: kernel.name,
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            threads: config.blockDimX,
            overlaps,
        };
        driver.put(Handle::of(config.hStream), Work::Launch(node))
    }

    /// Captures what is put on a stream from now on.
    fn cuStreamBeginCapture_v2(stream: CUstream, _mode: CUstreamCaptureMode) -> driver {
        driver.record(Handle::of(stream))
    }

    /// Ends a capture and gives its graph.
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> driver {
        let captured = driver.end_record(Handle::of(stream))?.pointer();
        // SAFETY: the driver's function demands that its result can be written there.
        unsafe { give(graph, captured) }
    }

    /// Puts the launches of a graph on a stream.
    fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream) -> driver {
        let nodes = driver.executable(Handle::of(executable))?;
        driver.put(Handle::of(stream), Work::Graph(nodes))
    }

    /// Destroys a graph.
    fn cuGraphDestroy(graph: CUgraph) -> driver { driver.destroy(Handle::of(graph)) }

    /// Destroys an executable graph.
    fn cuGraphExecDestroy(executable: CUgraphExec) -> driver { driver.destroy(Handle::of(executable)) }

    /// Records an event on a stream.
    fn cuEventRecord(event: CUevent, stream: CUstream) -> driver {
        driver.record_event(Handle::of(event), Handle::of(stream))
    }

    /// Waits until a stream reaches an event.
    fn cuEventSynchronize(event: CUevent) -> driver {
        driver.unless_recording()?;
        driver.wait_for(Handle::of(event))
    }

    /// Destroys an event.
    fn cuEventDestroy_v2(event: CUevent) -> driver { driver.destroy(Handle::of(event)) }
}

/// Describes an error code.
///
/// # Safety
/// That of the driver's function.
#[no_mangle]
pub unsafe extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    let said = match error {
        Answer::CUDA_ERROR_OUT_OF_MEMORY => c"out of memory",
        Answer::CUDA_ERROR_INVALID_PTX => c"a PTX JIT compilation failed",
        Answer::CUDA_ERROR_NO_BINARY_FOR_GPU => {
            c"no kernel image is available for execution on the device"
        }
        Answer::CUDA_ERROR_INVALID_CONTEXT => c"invalid device context",
        Answer::CUDA_ERROR_INVALID_HANDLE => c"invalid resource handle",
        Answer::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
            c"operation not permitted when stream is capturing"
        }
        Answer::CUDA_ERROR_LAUNCH_FAILED => c"unspecified launch failure",
        _ => c"an error of the mock driver",
    };
    // SAFETY: the driver's function demands that its result can be written there.
    match unsafe { give(text, said.as_ptr()) } {
        Ok(()) => Answer::CUDA_SUCCESS,
        Err(error) => error,
    }
}
