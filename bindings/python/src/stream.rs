//! A generation in progress.

use std::sync::{Mutex, MutexGuard, PoisonError};

use cascade::{Generation, StepReport, TokenLogprobs};
use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;

use crate::cascade::Cascade;
use crate::error::{CascadeError, to_python};
use crate::output::{Output, Step};

/// A generation that owns the engine of its cascade, and gives it back when it ends, is
/// closed or is dropped.
pub struct Running {
    owner: Py<Cascade>,
    generation: Option<Generation<cascade::Cascade>>,
    logprobs: Vec<TokenLogprobs>,
}

impl Running {
    pub fn new(owner: Py<Cascade>, generation: Generation<cascade::Cascade>) -> Self {
        Self {
            owner,
            generation: Some(generation),
            logprobs: Vec::new(),
        }
    }

    /// The next step, without the interpreter's lock while it computes. Signals are looked for
    /// between steps.
    pub fn step(&mut self, py: Python<'_>) -> PyResult<Option<StepReport>> {
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

    /// Gives the engine back, and what has been generated.
    pub fn end(&mut self) -> Option<Output> {
        let generation = self.generation.take()?;
        let (output, engine) = generation.into_output_and_cascade();
        let owner = self.owner.get();
        owner.put_back(engine);
        let logprobs = std::mem::take(&mut self.logprobs);
        Some(Output::new(output, owner.names(), logprobs))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// An iterator over the steps of a generation; see the stubs.
#[pyclass(module = "cascade_decoding", frozen)]
pub struct Stream(Mutex<State>);

struct State {
    running: Running,
    output: Option<Py<Output>>,
}

impl Stream {
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
        if let Some(output) = self.running.end() {
            self.output = Some(Py::new(py, output)?);
        }
        Ok(())
    }
}

#[pymethods]
impl Stream {
    fn __iter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Step> {
        let mut state = self.state()?;
        let step = state.running.step(py);
        if !matches!(&step, Ok(Some(report)) if report.finish.is_none()) {
            state.end(py)?;
        }
        let report = step?.ok_or_else(|| PyStopIteration::new_err(()))?;
        Ok(Step::new(report, state.running.owner.get().names()))
    }

    fn __enter__(own: PyRef<'_, Self>) -> PyRef<'_, Self> {
        own
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state()?.end(py)
    }

    #[getter]
    fn output(&self, py: Python<'_>) -> PyResult<Py<Output>> {
        match &self.state()?.output {
            Some(output) => Ok(output.clone_ref(py)),
            None => Err(CascadeError::new_err(
                "the stream has not ended; take its steps to the end, or close it",
            )),
        }
    }
}
