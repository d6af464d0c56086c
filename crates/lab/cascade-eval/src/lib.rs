//! What a cascade does and costs, measured: recorded targets, losslessness, tuning, statistics.
//!
//! * [`trace`]: a target's outputs, recorded, and cascades replayed with the recording in its
//!   place.
//! * [`lossless`]: whether a cascade's output is its target's.
//! * [`tune`]: search for a K matrix by predicted cost.
//! * [`ForwardBench`], [`CostTable`], [`Bootstrap`]: what forwards cost, and how sure means are.

#![forbid(unsafe_code)]

mod bootstrap;
mod error;
mod forward_cost;
pub mod lossless;
mod swi;
pub mod trace;
pub mod tune;

pub use bootstrap::{median, Bootstrap};
pub use error::{Error, Result};
pub use forward_cost::{read_bandwidth, ForwardBench, ForwardCost};
pub use swi::{CostError, CostTable};
