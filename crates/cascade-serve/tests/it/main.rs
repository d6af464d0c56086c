//! A server over HTTP, as programs ask it.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod answers;
mod caches;
mod clients;
mod common;
mod faults;
mod fields;
mod guards;
mod lenient;
mod load;
mod panics;
mod requests;
#[cfg(unix)]
mod signals;
mod streams;

/// Counts the bytes on the heap.
#[global_allocator]
static HEAP: peak_alloc::PeakAlloc = peak_alloc::PeakAlloc;
