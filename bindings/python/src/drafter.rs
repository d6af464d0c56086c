//! Drafters written in Python.

use cascade::{Budget, Observation, ScoredTree, TokenId};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::policy::PyPart;
use crate::tree::{Tree, proposed};
use crate::view::{figures, view};

/// One step of the target, as a drafter in Python learns of it.
fn observed<'py>(py: Python<'py>, seen: &Observation<'_>) -> PyResult<Bound<'py, PyAny>> {
    let own = figures! {
        py,
        context: PyArray1::from_slice(py, seen.context),
        emitted: PyArray1::from_slice(py, seen.emitted),
        argmax: PyArray1::from_slice(py, seen.argmax),
        accepted: seen.accepted.to_vec(),
        draft: Tree::from(seen.draft),
    };
    view(py, "Observed", own)
}

/// A `cascade_decoding.Drafter`.
pub(crate) struct PyDrafter(pub(crate) PyPart);

impl cascade::Drafter for PyDrafter {
    fn set_source(&mut self, source: &[TokenId]) {
        self.0.call((), |object| {
            let source = PyArray1::from_slice(object.py(), source);
            object.call_method1("set_source", (source,)).map(drop)
        });
    }

    fn propose(&mut self, context: &[TokenId], budget: Budget) -> ScoredTree {
        let nothing = Tree::from(ScoredTree::default());
        let tree = self.0.call(nothing, |object| {
            let context = PyArray1::from_slice(object.py(), context);
            let arguments = (context, budget.depth, budget.nodes);
            proposed(&object.call_method1("propose", arguments)?)
        });
        if tree.probabilities.is_empty() {
            tree.tree.into()
        } else {
            ScoredTree::estimated(tree.tree, |node| tree.probabilities[node])
        }
    }

    fn observe(&mut self, seen: &Observation<'_>) {
        self.0.observe(|py| observed(py, seen));
    }
}
