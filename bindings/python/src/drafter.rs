//! Drafters written in Python.

use cascade::{Budget, Observation, ScoredTree, TokenId};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::policy::PyPart;
use crate::tree::{Tree, proposed};

/// One step of the target, as a drafter in Python learns of it; see the stubs.
#[pyclass(module = "cascade_decoding", frozen, get_all)]
pub(crate) struct Observed {
    context: Py<PyArray1<TokenId>>,
    emitted: Py<PyArray1<TokenId>>,
    argmax: Py<PyArray1<TokenId>>,
    accepted: Vec<usize>,
    draft: Tree,
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
        self.0.observe(|py| Observed::new(py, seen));
    }
}
