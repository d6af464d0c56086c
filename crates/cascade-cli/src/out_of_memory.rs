//! What happens when memory runs out: a line on standard error, and the exit status of an error.
//!
//! The standard library aborts the process when an allocation fails (status 134, a core dump where
//! they are on), and lets nobody change that but the allocator. A command that ran out of memory
//! under `ulimit -v` has not crashed, and scripts should be able to tell. So this program's
//! allocator is the system's, but for one branch, which is taken where it has nothing to give.
//! Panics for which there is no memory end in it, too.
//!
//! Larger things do not get here: models are refused before they are loaded, and weights are
//! mapped, which is an error like any other if it fails.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The system's allocator, which ends this process if there is no memory.
#[derive(Debug)]
pub struct OrEnd;

// SAFETY: everything is what the system's allocator does with the same arguments.
unsafe impl GlobalAlloc for OrEnd {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        or_end(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        or_end(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        or_end(unsafe { System.realloc(memory, layout, size) }, size)
    }
}

#[inline]
fn or_end(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        end(bytes);
    }
    memory
}

/// Says why, and ends this process. Allocates nothing by itself.
#[cold]
fn end(bytes: usize) {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if ENDING.swap(true, SeqCst) {
        // Another thread is about to end the process. If it is this one, which found no memory for
        // ending, the standard library aborts it after a while.
        std::thread::sleep(Duration::from_secs(1));
        return;
    }
    // A reader that is gone needs no reason.
    let _ = writeln!(
        std::io::stderr(),
        "error: out of memory: {bytes} bytes more could not be had; take a smaller model or input, end other programs, \
         or raise the limit (`ulimit -v`, that of the container)"
    );
    std::process::exit(2);
}
