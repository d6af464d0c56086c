//! What the mock driver allows, refuses and defers.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::ffi::{c_void, CStr, CString};
use std::ptr::null_mut;

use cascade_cuda_mock::*;
use cudarc::driver::sys::{
    CUcontext, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule, CUresult,
    CUstream, CUstreamCaptureMode,
};

use CUresult::CUDA_SUCCESS as DONE;

/// Adds one to the word at the address that it is called with.
const ADD: &str = "\
.version 9.0
.target sm_80
.address_size 64
.visible .entry add(
	.param .align 8 .b8 add_param_0[8]
)
{
	.reg .b32 	%r<3>;
	.reg .b64 	%rd<2>;
	ld.param.u64 	%rd1, [add_param_0];
	ld.global.u32 	%r1, [%rd1];
	add.s32 	%r2, %r1, 1;
	st.global.u32 	[%rd1], %r2;
	ret;
}
";

/// A device with a stream, the kernel, and a word.
struct Gpu {
    stream: CUstream,
    add: CUfunction,
    word: CUdeviceptr,
    /// Pinned memory of the host.
    host: *mut u32,
}

fn module(text: &str) -> (CUresult, CUmodule) {
    let (text, mut module) = (CString::new(text).unwrap(), null_mut());
    let (mut options, mut values) = ([], []);
    let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
    let answer =
        unsafe { cuModuleLoadDataEx(&mut module, text.as_ptr().cast(), 0, options, values) };
    (answer, module)
}

impl Gpu {
    fn new(ordinal: i32) -> Self {
        let mut context: CUcontext = null_mut();
        let (mut stream, mut add, mut word, mut host) = (null_mut(), null_mut(), 0, null_mut());
        unsafe {
            assert_eq!(cuDevicePrimaryCtxRetain(&mut context, ordinal), DONE);
            assert_eq!(cuCtxSetCurrent(context), DONE);
            assert_eq!(cuStreamCreate(&mut stream, 0), DONE);
            let (answer, module) = module(ADD);
            assert_eq!(answer, DONE);
            assert_eq!(cuModuleGetFunction(&mut add, module, c"add".as_ptr()), DONE);
            assert_eq!(cuFuncLoad(add), DONE);
            assert_eq!(cuMemAlloc_v2(&mut word, 4), DONE);
            assert_eq!(cuMemHostAlloc(&mut host, 4, 0), DONE);
        }
        Self {
            stream,
            add,
            word,
            host: host.cast(),
        }
    }

    fn write(&self, value: u32) -> CUresult {
        unsafe { cuMemcpyHtoDAsync_v2(self.word, (&raw const value).cast(), 4, self.stream) }
    }

    fn read(&self) -> CUresult {
        unsafe { cuMemcpyDtoHAsync_v2(self.host.cast(), self.word, 4, self.stream) }
    }

    fn launch(&self) -> CUresult {
        let mut parameter = self.word;
        let mut parameters = [(&raw mut parameter).cast::<c_void>()];
        let (parameters, extra) = (parameters.as_mut_ptr(), null_mut());
        unsafe {
            cuLaunchKernel(
                self.add,
                1,
                1,
                1,
                1,
                1,
                1,
                0,
                self.stream,
                parameters,
                extra,
            )
        }
    }

    fn wait(&self) -> CUresult {
        unsafe { cuStreamSynchronize(self.stream) }
    }

    fn begin(&self) -> CUresult {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        unsafe { cuStreamBeginCapture_v2(self.stream, mode) }
    }

    fn end(&self) -> (CUresult, CUgraph) {
        let mut graph = null_mut();
        let answer = unsafe { cuStreamEndCapture(self.stream, &mut graph) };
        (answer, graph)
    }
}

#[test]
fn work_is_done_when_somebody_waits_for_it() {
    let gpu = Gpu::new(0);
    assert_eq!(gpu.write(41), DONE);
    assert_eq!(gpu.launch(), DONE);
    assert_eq!(gpu.read(), DONE);
    assert_eq!(unsafe { *gpu.host }, 0);
    assert_eq!(gpu.wait(), DONE);
    assert_eq!(unsafe { *gpu.host }, 42);
    // A copy to memory that is not pinned is synchronous.
    let mut value = 0u32;
    let to = (&raw mut value).cast();
    assert_eq!(gpu.launch(), DONE);
    assert_eq!(
        unsafe { cuMemcpyDtoHAsync_v2(to, gpu.word, 4, gpu.stream) },
        DONE
    );
    assert_eq!(value, 43);
}

#[test]
fn a_graph_runs_when_it_is_launched() {
    let gpu = Gpu::new(2);
    assert_eq!(gpu.write(1), DONE);
    assert_eq!(gpu.begin(), DONE);
    assert_eq!([gpu.launch(), gpu.launch()], [DONE; 2]);
    let (answer, graph) = gpu.end();
    assert_eq!(answer, DONE);
    let mut executable: CUgraphExec = null_mut();
    unsafe {
        assert_eq!(cuGraphInstantiateWithFlags(&mut executable, graph, 0), DONE);
        for _ in 0..3 {
            assert_eq!(cuGraphLaunch(executable, gpu.stream), DONE);
        }
        assert_eq!(cuGraphDestroy(graph), DONE);
        assert_eq!(cuGraphExecDestroy(executable), DONE);
        let twice = cuGraphExecDestroy(executable);
        assert_eq!(twice, CUresult::CUDA_ERROR_INVALID_HANDLE);
    }
    assert_eq!([gpu.read(), gpu.wait()], [DONE; 2]);
    assert_eq!(unsafe { *gpu.host }, 7);
}

#[test]
fn capturing_forbids_waiting_allocating_and_copying() {
    let gpu = Gpu::new(0);
    let refused = CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    let allocate = || unsafe { cuMemAlloc_v2(&mut 0, 4) };
    let forbidden: [&dyn Fn() -> CUresult; 3] = [&|| gpu.wait(), &|| gpu.write(1), &allocate];
    for forbidden in forbidden {
        assert_eq!([gpu.begin(), gpu.launch()], [DONE; 2]);
        assert_eq!(forbidden(), refused);
        assert_eq!(gpu.end().0, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_eq!([gpu.write(1), gpu.wait()], [DONE; 2]);
    }
    // Other threads may use other streams.
    assert_eq!([gpu.begin(), gpu.launch()], [DONE; 2]);
    let other = std::thread::spawn(|| Gpu::new(0).write(1)).join().unwrap();
    assert_eq!(other, DONE);
    assert_eq!(gpu.end().0, DONE);
}

#[test]
fn events_are_measured_once_they_are_reached() {
    let gpu = Gpu::new(1);
    let (mut start, mut end, mut milliseconds) = (null_mut(), null_mut(), -1.0);
    unsafe {
        let mut elapsed = |start, end| cuEventElapsedTime(&mut milliseconds, start, end);
        for event in [&mut start, &mut end] {
            let event: *mut CUevent = event;
            assert_eq!(cuEventCreate(event, 0), DONE);
        }
        assert_eq!(elapsed(start, end), CUresult::CUDA_ERROR_INVALID_HANDLE);
        assert_eq!(cuEventRecord(start, gpu.stream), DONE);
        assert_eq!([gpu.write(1), gpu.launch()], [DONE; 2]);
        assert_eq!(cuEventRecord(end, gpu.stream), DONE);
        assert_eq!(elapsed(start, end), CUresult::CUDA_ERROR_NOT_READY);
        assert_eq!(cuEventSynchronize(end), DONE);
        assert_eq!(elapsed(start, end), DONE);
        assert_eq!(cuEventDestroy_v2(start), DONE);
        assert!(milliseconds > 0.0);
    }
}

#[test]
fn calls_need_a_context_and_handles_of_their_kind() {
    let answer = unsafe { cuMemAlloc_v2(&mut 0, 4) };
    assert_eq!(answer, CUresult::CUDA_ERROR_INVALID_CONTEXT);
    let gpu = Gpu::new(0);
    let function = gpu.stream.cast();
    let answer = unsafe { cuFuncLoad(function) };
    assert_eq!(answer, CUresult::CUDA_ERROR_INVALID_HANDLE);
    // A stream belongs to its device.
    let other = Gpu::new(1);
    assert_eq!(gpu.write(1), CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_eq!(other.write(1), DONE);
    let mut device = 0;
    assert_eq!(
        unsafe { cuDeviceGet(&mut device, 3) },
        CUresult::CUDA_ERROR_INVALID_DEVICE
    );
}

#[test]
fn kernels_are_for_a_compute_capability() {
    let newer = ADD.replace("sm_80", "sm_90");
    Gpu::new(0);
    assert_eq!(module(&newer).0, DONE);
    assert_eq!(module("nothing").0, CUresult::CUDA_ERROR_INVALID_PTX);
    // The second device is of 8.0.
    Gpu::new(1);
    assert_eq!(module(&newer).0, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
}

#[test]
fn memory_is_limited() {
    Gpu::new(0);
    let (mut free, mut all) = (0, 0);
    unsafe {
        assert_eq!(cuMemGetInfo_v2(&mut free, &mut all), DONE);
        assert!(free < all);
        let answer = cuMemAlloc_v2(&mut 0, all);
        assert_eq!(answer, CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        let mut text = std::ptr::null();
        assert_eq!(cuGetErrorString(answer, &mut text), DONE);
        assert_eq!(CStr::from_ptr(text), c"out of memory");
    }
}
