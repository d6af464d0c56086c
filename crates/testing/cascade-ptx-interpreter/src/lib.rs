//! Runs PTX, the virtual instructions that NVIDIA's compiler makes of kernels, on the processor, and finds what is wrong with them:
//! for tests of kernels where there is no GPU.
//!
//! The lanes of a warp execute an instruction together where they are at the same one. A [`Machine`] runs launches one after the other,
//! blocks and warps in an [`Schedule`] of choice, and notices
//!
//! * accesses outside of what is allocated, or at odd addresses; shared memory that is read and was never written;
//! * **races**: accesses of two threads to the same memory, one of them a write, that nothing orders. In a block barriers order; blocks of a
//!   launch are ordered by counters and fences only, as in CUDA's memory model; launches by their sequence, except that one which overlaps the one
//!   before it may not touch what that has touched before it has waited (`griddepcontrol.wait`);
//! * shuffles, tile products and barriers that only some lanes of a warp come to;
//! * asynchronous copies that nobody waits for, and reads of what is still on its way.
//!
//! Races are found from who accessed what, not from luck: a missing barrier is noticed in every order. Memory that nobody wrote is
//! full of ones, which are no numbers in any float format.
//!
//! If it is to, it counts what kernels do ([`Counts`]): instructions, sectors of global memory, turns of shared memory's banks.
//!
//! It knows the instructions that kernels of this project are made of; any other is an error when a text is read. Approximate
//! instructions (`ex2.approx`, `rsqrt.approx`, `rcp.approx`) give the correctly rounded result or nearly so, and tile products are summed
//! in order: numbers are close to a GPU's, not the same.

mod arithmetic;
mod block;
mod counts;
mod error;
mod grid;
mod history;
mod instruction;
mod machine;
mod memory;
mod read;
mod shared;
mod tile;
mod warp;

pub use counts::{Counts, Shared, Traffic};
pub use error::{Fault, ReadError, Wrong};
pub use grid::Schedule;
pub use machine::{Launch, Machine};
