//! Emulates a GPU, for tests: runs the kernels' PTX in an interpreter on the CPU.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cascade_ptx_interpreter::{Counts, ExecutionOrder, KernelFault, Machine, ReadError};

use crate::launch::Launch;
use crate::{Address, Error, Result};

/// A GPU emulated on the CPU.
#[derive(Debug)]
pub(crate) struct Emulator {
    machine: Mutex<Machine>,
    /// Whether recorded launches overlap: if the kernels are those that wait for each other.
    overlap: bool,
}

impl Emulator {
    pub(crate) fn new(ptx: &str, order: ExecutionOrder) -> Result<Self> {
        let mut machine = Machine::new(order);
        let wrong = |error: ReadError| Error::Kernel {
            kernel: "text",
            reason: error.to_string(),
        };
        machine.load(ptx).map_err(wrong)?;
        Ok(Self {
            machine: Mutex::new(machine),
            overlap: ptx.contains("griddepcontrol.wait"),
        })
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what kernels do from now on.
    pub(crate) fn count(&self) {
        self.machine().count();
    }

    /// What kernels did since then, by name.
    pub(crate) fn counts(&self) -> Vec<(String, Counts)> {
        let machine = self.machine();
        let counts = machine.counts();
        let name = |name: &str| name.trim_start_matches("cascade_").to_owned();
        counts
            .map(|(kernel, counts)| (name(kernel), counts))
            .collect()
    }

    /// Bytes allocated.
    pub(crate) fn allocated(&self) -> usize {
        self.machine().allocated()
    }

    /// Filled with NaN (in f32 as in bf16): what nobody wrote must not count.
    pub(crate) fn allocate(&self, bytes: usize) -> Address {
        self.machine().allocate(bytes)
    }

    pub(crate) fn free(&self, address: Address) {
        self.machine().free(address);
    }

    pub(crate) fn upload(&self, to: Address, bytes: &[u8]) -> Result<()> {
        let mut machine = self.machine();
        let there = machine.bytes(to, bytes.len()).map_err(outside)?;
        there.copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn download(&self, from: Address, bytes: &mut [u8]) -> Result<()> {
        let mut machine = self.machine();
        bytes.copy_from_slice(machine.bytes(from, bytes.len()).map_err(outside)?);
        Ok(())
    }

    pub(crate) fn zero(&self, at: Address, bytes: usize) -> Result<()> {
        self.machine().bytes(at, bytes).map_err(outside)?.fill(0);
        Ok(())
    }

    /// Runs recorded launches.
    pub(crate) fn run(&self, launches: &[Launch]) -> Result<()> {
        let mut launches = launches.iter();
        launches.next().map_or(Ok(()), |first| self.launch(first))?;
        launches.try_for_each(|launch| self.start(launch, self.overlap))
    }

    pub(crate) fn launch(&self, launch: &Launch) -> Result<()> {
        self.start(launch, false)
    }

    fn start(&self, launch: &Launch, overlaps: bool) -> Result<()> {
        let run = self.machine().launch(cascade_ptx_interpreter::Launch {
            kernel: &format!("cascade_{}", launch.kernel.name()),
            grid: launch.grid,
            threads: launch.threads,
            parameters: bytemuck::cast_slice(&launch.arguments),
            overlaps,
        });
        run.map_err(|fault| Error::Kernel {
            kernel: launch.kernel.name(),
            reason: fault.to_string(),
        })
    }
}

fn outside(fault: KernelFault) -> Error {
    Error::Driver {
        call: "a copy",
        reason: fault.to_string(),
    }
}

/// Sizes and offsets of the structures that kernels are called with, as the kernels know them.
#[cfg(test)]
pub(crate) fn layout(ptx: &str) -> Vec<usize> {
    let mut machine = Machine::new(ExecutionOrder::Forward);
    machine.load(ptx).unwrap();
    let words = machine.constant("cascade_layout").unwrap().chunks(4);
    let number = |word: &[u8]| u32::from_le_bytes(word.try_into().unwrap()) as usize;
    words.map(number).collect()
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;

    use super::*;
    use crate::arguments::{Answer, CopyArguments, FillArguments, LogitsArguments, Step};
    use crate::launch::Kernel;
    use crate::Device;

    const ORDERS: [ExecutionOrder; 3] = [
        ExecutionOrder::Forward,
        ExecutionOrder::Backward,
        ExecutionOrder::Random(7),
    ];

    /// What the emulator says of a kernel that it finds wrong.
    fn complaint(device: &Device, launch: &Launch) -> String {
        device.launch(launch).unwrap_err().to_string()
    }

    #[test]
    fn threads_that_exchange_nothing_while_others_do_are_noticed() {
        let device = Device::emulated(ExecutionOrder::Forward);
        let mut step = Step::zeroed();
        step.rows = 1;
        let step = device.upload(&[step]).unwrap();
        let numbers = device.upload(&[1f32; 64]).unwrap();
        let answer = device.allocate(size_of::<Answer>()).unwrap();
        let arrived = device.upload(&[0u32]).unwrap();
        let arguments = LogitsArguments {
            step: step.address(),
            logits: numbers.address(),
            slices: numbers.address(),
            arrived: arrived.address(),
            answer: answer.address(),
            vocabulary: 16,
            slice_count: 1,
        };
        let of_threads = |threads| Launch::new(Kernel::Logits, [1; 3], threads, arguments);
        assert!(complaint(&device, &of_threads(48)).contains("not the whole warp"));
        assert!(complaint(&device, &of_threads(2048)).contains("compiled for at most"));
        device.launch(&of_threads(64)).unwrap();
    }

    #[test]
    fn writes_beyond_a_buffer_are_noticed() {
        for order in ORDERS {
            let device = Device::emulated(order);
            let buffer = device.allocate(64).unwrap();
            let fill = |to, count| {
                let arguments = FillArguments {
                    to,
                    count,
                    scale: 1.0,
                    ..FillArguments::zeroed()
                };
                Launch::new(Kernel::Fill, [2, 1, 1], 32, arguments)
            };
            device.launch(&fill(buffer.address(), 16)).unwrap();
            let beyond = complaint(&device, &fill(buffer.address(), 17));
            assert!(beyond.contains("outside of global memory"), "{beyond}");
        }
    }

    #[test]
    fn loads_from_odd_addresses_are_noticed() {
        let device = Device::emulated(ExecutionOrder::Forward);
        let buffer = device.upload(&[7u8; 64]).unwrap();
        let copy = |from| {
            let arguments = CopyArguments {
                from,
                to: buffer.address() + 32,
                quads: 1,
            };
            Launch::new(Kernel::CopyQuads, [1; 3], 32, arguments)
        };
        device.launch(&copy(buffer.address())).unwrap();
        let odd = complaint(&device, &copy(buffer.address() + 4));
        assert!(odd.contains("not a multiple of 16"), "{odd}");
    }

    #[test]
    fn memory_that_nobody_wrote_is_no_number() {
        let device = Device::emulated(ExecutionOrder::Forward);
        let buffer = device.allocate(20).unwrap();
        let mut values = [0f32; 5];
        buffer.read(0, &mut values).unwrap();
        assert!(values.iter().all(|value| value.is_nan()));
        assert_eq!(device.memory().unwrap().0, 20);
        drop(buffer);
        assert_eq!(device.memory().unwrap().0, 0);
    }
}
