//! Ctrl-C in long work that runs without the interpreter's lock.

use std::ops::ControlFlow;

use pyo3::prelude::*;

/// Looks for signals now and then, and keeps the exception that one raised.
#[derive(Default)]
pub(crate) struct Interrupt(Option<PyErr>);

impl Interrupt {
    /// Takes the interpreter's lock for a moment; breaks if a signal raised an exception.
    pub(crate) fn look(&mut self) -> ControlFlow<()> {
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(raised) => {
                self.0.get_or_insert(raised);
                ControlFlow::Break(())
            }
        }
    }

    /// Raises what was kept.
    pub(crate) fn check(self) -> PyResult<()> {
        self.0.map_or(Ok(()), Err)
    }
}
