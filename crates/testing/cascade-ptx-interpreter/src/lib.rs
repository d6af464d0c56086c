//! An interpreter for PTX, the portable assembly that NVIDIA's compiler makes of kernels. It runs
//! kernels on the CPU and finds what is wrong with them: for tests where there is no GPU.
//!
//! The lanes of a warp execute an instruction together where they are at the same one. A
//! [`Machine`] runs launches one after the other, blocks and warps in a chosen [`ExecutionOrder`],
//! and reports as a [`KernelFault`]:
//!
//! * accesses outside of allocations, or misaligned; reads of shared memory that was never
//!   written;
//! * **races**: accesses of two threads to the same memory, one of them a write, that nothing
//!   orders. Within a block barriers order; blocks of a launch are ordered by counters and fences
//!   only, as in CUDA's memory model; launches by their sequence, except that one which overlaps
//!   the one before may not touch what that has touched before it has waited
//!   (`griddepcontrol.wait`);
//! * shuffles, tile products and barriers that only some lanes of a warp reach;
//! * asynchronous copies that nobody waits for, and reads of what is still being copied.
//!
//! Races are found from the record of accesses, not by luck: a missing barrier is reported in
//! every order. Memory that was never written is filled with ones, which are NaN in every float
//! format.
//!
//! On request it counts what kernels do ([`Counts`]): instructions, sectors of global memory, bank
//! conflicts in shared memory.
//!
//! It knows the instructions that the kernels of this project use; any other is an error when a
//! module is read. Approximate instructions (`ex2.approx`, `rsqrt.approx`, `rcp.approx`) give the
//! correctly rounded result or nearly so, and tile products are summed in order: results are close
//! to a GPU's, not the same.
#![forbid(unsafe_code)]

mod arithmetic;
mod block;
mod counts;
mod error;
mod grid;
mod history;
mod instruction;
mod lanes;
mod launch;
mod machine;
mod memory;
mod read;
mod registers;
mod shared;
mod tile;
mod warp;

pub use counts::{Counts, Shared, Traffic};
pub use error::{FaultSite, KernelFault, ReadError};
pub use grid::ExecutionOrder;
pub use instruction::Module;
pub use machine::{Launch, Machine};
