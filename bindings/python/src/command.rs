//! The programs, as functions of the package.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line of this process, the program's name first, and returns its exit status.
#[pyfunction]
pub(crate) fn command_main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| cascade_cli::main_with(arguments).number())
}

/// Runs a command line of `cascade-lab`, the program's name first, and returns its exit status.
#[pyfunction]
pub(crate) fn lab_main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| cascade_lab::main_with(arguments).number())
}
