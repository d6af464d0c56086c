//! Plays NVIDIA's driver on the processor, so that programs which open `libcuda` at run time can be tested whole where there is no GPU.
//!
//! The library that is built of this (`libcascade_cuda_mock.so`) has as much of the driver's interface as this project uses. Under the name
//! `libcuda.so` in a folder of `LD_LIBRARY_PATH` a program takes it for the driver; tests put it there with `install`. No program that
//! is used has anything of it.
//!
//! It has a device for each [`Schedule`](cascade_ptx_interpreter::Schedule): number 0 runs blocks and threads in the order of their numbers, 1
//! against it (as one of compute capability 8.0, the others are of 9.0), 2 in any order. Each has `CASCADE_PTX_MEMORY` bytes of memory, 1 GiB by default.
//!
//! **What is put on a stream is done as late as it may be**: when somebody waits for it. So a program that reads what it has not waited
//! for reads something else. What the driver forbids is refused with the driver's error: calls without a context, handles of
//! other kinds, allocating or waiting while launches are recorded, kernels for a later compute capability. A kernel that is wrong is
//! told on the standard error, and every call fails from then on, as after a fault on a GPU.
#![allow(unsafe_code)]
// Names are the driver's.
#![allow(non_snake_case)]

mod driver;
#[cfg(unix)]
mod install;
mod stream;

#[cfg(unix)]
pub use install::install;

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void, CStr};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUgraph,
    CUgraphExec, CUlaunchConfig, CUmodule, CUresult, CUstream, CUstreamCaptureMode,
};
use cudarc::driver::sys::{CUlaunchAttributeID, CUresult as Answer};

use driver::{answer, Handle};
use stream::{Node, Work};

type Done = Result<(), CUresult>;

/// Writes what a call gives to where its caller wants it.
///
/// # Safety
/// The place must be writable, unless it is null.
unsafe fn give<T>(to: *mut T, value: T) -> Done {
    if to.is_null() {
        return Err(Answer::CUDA_ERROR_INVALID_VALUE);
    }
    to.write(value);
    Ok(())
}

/// Calls of the driver's interface: names, arguments, and what they do with the driver's state.
macro_rules! calls {
    ($($(#[$meta:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $driver:ident $body:block)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// As the driver's own.
        #[no_mangle]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> CUresult {
            answer(|$driver| $body)
        }
    )*};
}

calls! {
    /// Begins.
    fn cuInit(_flags: c_uint) -> _driver { Ok(()) }

    /// Devices that there are.
    fn cuDeviceGetCount(count: *mut c_int) -> driver { give(count, driver.devices() as c_int) }

    /// A device by number.
    fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> driver {
        driver.device(ordinal)?;
        give(device, ordinal)
    }

    /// A device's name, cut to `length` bytes.
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: CUdevice) -> driver {
        let text = driver.device(device)?.name();
        let room = usize::try_from(length).unwrap_or(0);
        if name.is_null() || room == 0 {
            return Err(Answer::CUDA_ERROR_INVALID_VALUE);
        }
        let bytes = &text.as_bytes()[..text.len().min(room - 1)];
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), name.cast(), bytes.len());
        name.add(bytes.len()).write(0);
        Ok(())
    }

    /// The compute capability; other attributes are not known.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice) -> driver {
        let (major, minor) = driver.device(device)?.capability();
        match attribute {
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR => give(value, major),
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR => give(value, minor),
            _ => Err(Answer::CUDA_ERROR_NOT_SUPPORTED),
        }
    }

    /// A device's context, the same at every call.
    fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> driver {
        driver.device(device)?;
        give(context, (device + 1) as usize as CUcontext)
    }

    /// What this thread's calls are for from now on.
    fn cuCtxSetCurrent(context: CUcontext) -> driver { driver.set_current(context as usize) }

    /// Kernels of a text that ends with a zero.
    fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> driver {
        driver.unless_recording()?;
        let text = CStr::from_ptr(image.cast()).to_str();
        let text = text.map_err(|_| Answer::CUDA_ERROR_INVALID_PTX)?;
        give(module, driver.load(text)?.pointer())
    }

    /// A kernel by name.
    fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> driver {
        let name = CStr::from_ptr(name).to_string_lossy();
        give(function, driver.function(Handle::of(module), &name)?.pointer())
    }

    /// Nothing: kernels are ready when their text is loaded.
    fn cuFuncLoad(function: CUfunction) -> driver { driver.kernel(Handle::of(function)).map(drop) }

    /// Bytes that are free, and all.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> driver {
        let (left, all) = driver.current()?.memory();
        give(free, left)?;
        give(total, all)
    }

    /// Memory of the device.
    fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> driver {
        driver.unless_recording()?;
        give(address, driver.current()?.allocate(bytes)?)
    }

    /// Frees memory when everything on the device is done.
    fn cuMemFree_v2(address: CUdeviceptr) -> driver {
        driver.unless_recording()?;
        driver.finish_all()?;
        driver.current()?.free(address);
        Ok(())
    }

    /// Memory of the host that copies go to without a detour, and so later than the call.
    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, _flags: c_uint) -> driver {
        driver.unless_recording()?;
        give(address, driver.pin(bytes))
    }

    /// Frees it.
    fn cuMemFreeHost(address: *mut c_void) -> driver {
        driver.unless_recording()?;
        driver.unpin(address)
    }

    /// A stream. Flags do not matter: nothing else is at work.
    fn cuStreamCreate(stream: *mut CUstream, _flags: c_uint) -> driver {
        give(stream, driver.create_stream()?.pointer())
    }

    /// Copies to the device. Memory of the host is read at once, as pageable memory is.
    fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> driver {
        let bytes = std::slice::from_raw_parts(from.cast::<u8>(), bytes).to_vec();
        driver.put(Handle::of(stream), Work::Upload { to, bytes })
    }

    /// Copies to the host: when somebody waits for it if that is pinned, at once if not.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> driver {
        let stream = Handle::of(stream);
        driver.put(stream, Work::Download { from, to: to as usize, bytes })?;
        match driver.is_pinned(to as usize, bytes) {
            true => Ok(()),
            false => driver.finish(stream),
        }
    }

    /// Fills with a byte.
    fn cuMemsetD8Async(at: CUdeviceptr, value: u8, bytes: usize, stream: CUstream) -> driver {
        driver.put(Handle::of(stream), Work::Fill { at, value, bytes })
    }

    /// Waits until everything on a stream is done.
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
        let parameters = kernel.read(parameters)?;
        let node = Node { kernel: kernel.name, grid: [x, y, z], threads, parameters, overlaps: false };
        driver.put(Handle::of(stream), Work::Launch(node))
    }

    /// The same; of attributes only whether it may overlap the launch before it is known.
    fn cuLaunchKernelEx(
        config: *const CUlaunchConfig,
        function: CUfunction,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> driver {
        let config = &*config;
        if (config.blockDimY, config.blockDimZ, config.sharedMemBytes) != (1, 1, 0) || !extra.is_null() {
            return Err(Answer::CUDA_ERROR_NOT_SUPPORTED);
        }
        let mut overlaps = false;
        for index in 0..config.numAttrs as usize {
            let attribute = &*config.attrs.add(index);
            if attribute.id != CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION {
                return Err(Answer::CUDA_ERROR_NOT_SUPPORTED);
            }
            overlaps = attribute.value.programmaticStreamSerializationAllowed != 0;
        }
        let kernel = driver.kernel(Handle::of(function))?;
        let node = Node {
            parameters: kernel.read(parameters)?,
            kernel: kernel.name,
            grid: [config.gridDimX, config.gridDimY, config.gridDimZ],
            threads: config.blockDimX,
            overlaps,
        };
        driver.put(Handle::of(config.hStream), Work::Launch(node))
    }

    /// What is put on a stream is recorded from now on.
    fn cuStreamBeginCapture_v2(stream: CUstream, _mode: CUstreamCaptureMode) -> driver {
        driver.record(Handle::of(stream))
    }

    /// Ends that, and gives what was recorded.
    fn cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph) -> driver {
        give(graph, driver.end_record(Handle::of(stream))?.pointer())
    }

    /// Makes what was recorded ready to run.
    fn cuGraphInstantiateWithFlags(executable: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) -> driver {
        if flags != 0 {
            return Err(Answer::CUDA_ERROR_NOT_SUPPORTED);
        }
        give(executable, driver.instantiate(Handle::of(graph))?.pointer())
    }

    /// Puts what was recorded on a stream.
    fn cuGraphLaunch(executable: CUgraphExec, stream: CUstream) -> driver {
        let nodes = driver.executable(Handle::of(executable))?;
        driver.put(Handle::of(stream), Work::Graph(nodes))
    }

    /// Forgets what was recorded.
    fn cuGraphDestroy(graph: CUgraph) -> driver { driver.destroy(Handle::of(graph)) }

    /// Forgets what is ready to run.
    fn cuGraphExecDestroy(executable: CUgraphExec) -> driver { driver.destroy(Handle::of(executable)) }

    /// A moment on a stream.
    fn cuEventCreate(event: *mut CUevent, _flags: c_uint) -> driver {
        give(event, driver.create_event()?.pointer())
    }

    /// Puts it there.
    fn cuEventRecord(event: CUevent, stream: CUstream) -> driver {
        driver.record_event(Handle::of(event), Handle::of(stream))
    }

    /// Waits until a stream comes to it.
    fn cuEventSynchronize(event: CUevent) -> driver {
        driver.unless_recording()?;
        driver.wait_for(Handle::of(event))
    }

    /// Milliseconds from one to another.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent) -> driver {
        let elapsed = driver.elapsed(Handle::of(start), Handle::of(end))?;
        give(milliseconds, elapsed.as_secs_f32() * 1e3)
    }

    /// Forgets a moment.
    fn cuEventDestroy_v2(event: CUevent) -> driver { driver.destroy(Handle::of(event)) }
}

/// What an answer says.
///
/// # Safety
/// As the driver's own.
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
        _ => c"an error of the driver that is played",
    };
    match give(text, said.as_ptr()) {
        Ok(()) => Answer::CUDA_SUCCESS,
        Err(error) => error,
    }
}
