//! Formulas against the paper, enumeration and simulation.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

mod chains;
mod ewif;
mod mdp;
mod rejection;
mod search;
mod simulation;
mod table1;
