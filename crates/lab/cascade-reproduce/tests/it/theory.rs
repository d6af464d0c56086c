//! Formulas against the paper, enumeration and simulation.

mod chains;
mod ewif;
mod mdp;
mod rejection;
mod search;
mod simulation;
mod table1;
