//! Kernels for transformer forwards on NVIDIA GPUs, and what launches them.
//!
//! * [`Device`]: a GPU, through the driver that is found at run time. Nothing else of CUDA is
//!   needed, neither to build nor to run: the kernels (`kernels/*.cu`) come with the program as
//!   PTX.
//! * [`Loader`]: weights into the device's memory, in the order that kernels read them.
//! * [`Cache`]: keys and values of a sequence.
//! * [`Forward`]: a forward pass of up to 64 rows as launches, layer by layer; [`Runner`] records
//!   it as a graph, runs it, and reads what is wanted of its logits.
//!
//! **A row's values do not depend on the rows beside it.** Every sum runs in an order that follows
//! from the model's sizes and the row's own position: linear maps cut their inputs into parts
//! whatever the number of rows, attention goes through keys by position (wherever a tree has put
//! them) in splits of a fixed size, and parts and splits are added up in order, whoever is done
//! last. So verifying a draft, chain or tree, gives the very bits that plain decoding gives.
//!
//! A [`Driver`] is what a device is reached through: NVIDIA's, or in tests an emulator that runs
//! the kernels' PTX on the CPU (`cascade_gpu_emulator`).

#[cfg(test)]
extern crate self as cascade_gpu;

mod arguments;
mod bandwidth;
mod cache;
mod device;
mod driver;
mod dtype;
// The crate itself is of another build of this one, whose private parts unit tests cannot use.
#[cfg(test)]
#[allow(dead_code, unreachable_pub)]
#[path = "../../testing/cascade-gpu-emulator/src/lib.rs"]
mod emulator;
#[cfg(test)]
mod emulator_tests;
mod error;
mod forward;
mod heads;
mod launch;
mod runner;
mod self_test;
mod weights;
mod workspace;

pub use arguments::{Address, MAX_PICKS, MAX_ROWS, SPLIT, WINDOW};
pub use bandwidth::Bandwidth;
pub use cache::{Cache, CacheShape};
pub use device::{Buffer, Device};
pub use driver::{Driver, Facts, Graph};
pub use dtype::{DType, StorageDType, BLOCK, BLOCK_BYTES};
pub use error::{Error, Result};
pub use forward::{Activation, AttentionKind, Forward, QkvParts, RelativeBias, Rotary};
pub use heads::{padded, Heads};
pub use launch::{Launch, PTX_80, PTX_90};
pub use runner::{Encoding, LaunchCost, Readout, Rows, Runner};
pub use self_test::KernelCheck;
pub use weights::{Linear, Loader, Norm, Table, TensorSource, Weights};
pub use workspace::WorkspaceSizes;
