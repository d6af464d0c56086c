//! Checks that a cascade's output is what its target alone would emit.
//!
//! * [`rescore`], [`rescore_sampled`]: greedy and coupled output against the plain target, token by
//!   token, by teacher forcing.
//! * [`Cells`] and [`agreement`]: samples against the target's enumerated distribution.
//!
//! Both use a separate scorer of the target and are independent of the cascade: their only input
//! from it is its tokens.

mod cells;
mod rescored;
mod sampled;
mod tolerance;

pub use cells::{Cells, CellsError};
pub use rescored::{rescore, rescore_sampled, Difference, Rescored};
pub use sampled::{agreement, Agreement};
pub use tolerance::{Tolerance, LEAST, ROUNDINGS};
