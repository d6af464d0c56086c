//! Runs kernels on the processor, for tests: see `kernels/emulator.c`.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{c_char, c_void, CStr, CString};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::launch::Launch;
use crate::{Address, Error, Result};

extern "C" {
    fn cascade_emulate(
        name: *const c_char,
        grid: *const u32,
        threads: u32,
        arguments: *const c_void,
        backwards: i32,
    ) -> *const c_char;
    #[cfg(test)]
    fn cascade_emulated_layout(index: u32) -> usize;
}

/// Sixteens of bytes before and after an allocation, which nothing may change.
const GUARD: usize = 16;

/// Memory of the host that plays a device's.
#[derive(Debug, Default)]
pub(crate) struct Emulator {
    /// Allocations by address, in sixteens of bytes, which kernels load at once; with guards.
    memory: Mutex<HashMap<Address, Box<[u128]>>>,
    /// Whether threads and blocks run against the order of their numbers.
    backwards: bool,
}

impl Emulator {
    pub(crate) fn new(backwards: bool) -> Self {
        Self {
            memory: Mutex::default(),
            backwards,
        }
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<Address, Box<[u128]>>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes allocated.
    pub(crate) fn allocated(&self) -> usize {
        let memory = self.memory();
        let words = memory.values().map(|block| block.len() - 2 * GUARD);
        words.sum::<usize>() * 16
    }

    /// Filled with NaN (in f32 as in bf16): what nobody wrote must not count.
    pub(crate) fn allocate(&self, bytes: usize) -> Address {
        let words = bytes.div_ceil(16).max(1);
        let mut block = vec![u128::MAX; words + 2 * GUARD].into_boxed_slice();
        let address = block[GUARD..].as_mut_ptr() as Address;
        self.memory().insert(address, block);
        address
    }

    pub(crate) fn free(&self, address: Address) {
        self.memory().remove(&address);
    }

    pub(crate) fn upload(&self, to: Address, bytes: &[u8]) {
        // SAFETY: the caller (`Buffer`) has checked that the bytes lie within an allocation that it owns.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) }
    }

    pub(crate) fn download(&self, from: Address, bytes: &mut [u8]) {
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, bytes.as_mut_ptr(), bytes.len()) }
    }

    pub(crate) fn zero(&self, at: Address, bytes: usize) {
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(at as *mut u8, 0, bytes) }
    }

    pub(crate) fn launch(&self, launch: &Launch) -> Result<()> {
        let wrong = |reason: String| Error::Kernel {
            kernel: launch.kernel.name(),
            reason,
        };
        let name = CString::new(launch.kernel.name()).map_err(|e| wrong(e.to_string()))?;
        let arguments: *const c_void = launch.arguments.as_ptr().cast();
        // SAFETY: arguments have the layout that the kernel expects (compared in a test), and their addresses are of
        // buffers that live as long as the launch is known to anyone. Kernels stay within them; that is what tests are for.
        let failure = unsafe {
            cascade_emulate(
                name.as_ptr(),
                launch.grid.as_ptr(),
                launch.threads,
                arguments,
                i32::from(self.backwards),
            )
        };
        if failure.is_null() {
            return match self.guards_are_whole() {
                true => Ok(()),
                false => Err(wrong("it writes beyond a buffer".to_owned())),
            };
        }
        // SAFETY: what comes back is a string literal.
        let reason = unsafe { CStr::from_ptr(failure) };
        Err(wrong(reason.to_string_lossy().into_owned()))
    }

    fn guards_are_whole(&self) -> bool {
        let whole = |guard: &[u128]| guard.iter().all(|&word| word == u128::MAX);
        let memory = self.memory();
        let mut blocks = memory.values();
        blocks.all(|block| whole(&block[..GUARD]) && whole(&block[block.len() - GUARD..]))
    }
}

/// Sizes and offsets of the structures that kernels are called with.
#[cfg(test)]
pub(crate) fn layout() -> Vec<usize> {
    // SAFETY: a pure function.
    let entries = (0..).map(|index| unsafe { cascade_emulated_layout(index) });
    entries.take_while(|&size| size > 0).collect()
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;

    use super::*;
    use crate::arguments::{Answer, CopyArguments, FillArguments, LogitsArguments, Step};
    use crate::launch::Kernel;
    use crate::Device;

    /// What the emulator says of a kernel that it finds wrong.
    fn complaint(device: &Device, launch: &Launch) -> String {
        device.launch(launch).unwrap_err().to_string()
    }

    #[test]
    fn threads_that_exchange_nothing_while_others_do_are_noticed() {
        let device = Device::emulated(false);
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
        assert!(complaint(&device, &of_threads(48)).contains("some threads of a warp"));
        assert!(complaint(&device, &of_threads(2048))
            .contains("more threads than the kernel is compiled for"));
        device.launch(&of_threads(64)).unwrap();
    }

    #[test]
    fn writes_beyond_a_buffer_are_noticed() {
        for backwards in [false, true] {
            let device = Device::emulated(backwards);
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
            assert!(beyond.contains("writes beyond a buffer"), "{beyond}");
        }
    }

    #[test]
    fn loads_from_odd_addresses_are_noticed() {
        let device = Device::emulated(false);
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
        assert!(odd.contains("sixteen does not divide"), "{odd}");
    }

    #[test]
    fn unknown_kernels_are_noticed() {
        let grid = [1u32; 3];
        // SAFETY: the name ends with a zero, the grid has three sizes, and no kernel reads the arguments.
        let failure = unsafe {
            let name = c"no_such_kernel".as_ptr();
            cascade_emulate(name, grid.as_ptr(), 32, std::ptr::null(), 0)
        };
        assert!(!failure.is_null());
    }

    #[test]
    fn memory_that_nobody_wrote_is_no_number() {
        let device = Device::emulated(false);
        let buffer = device.allocate(20).unwrap();
        let mut values = [0f32; 5];
        buffer.read(0, &mut values).unwrap();
        assert!(values.iter().all(|value| value.is_nan()));
        assert_eq!(device.memory().unwrap().0, 32);
        drop(buffer);
        assert_eq!(device.memory().unwrap().0, 0);
    }
}
