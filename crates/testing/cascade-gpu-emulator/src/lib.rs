//! A GPU for tests: runs the kernels' PTX in an interpreter on the CPU, and finds races between
//! their threads.
//!
//! ```
//! use cascade_gpu_emulator::{emulated, ExecutionOrder};
//!
//! let device = emulated(ExecutionOrder::Forward);
//! assert_eq!(device.name(), "emulated GPU");
//! ```
// cascade-gpu's own unit tests include this file, as what they test is not public.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use cascade_gpu::{Address, Device, Driver, Error, Facts, Graph, Launch, Result, PTX_80, PTX_90};
pub use cascade_ptx_interpreter::{Counts, ExecutionOrder};
use cascade_ptx_interpreter::{KernelFault, Machine, Module};

/// Blocks that an H200's 132 multiprocessors hold at once, two each.
const SLOTS: usize = 264;

/// A device on the CPU: it runs kernels as a GPU does but slowly, blocks and their threads in this
/// order, which no result may depend on.
///
/// # Panics
/// If the kernels have instructions that the interpreter does not know.
pub fn emulated(order: ExecutionOrder) -> Device {
    Emulator::new(order).device()
}

/// The same with other kernels: those of [`emulated`] with a fault, for tests of the tests.
///
/// # Errors
/// If the text has something that is not known.
pub fn emulating(ptx: &str, order: ExecutionOrder) -> Result<Device> {
    Emulator::of(ptx, order).map(|emulator| emulator.device())
}

/// What the device of [`emulated`] is, to count what its kernels do. Cloning gives another handle
/// of the same.
#[derive(Clone, Debug)]
pub struct Emulator(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    machine: Mutex<Machine>,
    /// Whether recorded launches overlap: if the kernels are those that wait for each other.
    overlap: bool,
}

impl Emulator {
    /// The kernels that are shipped.
    ///
    /// # Panics
    /// As [`emulated`].
    pub fn new(order: ExecutionOrder) -> Self {
        // They are read once in a process, which takes longer than to run a small one.
        static READ: [OnceLock<Module>; 2] = [const { OnceLock::new() }; 2];
        // Against the order it emulates compute capability 8.0, else 9.0.
        let (read, ptx) = match order {
            ExecutionOrder::Backward => (&READ[0], PTX_80.as_str()),
            _ => (&READ[1], PTX_90.as_str()),
        };
        let module =
            read.get_or_init(|| Module::read(ptx).unwrap_or_else(|error| panic!("{error}")));
        Self::with(module.clone(), ptx, order)
    }

    /// Other kernels.
    ///
    /// # Errors
    /// As [`emulating`].
    pub fn of(ptx: &str, order: ExecutionOrder) -> Result<Self> {
        let module = Module::read(ptx).map_err(|error| Error::Kernel {
            kernel: "text",
            reason: error.to_string(),
        })?;
        Ok(Self::with(module, ptx, order))
    }

    fn with(module: Module, ptx: &str, order: ExecutionOrder) -> Self {
        let mut machine = Machine::new(order);
        machine.load(module);
        Self(Arc::new(Shared {
            machine: Mutex::new(machine),
            overlap: ptx.contains("griddepcontrol.wait"),
        }))
    }

    /// The device that it is.
    pub fn device(&self) -> Device {
        Device::of(self.clone())
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0
            .machine
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what kernels do from now on.
    pub fn count(&self) {
        self.machine().count();
    }

    /// What kernels did since then, by name.
    pub fn counts(&self) -> Vec<(String, Counts)> {
        let machine = self.machine();
        let counts = machine.counts();
        let name = |name: &str| name.trim_start_matches("cascade_").to_owned();
        counts
            .map(|(kernel, counts)| (name(kernel), counts))
            .collect()
    }

    fn start(&self, launch: &Launch, overlaps: bool) -> Result<()> {
        let run = self.machine().launch(cascade_ptx_interpreter::Launch {
            kernel: &format!("cascade_{}", launch.kernel()),
            grid: launch.grid(),
            threads: launch.threads(),
            parameters: launch.arguments(),
            overlaps,
        });
        run.map_err(|fault| Error::Kernel {
            kernel: launch.kernel(),
            reason: fault.to_string(),
        })
    }
}

impl Driver for Emulator {
    fn facts(&self) -> Facts {
        Facts {
            name: "emulated GPU".to_owned(),
            driver: "none".to_owned(),
            capability: (9, 0),
            slots: SLOTS,
            overlaps: true,
            can_overlap: true,
        }
    }

    fn memory(&self) -> Result<(usize, usize)> {
        Ok((self.machine().allocated(), usize::MAX))
    }

    /// Filled with NaN (in f32 as in bf16): what nobody wrote must not count.
    fn allocate(&self, bytes: usize) -> Result<Address> {
        Ok(self.machine().allocate(bytes))
    }

    fn free(&self, address: Address) {
        self.machine().free(address);
    }

    fn upload(&self, to: Address, bytes: &[u8]) -> Result<()> {
        let mut machine = self.machine();
        let there = machine.bytes(to, bytes.len()).map_err(outside)?;
        there.copy_from_slice(bytes);
        Ok(())
    }

    fn download(&self, from: Address, bytes: &mut [u8]) -> Result<()> {
        let mut machine = self.machine();
        bytes.copy_from_slice(machine.bytes(from, bytes.len()).map_err(outside)?);
        Ok(())
    }

    fn zero(&self, at: Address, bytes: usize) -> Result<()> {
        self.machine().bytes(at, bytes).map_err(outside)?.fill(0);
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        let start = Instant::now();
        work().map(|()| start.elapsed().as_secs_f64())
    }

    fn launch(&self, launch: &Launch) -> Result<()> {
        self.start(launch, false)
    }

    fn run(&self, launches: &[Launch], _: Option<&Graph>) -> Result<()> {
        let mut launches = launches.iter();
        launches.next().map_or(Ok(()), |first| self.launch(first))?;
        launches.try_for_each(|launch| self.start(launch, self.0.overlap))
    }
}

fn outside(fault: KernelFault) -> Error {
    Error::Driver {
        call: "a copy",
        reason: fault.to_string(),
    }
}
