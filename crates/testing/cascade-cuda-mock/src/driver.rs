//! The driver's state: devices and the objects that handles stand for.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cascade_ptx_interpreter::{ExecutionOrder, KernelFault, Launch, Machine, Module};
use cudarc::driver::sys::CUresult;
use rustc_hash::FxHashMap;

use crate::handle::Handle;
use crate::stream::{Node, Recording, Stream, Work};

type Result<T> = std::result::Result<T, CUresult>;

const MEMORY: usize = 1 << 30;

#[derive(Debug)]
pub(crate) struct Device {
    machine: Machine,
    order: ExecutionOrder,
    memory: usize,
}

impl Device {
    fn new(order: ExecutionOrder) -> Self {
        let memory = std::env::var("CASCADE_PTX_MEMORY").ok();
        Self {
            machine: Machine::new(order),
            order,
            memory: memory
                .and_then(|bytes| bytes.parse().ok())
                .unwrap_or(MEMORY),
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("PTX interpreter ({:?})", self.order)
    }

    pub(crate) fn capability(&self) -> (i32, i32) {
        match self.order {
            ExecutionOrder::Backward => (8, 0),
            _ => (9, 0),
        }
    }

    /// Free memory and total memory in bytes.
    pub(crate) fn memory(&self) -> (usize, usize) {
        (self.memory - self.machine.allocated(), self.memory)
    }

    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<u64> {
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if bytes > self.memory().0 {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        Ok(self.machine.allocate(bytes))
    }

    pub(crate) fn free(&mut self, address: u64) {
        self.machine.free(address);
    }

    fn bytes(&mut self, address: u64, bytes: usize) -> Result<&mut [u8]> {
        let there = self.machine.bytes(address, bytes);
        there.map_err(|_| CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    fn launch(&mut self, node: &Node, overlaps: bool) -> Result<()> {
        let run = self.machine.launch(Launch {
            kernel: &node.kernel,
            grid: node.grid,
            threads: node.threads,
            parameters: &node.parameters,
            overlaps,
        });
        run.map_err(|fault| {
            // The caller gets an error code only.
            eprintln!("kernel {}: {fault}", node.kernel);
            match fault.what {
                KernelFault::Outside { .. } => CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
                KernelFault::Misaligned { .. } => CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
                _ => CUresult::CUDA_ERROR_LAUNCH_FAILED,
            }
        })
    }
}

/// A kernel of a device.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Bytes of its parameters.
    parameters: usize,
}

impl Function {
    /// The bytes of its one parameter.
    ///
    /// # Safety
    /// `parameters` must be null or point to a pointer that is null or points to as many readable
    /// bytes as the kernel declares.
    pub(crate) unsafe fn read(&self, parameters: *mut *mut c_void) -> Result<Vec<u8>> {
        // SAFETY: a pointer that is not null points to a pointer, as the caller guarantees.
        let first = unsafe { parameters.as_ref() };
        let first = first
            .filter(|first| !first.is_null())
            .ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: it is not null, so that it points to so many bytes, as the caller guarantees.
        let bytes = unsafe { std::slice::from_raw_parts(first.cast::<u8>(), self.parameters) };
        Ok(bytes.to_vec())
    }
}

#[derive(Debug)]
enum Object {
    Module,
    Function(Function),
    Stream(Stream),
    Graph(Vec<Node>),
    Executable(Vec<Node>),
    Event(Event),
}

#[derive(Clone, Copy, Debug)]
enum Event {
    New,
    /// On a stream that has not reached it.
    Ahead(Handle),
    Reached(Instant),
}

#[derive(Debug)]
pub(crate) struct Driver {
    devices: Vec<Device>,
    objects: FxHashMap<Handle, Object>,
    next: usize,
    /// Pinned memory of the host, by address.
    pinned: FxHashMap<usize, Box<[u8]>>,
    /// The fault of a kernel, after which every call fails.
    failure: Option<CUresult>,
}

thread_local! {
    /// The device whose context is this thread's, and the stream that it captures.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
    static RECORDING: Cell<Option<Handle>> = const { Cell::new(None) };
}

/// Runs a call on the driver's state and gives its error code.
pub(crate) fn answer(call: impl FnOnce(&mut Driver) -> Result<()>) -> CUresult {
    static DRIVER: LazyLock<Mutex<Driver>> = LazyLock::new(|| Mutex::new(Driver::new()));
    let mut driver = DRIVER.lock().unwrap_or_else(PoisonError::into_inner);
    let done = match driver.failure {
        Some(failure) => Err(failure),
        None => call(&mut driver),
    };
    done.err().unwrap_or(CUresult::CUDA_SUCCESS)
}

/// The newest version of PTX, times ten, that a version of CUDA knows.
fn newest_ptx(cuda: i32) -> i32 {
    let known = [
        (13_000, 90),
        (12_080, 87),
        (12_000, 80),
        (11_080, 78),
        (11_040, 74),
    ];
    let known = known.iter().find(|(version, _)| cuda >= *version);
    known.map_or(70, |(_, ptx)| *ptx)
}

/// `7.4` as 74.
fn ptx_version(text: &str) -> Option<i32> {
    let (major, minor) = text.split_once('.')?;
    Some(10 * major.parse::<i32>().ok()? + minor.parse::<i32>().ok()?)
}

impl Driver {
    fn new() -> Self {
        let orders = [
            ExecutionOrder::Forward,
            ExecutionOrder::Backward,
            ExecutionOrder::Random(1),
        ];
        Self {
            devices: orders.map(Device::new).into(),
            objects: FxHashMap::default(),
            next: 0x1000,
            pinned: FxHashMap::default(),
            failure: None,
        }
    }

    pub(crate) fn devices(&self) -> usize {
        self.devices.len()
    }

    pub(crate) fn device(&self, ordinal: i32) -> Result<&Device> {
        let device = usize::try_from(ordinal)
            .ok()
            .and_then(|index| self.devices.get(index));
        device.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
    }

    pub(crate) fn set_current(&mut self, context: usize) -> Result<()> {
        if context > self.devices.len() {
            return Err(CUresult::CUDA_ERROR_INVALID_CONTEXT);
        }
        CURRENT.set(context.checked_sub(1));
        Ok(())
    }

    fn current_index() -> Result<usize> {
        CURRENT.get().ok_or(CUresult::CUDA_ERROR_INVALID_CONTEXT)
    }

    pub(crate) fn current(&mut self) -> Result<&mut Device> {
        Ok(&mut self.devices[Self::current_index()?])
    }

    fn insert(&mut self, object: Object) -> Handle {
        self.next += 16;
        self.objects.insert(Handle(self.next), object);
        Handle(self.next)
    }

    fn object(&mut self, handle: Handle) -> Result<&mut Object> {
        let object = self.objects.get_mut(&handle);
        object.ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    fn stream(&mut self, handle: Handle) -> Result<&mut Stream> {
        match self.object(handle)? {
            Object::Stream(stream) => Ok(stream),
            _ => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
        }
    }

    pub(crate) fn destroy(&mut self, handle: Handle) -> Result<()> {
        let object = self.objects.remove(&handle);
        object.map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_HANDLE)
    }

    // ---- Kernels ----

    /// Loads a module as a driver of a version of CUDA does; what its assembler says if it does
    /// not.
    pub(crate) fn load(
        &mut self,
        text: &str,
        cuda: i32,
    ) -> std::result::Result<Handle, (CUresult, String)> {
        let silent = |code| (code, String::new());
        let device = self.current().map_err(silent)?;
        let (major, minor) = device.capability();
        let after = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let version = after(".version ").unwrap_or_default().trim();
        let known = ptx_version(version).ok_or(silent(CUresult::CUDA_ERROR_INVALID_PTX))?;
        if known > newest_ptx(cuda) {
            let said = format!("ptxas fatal: Unsupported .version {version}");
            return Err((CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION, said));
        }
        let target = after(".target sm_").and_then(|target| target.trim().parse::<i32>().ok());
        if target.ok_or(silent(CUresult::CUDA_ERROR_INVALID_PTX))? > major * 10 + minor {
            return Err(silent(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU));
        }
        let read = Module::read(text);
        let module = read.map_err(|error| (CUresult::CUDA_ERROR_INVALID_PTX, error.to_string()))?;
        device.machine.load(module);
        Ok(self.insert(Object::Module))
    }

    pub(crate) fn function(&mut self, module: Handle, name: &str) -> Result<Handle> {
        let Object::Module = self.object(module)? else {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        };
        let parameters = self.current()?.machine.parameters(name);
        let function = Function {
            name: name.to_owned(),
            parameters: parameters.ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?,
        };
        Ok(self.insert(Object::Function(function)))
    }

    pub(crate) fn kernel(&mut self, function: Handle) -> Result<Function> {
        match self.object(function)? {
            Object::Function(function) => Ok(function.clone()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
        }
    }

    // ---- The host's memory ----

    pub(crate) fn pin(&mut self, bytes: usize) -> *mut c_void {
        let mut memory = vec![0; bytes].into_boxed_slice();
        let start = memory.as_mut_ptr();
        self.pinned.insert(start as usize, memory);
        start.cast()
    }

    pub(crate) fn unpin(&mut self, address: *mut c_void) -> Result<()> {
        let memory = self.pinned.remove(&(address as usize));
        memory.map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }

    pub(crate) fn is_pinned(&self, address: usize, bytes: usize) -> bool {
        let mut pinned = self.pinned.iter();
        pinned.any(|(&start, memory)| start <= address && address + bytes <= start + memory.len())
    }

    // ---- Streams ----

    pub(crate) fn create_stream(&mut self) -> Result<Handle> {
        let stream = Stream {
            device: Self::current_index()?,
            work: VecDeque::new(),
            recording: None,
        };
        Ok(self.insert(Object::Stream(stream)))
    }

    /// Puts work on a stream, or into the graph that is captured there.
    pub(crate) fn put(&mut self, stream: Handle, work: Work) -> Result<()> {
        let current = Self::current_index()?;
        let stream = self.stream(stream)?;
        if stream.device != current {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        match (&mut stream.recording, work) {
            (None, work) => stream.work.push_back(work),
            (Some(recording), Work::Launch(node)) => recording.nodes.push(node),
            (Some(recording), _) => {
                recording.spoilt = true;
                return Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
            }
        }
        Ok(())
    }

    /// Refuses a call that is not permitted while this thread captures launches.
    pub(crate) fn unless_recording(&mut self) -> Result<()> {
        let Some(handle) = RECORDING.get() else {
            return Ok(());
        };
        if let Some(recording) = &mut self.stream(handle)?.recording {
            recording.spoilt = true;
        }
        Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    }

    pub(crate) fn record(&mut self, stream: Handle) -> Result<()> {
        self.unless_recording()?;
        self.stream(stream)?.recording = Some(Recording::default());
        RECORDING.set(Some(stream));
        Ok(())
    }

    pub(crate) fn end_record(&mut self, stream: Handle) -> Result<Handle> {
        RECORDING.set(None);
        let recording = self
            .stream(stream)?
            .recording
            .take()
            .ok_or(CUresult::CUDA_ERROR_ILLEGAL_STATE)?;
        if recording.spoilt {
            Err(CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED)
        } else {
            Ok(self.insert(Object::Graph(recording.nodes)))
        }
    }

    pub(crate) fn instantiate(&mut self, graph: Handle) -> Result<Handle> {
        let nodes = match self.object(graph)? {
            Object::Graph(nodes) => nodes.clone(),
            _ => return Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
        };
        Ok(self.insert(Object::Executable(nodes)))
    }

    pub(crate) fn executable(&mut self, executable: Handle) -> Result<Vec<Node>> {
        match self.object(executable)? {
            Object::Executable(nodes) => Ok(nodes.clone()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
        }
    }

    /// Does all work that is on a stream.
    pub(crate) fn finish(&mut self, handle: Handle) -> Result<()> {
        let stream = self.stream(handle)?;
        let device = stream.device;
        for work in std::mem::take(&mut stream.work) {
            let done = self.carry_out(device, work);
            done.inspect_err(|&failure| self.failure = Some(failure))?;
        }
        Ok(())
    }

    pub(crate) fn finish_all(&mut self) -> Result<()> {
        let streams: Vec<Handle> = self
            .objects
            .iter()
            .filter_map(|(&handle, object)| match object {
                Object::Stream(_) => Some(handle),
                _ => None,
            })
            .collect();
        streams
            .into_iter()
            .try_for_each(|stream| self.finish(stream))
    }

    fn carry_out(&mut self, device: usize, work: Work) -> Result<()> {
        let device = &mut self.devices[device];
        match work {
            Work::Launch(node) => device.launch(&node, false),
            // A graph's first launch has none before it to overlap.
            Work::Graph(nodes) => nodes
                .iter()
                .enumerate()
                .try_for_each(|(index, node)| device.launch(node, node.overlaps && index > 0)),
            Work::Upload { to, bytes } => {
                device.bytes(to, bytes.len())?.copy_from_slice(&bytes);
                Ok(())
            }
            Work::Download { from, to, bytes } => {
                let from = device.bytes(from, bytes)?;
                // SAFETY: the caller of the copy guarantees so many writable bytes until it has
                // waited for the copy; memory of the device is not the host's.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to as *mut u8, bytes) };
                Ok(())
            }
            Work::Fill { at, value, bytes } => {
                device.bytes(at, bytes)?.fill(value);
                Ok(())
            }
            Work::Event(event) => {
                let now = Object::Event(Event::Reached(Instant::now()));
                // The event may have been destroyed meanwhile.
                self.objects.entry(event).and_modify(|object| *object = now);
                Ok(())
            }
        }
    }

    // ---- Events ----

    pub(crate) fn create_event(&mut self) -> Result<Handle> {
        Self::current_index()?;
        Ok(self.insert(Object::Event(Event::New)))
    }

    fn event(&mut self, handle: Handle) -> Result<&mut Event> {
        match self.object(handle)? {
            Object::Event(event) => Ok(event),
            _ => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
        }
    }

    pub(crate) fn record_event(&mut self, event: Handle, stream: Handle) -> Result<()> {
        *self.event(event)? = Event::Ahead(stream);
        self.put(stream, Work::Event(event))
    }

    pub(crate) fn wait_for(&mut self, event: Handle) -> Result<()> {
        match *self.event(event)? {
            Event::Ahead(stream) => self.finish(stream),
            Event::New | Event::Reached(_) => Ok(()),
        }
    }

    pub(crate) fn elapsed(&mut self, start: Handle, end: Handle) -> Result<Duration> {
        match (*self.event(start)?, *self.event(end)?) {
            (Event::Reached(start), Event::Reached(end)) => Ok(end - start),
            (Event::New, _) | (_, Event::New) => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
            _ => Err(CUresult::CUDA_ERROR_NOT_READY),
        }
    }
}
