//! Whether what a cascade emits is what its target would have emitted.
//!
//! * [`rescore`]: greedy output against the plain target, token by token, by teacher forcing.
//! * [`Cells`] and [`agreement`]: samples against the target's enumerated distribution.
//!
//! Both ask the target through a scorer of their own and know nothing of the cascade: tokens go in,
//! findings come out.

mod cells;
mod rescored;
mod sampled;

pub use cells::{Cells, CellsError};
pub use rescored::{rescore, Difference, Rescored};
pub use sampled::{agreement, Agreement};
