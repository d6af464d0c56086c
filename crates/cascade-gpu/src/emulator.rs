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

/// Memory of the host that plays a device's.
#[derive(Debug, Default)]
pub(crate) struct Emulator {
    /// Allocations by address, in sixteens of bytes, which kernels load at once.
    memory: Mutex<HashMap<Address, Box<[u128]>>>,
    /// Whether threads run against the order of their numbers.
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
        self.memory().values().map(|block| block.len() * 16).sum()
    }

    /// Filled with NaN (in f32 as in bf16): what nobody wrote must not count.
    pub(crate) fn allocate(&self, bytes: usize) -> Address {
        let mut block = vec![u128::MAX; bytes.div_ceil(16).max(1)].into_boxed_slice();
        let address = block.as_mut_ptr() as Address;
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
            return Ok(());
        }
        // SAFETY: what comes back is a string literal.
        let reason = unsafe { CStr::from_ptr(failure) };
        Err(wrong(reason.to_string_lossy().into_owned()))
    }
}

/// Sizes and offsets of the structures that kernels are called with.
#[cfg(test)]
pub(crate) fn layout() -> Vec<usize> {
    // SAFETY: a pure function.
    let entries = (0..).map(|index| unsafe { cascade_emulated_layout(index) });
    entries.take_while(|&size| size > 0).collect()
}
