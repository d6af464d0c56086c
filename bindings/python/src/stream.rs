//! A generation in progress.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cascade::{Generation, StepReport, TokenLogprobs};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::engine::Engine;
use crate::error::{CascadeError, not_forked, to_python};
use crate::output::{Answer, output, step};

/// A generation that owns the cascade of its engine, and gives it back when it ends, is closed or
/// is dropped.
pub struct Running {
    owner: Py<Engine>,
    generation: Option<Generation<cascade::Cascade>>,
    logprobs: Vec<TokenLogprobs>,
}

impl Running {
    pub fn new(owner: Py<Engine>, generation: Generation<cascade::Cascade>) -> Self {
        Self {
            owner,
            generation: Some(generation),
            logprobs: Vec::new(),
        }
    }

    /// The next step, without the interpreter's lock while it computes. Signals are looked for
    /// between steps.
    pub fn step(&mut self, py: Python<'_>) -> PyResult<Option<StepReport>> {
        not_forked()?;
        let Some(generation) = &mut self.generation else {
            return Ok(None);
        };
        let report = py.detach(|| generation.step());
        self.owner.get().fault.check()?;
        let report = report.map_err(to_python)?;
        if let Some(report) = &report {
            self.logprobs.extend(report.logprobs.iter().cloned());
        }
        py.check_signals()?;
        Ok(report)
    }

    /// Gives the cascade back, and what has been generated.
    pub fn end(&mut self) -> Option<Answer> {
        let generation = self.generation.take()?;
        let (output, cascade) = generation.into_output_and_cascade();
        self.owner.get().put_back(cascade);
        Some((output, std::mem::take(&mut self.logprobs)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The steps of a generation, which a `Stream` takes.
#[pyclass(module = "cascade_decoding._lib", frozen)]
pub struct Steps(Mutex<State>);

struct State {
    running: Running,
    output: Option<Py<PyDict>>,
}

impl Steps {
    pub fn new(running: Running) -> Self {
        Self(Mutex::new(State {
            running,
            output: None,
        }))
    }

    fn state(&self) -> PyResult<MutexGuard<'_, State>> {
        match self.0.try_lock() {
            Ok(state) => Ok(state),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => {
                Ok(PoisonError::into_inner(poisoned))
            }
            Err(std::sync::TryLockError::WouldBlock) => Err(CascadeError::new_err(
                "another thread is taking a step of this stream",
            )),
        }
    }
}

impl State {
    fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        if let Some(answer) = self.running.end() {
            let names = &self.running.owner.get().names;
            self.output = Some(output(py, &answer, names)?.unbind());
        }
        Ok(())
    }
}

#[pymethods]
impl Steps {
    fn __iter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut state = self.state()?;
        let taken = state.running.step(py);
        if !matches!(&taken, Ok(Some(report)) if report.finish.is_none()) {
            state.end(py)?;
        }
        let report = taken?.ok_or_else(|| PyStopIteration::new_err(()))?;
        step(py, &report, &state.running.owner.get().names)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state()?.end(py)
    }

    #[getter]
    fn output(&self, py: Python<'_>) -> PyResult<Option<Py<PyDict>>> {
        let state = self.state()?;
        Ok(state.output.as_ref().map(|output| output.clone_ref(py)))
    }
}
