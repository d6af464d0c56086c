//! Drafters written in Python.

use cascade::{Budget, Observation, ScoredTree, TokenId};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::error::Fault;
use crate::tree::{proposed, Tree};

/// One step of the target, as a drafter in Python learns of it; see the stubs.
#[pyclass(module = "cascade_decoding", frozen)]
pub struct Observed {
    #[pyo3(get)]
    context: Py<PyArray1<TokenId>>,
    #[pyo3(get)]
    emitted: Py<PyArray1<TokenId>>,
    #[pyo3(get)]
    argmax: Py<PyArray1<TokenId>>,
    #[pyo3(get)]
    accepted: Vec<usize>,
    draft: Tree,
}

#[pymethods]
impl Observed {
    #[getter]
    fn draft(&self) -> Tree {
        self.draft.clone()
    }
}

impl Observed {
    fn new(py: Python<'_>, seen: &Observation<'_>) -> Self {
        Self {
            context: PyArray1::from_slice(py, seen.context).unbind(),
            emitted: PyArray1::from_slice(py, seen.emitted).unbind(),
            argmax: PyArray1::from_slice(py, seen.argmax).unbind(),
            accepted: seen.accepted.to_vec(),
            draft: Tree::from(seen.draft),
        }
    }
}

/// A `cascade_decoding.Drafter`.
pub(crate) struct PyDrafter {
    object: Py<PyAny>,
    observes: bool,
    fault: Fault,
}

impl PyDrafter {
    pub(crate) fn new(object: &Bound<'_, PyAny>, fault: Fault) -> Self {
        Self {
            object: object.clone().unbind(),
            observes: object.hasattr("observe").unwrap_or(false),
            fault,
        }
    }
}

impl cascade::Drafter for PyDrafter {
    fn set_source(&mut self, source: &[TokenId]) {
        let set = Python::attach(|py| {
            let source = PyArray1::from_slice(py, source);
            self.object
                .bind(py)
                .call_method1("set_source", (source,))
                .map(drop)
        });
        self.fault.keep(set, ());
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let tree = Python::attach(|py| {
            let arguments = (
                PyArray1::from_slice(py, context),
                budget.depth,
                budget.nodes,
            );
            let value = self.object.bind(py).call_method1("propose", arguments)?;
            proposed(&value)
        });
        let tree = self.fault.keep(tree, Tree::from(ScoredTree::default()));
        if tree.probabilities.is_empty() {
            tree.tree.into()
        } else {
            ScoredTree::estimated(tree.tree, |node| tree.probabilities[node])
        }
    }

    fn observe(&mut self, seen: &Observation<'_>) {
        if self.observes {
            let told = Python::attach(|py| {
                let seen = Observed::new(py, seen);
                self.object
                    .bind(py)
                    .call_method1("observe", (seen,))
                    .map(drop)
            });
            self.fault.keep(told, ());
        }
    }
}
