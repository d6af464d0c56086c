//! Token trees, as numpy arrays.

use cascade::{ScoredTree, TokenId, TokenTree};
use numpy::{AllowTypeChange, PyArray1, PyArray2, PyArrayLike1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A token tree: candidates that may follow a context.
///
/// Nodes are in topological order, a parent before its children; parent -1 is the context. Without
/// ``parents`` each token follows the one before. ``probabilities`` are a drafter's estimates that
/// a node is accepted given that its parent is.
///
/// >>> import cascade_decoding
/// >>> tree = cascade_decoding.Tree([5, 6, 7], [-1, 0, 0])
/// >>> tree.depths.tolist(), tree.is_chain
/// ([0, 1, 1], False)
#[pyclass(module = "cascade_decoding", frozen)]
#[derive(Clone)]
pub struct Tree {
    pub tree: TokenTree,
    pub probabilities: Vec<f32>,
}

impl From<ScoredTree> for Tree {
    /// Estimates only if there is one for each node.
    fn from(scored: ScoredTree) -> Self {
        let nodes = 0..scored.tree().len();
        let estimates: Option<Vec<f32>> = nodes.map(|node| scored.probability(node)).collect();
        Self {
            probabilities: estimates.unwrap_or_default(),
            tree: scored.into_tree(),
        }
    }
}

impl From<&TokenTree> for Tree {
    fn from(tree: &TokenTree) -> Self {
        Self {
            tree: tree.clone(),
            probabilities: Vec::new(),
        }
    }
}

#[pymethods]
impl Tree {
    #[new]
    #[pyo3(signature = (tokens, parents=None, probabilities=None))]
    fn new(
        tokens: PyArrayLike1<'_, TokenId, AllowTypeChange>,
        parents: Option<PyArrayLike1<'_, i64, AllowTypeChange>>,
        probabilities: Option<PyArrayLike1<'_, f32, AllowTypeChange>>,
    ) -> PyResult<Self> {
        let tokens = tokens.as_array().to_vec();
        let parents = parents.map(|parents| parents.as_array().to_vec());
        let probabilities = probabilities.map(|own| own.as_array().to_vec());
        Ok(Self {
            tree: tree_of(&tokens, parents.as_deref())?,
            probabilities: checked(probabilities.unwrap_or_default(), tokens.len())?,
        })
    }

    fn __len__(&self) -> usize {
        self.tree.len()
    }

    /// The token of each node.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<TokenId>> {
        PyArray1::from_iter(py, self.tree.tokens())
    }

    /// The parent of each node: an earlier one, or -1.
    #[getter]
    fn parents<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let parents = (0..self.tree.len()).map(|node| self.tree.parent(node));
        PyArray1::from_iter(
            py,
            parents.map(|parent| parent.map_or(-1, |node| node as i64)),
        )
    }

    /// Number of ancestors of each node: its position after the context.
    #[getter]
    fn depths<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let depths = (0..self.tree.len()).map(|node| self.tree.depth(node) as i64);
        PyArray1::from_iter(py, depths)
    }

    /// The estimates, if there are any.
    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f32>>> {
        let own = &self.probabilities;
        (!own.is_empty()).then(|| PyArray1::from_slice(py, own))
    }

    /// Whether no node has more than one child.
    #[getter]
    fn is_chain(&self) -> bool {
        self.tree.is_chain()
    }

    /// Tokens on the longest path.
    #[getter]
    fn height(&self) -> usize {
        self.tree.height()
    }

    /// ``[N, N]``: whether a node (row) sees another (column): itself and its ancestors.
    ///
    /// >>> import cascade_decoding
    /// >>> cascade_decoding.Tree([5, 6]).mask().tolist()
    /// [[True, False], [True, True]]
    fn mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<bool>>> {
        let rows: Vec<_> = (0..self.tree.len())
            .map(|node| {
                let mut row = vec![false; self.tree.len()];
                for ancestor in self.tree.ancestors(node) {
                    row[ancestor] = true;
                }
                row
            })
            .collect();
        if rows.is_empty() {
            return Ok(PyArray2::zeros(py, [0, 0], false));
        }
        PyArray2::from_vec2(py, &rows).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn __repr__(&self) -> String {
        let parents: Vec<_> = (0..self.tree.len())
            .map(|node| self.tree.parent(node).map_or(-1, |node| node as i64))
            .collect();
        let tokens: Vec<_> = self.tree.tokens().collect();
        format!("Tree(tokens={tokens:?}, parents={parents:?})")
    }
}

/// A tree of nodes in topological order; a chain without parents. Siblings must differ.
fn tree_of(tokens: &[TokenId], parents: Option<&[i64]>) -> PyResult<TokenTree> {
    let Some(parents) = parents else {
        return Ok(TokenTree::chain(tokens.iter().copied()));
    };
    if parents.len() != tokens.len() {
        return Err(PyValueError::new_err(format!(
            "a tree of {} tokens has {} parents; give one for each, -1 for the context",
            tokens.len(),
            parents.len()
        )));
    }
    let mut tree = TokenTree::new();
    for (node, (&token, &parent)) in tokens.iter().zip(parents).enumerate() {
        let parent = match usize::try_from(parent) {
            Ok(parent) if parent < node => Some(parent),
            Err(_) if parent == -1 => None,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "node {node} has parent {parent}; a parent is -1 (the context) or an earlier node"
                )));
            }
        };
        if tree.child(parent, token).is_some() {
            return Err(PyValueError::new_err(format!(
                "node {node} carries token {token}, as an earlier sibling does; siblings must differ"
            )));
        }
        tree.push(token, parent);
    }
    Ok(tree)
}

fn checked(probabilities: Vec<f32>, nodes: usize) -> PyResult<Vec<f32>> {
    let fits = probabilities.is_empty() || probabilities.len() == nodes;
    let valid = probabilities.iter().all(|p| (0.0..=1.0).contains(p));
    if fits && valid {
        Ok(probabilities)
    } else {
        Err(PyValueError::new_err(format!(
            "{} probabilities for {nodes} nodes; give one for each node, from 0 to 1",
            probabilities.len()
        )))
    }
}

/// What a drafter in Python proposes: `None`, a [`Tree`], or the arguments of one.
pub(crate) fn proposed(value: &Bound<'_, PyAny>) -> PyResult<Tree> {
    if value.is_none() {
        return Ok(Tree::from(ScoredTree::default()));
    }
    if let Ok(tree) = value.cast::<Tree>() {
        return Ok(tree.get().clone());
    }
    let tree_type = value.py().get_type::<Tree>();
    let made = match value.cast::<pyo3::types::PyTuple>() {
        Ok(parts) => tree_type.call1(parts.clone())?,
        Err(_) => tree_type.call1((value,))?,
    };
    Ok(made.cast::<Tree>()?.get().clone())
}
