//! A device that kernels run on, and memory on it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytemuck::Pod;

use crate::driver::{Gpu, Graph};
#[cfg(feature = "emulator")]
use crate::emulator::Emulator;
use crate::launch::Launch;
#[cfg(feature = "emulator")]
use crate::launch::{PTX_80, PTX_90};
use crate::{Address, Result};

/// A device that kernels run on. Cloning gives another handle of the same.
#[derive(Clone, Debug)]
pub struct Device(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    machine: Machine,
    /// Bytes of all buffers that there are.
    allocated: AtomicUsize,
    /// The most that they ever were.
    peak: AtomicUsize,
}

#[derive(Debug)]
enum Machine {
    Gpu(Gpu),
    #[cfg(feature = "emulator")]
    Emulator(Emulator),
}

/// Blocks that an H200's 132 multiprocessors hold at once, two each.
#[cfg(feature = "emulator")]
const EMULATED_SLOTS: usize = 264;

/// What a device is and can do, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// The last version of CUDA that its driver knows.
    pub driver: String,
    /// Major and minor number of its compute capability.
    pub capability: (i32, i32),
    /// Blocks of a linear map that it holds at once, from which the order of sums follows.
    pub slots: usize,
    /// Whether recorded launches overlap (`CASCADE_GPU_OVERLAP=1`).
    pub overlaps: bool,
    /// Whether they could.
    pub can_overlap: bool,
}

impl Device {
    /// The GPU number `ordinal`, as the driver counts. All handles of one GPU share its stream:
    /// what is launched through one comes before what is launched later through another.
    ///
    /// Whoever opens it first runs every kernel once, unless `CASCADE_GPU_SELF_TEST` is 0.
    ///
    /// # Errors
    /// [`Error::NoDriver`](crate::Error::NoDriver), [`Error::NoDevice`](crate::Error::NoDevice),
    /// [`Error::SelfTest`](crate::Error::SelfTest), and those of a driver or GPU that is too old.
    pub fn gpu(ordinal: usize) -> Result<Self> {
        static OPEN: Mutex<Vec<(usize, Weak<Shared>)>> = Mutex::new(Vec::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, shared)| shared.strong_count() > 0);
        let known = open.iter().find(|&&(number, _)| number == ordinal);
        if let Some(shared) = known.and_then(|(_, shared)| shared.upgrade()) {
            return Ok(Self(shared));
        }
        let device = Self::of(Machine::Gpu(Gpu::new(ordinal)?));
        if std::env::var_os("CASCADE_GPU_SELF_TEST").is_none_or(|value| value != "0") {
            device.check_kernels()?;
        }
        open.push((ordinal, Arc::downgrade(&device.0)));
        Ok(device)
    }

    /// A GPU emulated on the CPU: it runs kernels as a GPU does but slowly, blocks and their
    /// threads in this order, which no result may depend on; it finds races too
    /// (`cascade_ptx_interpreter`).
    ///
    /// # Panics
    /// If the kernels have instructions that it does not know.
    #[cfg(feature = "emulator")]
    pub fn emulated(order: cascade_ptx_interpreter::ExecutionOrder) -> Self {
        // Against the order it emulates compute capability 8.0, else 9.0.
        let ptx = match order {
            cascade_ptx_interpreter::ExecutionOrder::Backward => PTX_80,
            _ => PTX_90,
        };
        Self::emulating(ptx, order).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same with other kernels: those of [`emulated`](Self::emulated) with a fault, for tests
    /// of the tests.
    ///
    /// # Errors
    /// If the text has something that is not known.
    #[cfg(feature = "emulator")]
    pub fn emulating(ptx: &str, order: cascade_ptx_interpreter::ExecutionOrder) -> Result<Self> {
        Ok(Self::of(Machine::Emulator(Emulator::new(ptx, order)?)))
    }

    /// Counts what kernels do from now on, if this device is emulated.
    #[cfg(feature = "emulator")]
    pub fn count(&self) {
        if let Machine::Emulator(emulator) = self.machine() {
            emulator.count();
        }
    }

    /// What kernels did since [`count`](Self::count), by name.
    #[cfg(feature = "emulator")]
    pub fn counts(&self) -> Vec<(String, cascade_ptx_interpreter::Counts)> {
        match self.machine() {
            Machine::Gpu(_) => Vec::new(),
            Machine::Emulator(emulator) => emulator.counts(),
        }
    }

    fn of(machine: Machine) -> Self {
        Self(Arc::new(Shared {
            machine,
            allocated: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        }))
    }

    fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// Its name.
    pub fn name(&self) -> String {
        match self.machine() {
            Machine::Gpu(gpu) => gpu.name(),
            #[cfg(feature = "emulator")]
            Machine::Emulator(_) => "emulated GPU".to_owned(),
        }
    }

    /// What it is and can do.
    pub fn facts(&self) -> Facts {
        match self.machine() {
            Machine::Gpu(gpu) => Facts {
                name: gpu.name(),
                driver: gpu.version().to_string(),
                capability: gpu.capability(),
                slots: gpu.slots(),
                overlaps: gpu.overlap().0,
                can_overlap: gpu.overlap().1,
            },
            #[cfg(feature = "emulator")]
            Machine::Emulator(_) => Facts {
                name: self.name(),
                driver: "none".to_owned(),
                capability: (9, 0),
                slots: EMULATED_SLOTS,
                overlaps: true,
                can_overlap: true,
            },
        }
    }

    /// Blocks of a linear map that it holds at once.
    pub(crate) fn slots(&self) -> usize {
        match self.machine() {
            Machine::Gpu(gpu) => gpu.slots(),
            #[cfg(feature = "emulator")]
            Machine::Emulator(_) => EMULATED_SLOTS,
        }
    }

    /// Bytes of its memory that are in use, by whomever, and all of them.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn memory(&self) -> Result<(usize, usize)> {
        match self.machine() {
            Machine::Gpu(gpu) => gpu.memory().map(|(free, all)| (all - free, all)),
            #[cfg(feature = "emulator")]
            Machine::Emulator(emulator) => Ok((emulator.allocated(), usize::MAX)),
        }
    }

    /// The most bytes that buffers took at once so far, those of other handles of the device
    /// included.
    pub fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    /// Memory of `bytes` bytes, uninitialised.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        let address = match self.machine() {
            Machine::Gpu(gpu) => gpu.allocate(bytes)?,
            #[cfg(feature = "emulator")]
            Machine::Emulator(emulator) => emulator.allocate(bytes),
        };
        let allocated = self.0.allocated.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.0.peak.fetch_max(allocated, Ordering::Relaxed);
        Ok(Buffer {
            device: self.clone(),
            address,
            bytes,
        })
    }

    /// Memory of `bytes` zeros.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub(crate) fn zeroed(&self, bytes: usize) -> Result<Buffer> {
        let buffer = self.allocate(bytes)?;
        buffer.zero()?;
        Ok(buffer)
    }

    /// Memory that holds `values`.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), and if the copy fails.
    pub fn upload(&self, values: &[impl Pod]) -> Result<Buffer> {
        let buffer = self.allocate(size_of_val(values))?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Waits until everything launched is done.
    ///
    /// # Errors
    /// What launches failed with, which the driver reports only now.
    pub fn synchronize(&self) -> Result<()> {
        match self.machine() {
            Machine::Gpu(gpu) => gpu.synchronize(),
            #[cfg(feature = "emulator")]
            Machine::Emulator(_) => Ok(()),
        }
    }

    /// Seconds that the device takes for what `work` launches.
    ///
    /// # Errors
    /// Those of `work`, and if the driver fails.
    pub fn time(&self, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        match self.machine() {
            Machine::Gpu(gpu) => gpu.time(work),
            #[cfg(feature = "emulator")]
            Machine::Emulator(_) => {
                let start = std::time::Instant::now();
                work().map(|()| start.elapsed().as_secs_f64())
            }
        }
    }

    pub(crate) fn launch(&self, launch: &Launch) -> Result<()> {
        match self.machine() {
            Machine::Gpu(gpu) => gpu.launch(launch),
            #[cfg(feature = "emulator")]
            Machine::Emulator(emulator) => emulator.launch(launch),
        }
    }

    pub(crate) fn record(&self, launches: Vec<Launch>) -> Result<Program> {
        let graph = match self.machine() {
            Machine::Gpu(gpu) => Some(gpu.record(&launches)?),
            #[cfg(feature = "emulator")]
            Machine::Emulator(_) => None,
        };
        Ok(Program { launches, graph })
    }

    pub(crate) fn run(&self, program: &Program) -> Result<()> {
        match (self.machine(), &program.graph) {
            (Machine::Gpu(gpu), Some(graph)) => gpu.replay(graph),
            #[cfg(feature = "emulator")]
            (Machine::Emulator(emulator), _) => emulator.run(&program.launches),
            (Machine::Gpu(_), None) => program.launches.iter().try_for_each(|l| self.launch(l)),
        }
    }
}

/// Launches that are run as one: on a GPU a graph, which costs the host one call.
#[derive(Debug)]
pub(crate) struct Program {
    launches: Vec<Launch>,
    graph: Option<Graph>,
}

impl Program {
    pub(crate) fn launches(&self) -> &[Launch] {
        &self.launches
    }
}

/// Memory on a device, freed when it is dropped.
#[derive(Debug)]
pub struct Buffer {
    device: Device,
    address: Address,
    bytes: usize,
}

impl Buffer {
    /// Where it begins.
    pub(crate) fn address(&self) -> Address {
        self.address
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `values` to where byte `at` is.
    ///
    /// # Errors
    /// If the driver fails.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&self, at: usize, values: &[impl Pod]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        assert!(at + bytes.len() <= self.bytes, "a write beyond a buffer");
        match self.device.machine() {
            Machine::Gpu(gpu) => gpu.upload(self.address + at as Address, bytes),
            #[cfg(feature = "emulator")]
            Machine::Emulator(emulator) => emulator.upload(self.address + at as Address, bytes),
        }
    }

    /// Copies to `values` what lies from byte `at` on, once everything launched is done.
    ///
    /// # Errors
    /// What launches failed with, and if the driver fails.
    ///
    /// # Panics
    /// If there are not so many bytes.
    pub fn read(&self, at: usize, values: &mut [impl Pod]) -> Result<()> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
        assert!(at + bytes.len() <= self.bytes, "a read beyond a buffer");
        match self.device.machine() {
            Machine::Gpu(gpu) => gpu.download(self.address + at as Address, bytes),
            #[cfg(feature = "emulator")]
            Machine::Emulator(emulator) => emulator.download(self.address + at as Address, bytes),
        }
    }

    /// Fills it with zeros.
    ///
    /// # Errors
    /// If the driver fails.
    pub fn zero(&self) -> Result<()> {
        match self.device.machine() {
            Machine::Gpu(gpu) => gpu.zero(self.address, self.bytes),
            #[cfg(feature = "emulator")]
            Machine::Emulator(emulator) => emulator.zero(self.address, self.bytes),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let allocated = &self.device.0.allocated;
        allocated.fetch_sub(self.bytes, Ordering::Relaxed);
        match self.device.machine() {
            Machine::Gpu(gpu) => gpu.free(self.address),
            #[cfg(feature = "emulator")]
            Machine::Emulator(emulator) => emulator.free(self.address),
        }
    }
}
