//! Models written in Python.

use cascade::core::{Error, HiddenLayer, HiddenLayers, HiddenStates, Result, ScorerInfo};
use cascade::{Architecture, GatheredProbs, Matrix, RowDetail, Scores, TokenId, TokenTree, Top};
use numpy::{AllowTypeChange, PyArray1, PyArrayLike1, PyArrayLike2};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::tree::Tree;
use crate::view::{figures, view};

/// What the engine needs of each row.
fn wanted<'py>(py: Python<'py>, want: &cascade::Want) -> PyResult<Bound<'py, PyAny>> {
    let rows = match want.rows {
        RowDetail::Argmax => "argmax",
        RowDetail::Gathered => "gathered",
        RowDetail::Logits => "logits",
    };
    let hidden = !want.hidden.is_empty();
    view(
        py,
        "Want",
        figures! { py, rows: rows, top: want.top, entropy: want.entropy, hidden: hidden },
    )
}

/// A `cascade_decoding.Scorer`.
pub(crate) struct PyScorer {
    object: Py<PyAny>,
    architecture: Architecture,
    vocab_size: usize,
    max_context: Option<usize>,
}

impl PyScorer {
    /// Reads what does not change.
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let architecture: String = object.getattr("architecture")?.extract()?;
        Ok(Self {
            object: object.clone().unbind(),
            architecture: match architecture.as_str() {
                "decoder-only" => Architecture::DecoderOnly,
                "encoder-decoder" => Architecture::EncoderDecoder,
                other => {
                    return Err(PyValueError::new_err(format!(
                        "architecture {other:?}: give \"decoder-only\" or \"encoder-decoder\""
                    )));
                }
            },
            vocab_size: object.getattr("vocab_size")?.extract()?,
            max_context: object.getattr("max_context")?.extract()?,
        })
    }

    fn scored(&self, context: &[TokenId], tree: &TokenTree, want: cascade::Want) -> Result<Scores> {
        Python::attach(|py| {
            let arguments = (
                PyArray1::from_slice(py, context),
                Tree::from(tree),
                wanted(py, &want).map_err(Error::backend)?,
            );
            let object = self.object.bind(py);
            let value = object
                .call_method1("score", arguments)
                .map_err(Error::backend)?;
            if !value.hasattr("rows_computed").map_err(Error::backend)? {
                let logits = logits(&value).map_err(Error::backend)?;
                return self.of_logits(&logits, tree, want);
            }
            let scores = scores(&value).map_err(Error::backend)?;
            self.in_vocabulary(&scores)?;
            Ok(scores)
        })
    }

    /// Checks that the scores name no token outside the vocabulary.
    fn in_vocabulary(&self, scores: &Scores) -> Result<()> {
        let vocab_size = self.vocab_size;
        let outside = |&&token: &&TokenId| token as usize >= vocab_size;
        match scores.argmax.iter().find(outside) {
            None => Ok(()),
            Some(&token) => Err(Error::TokenOutOfVocabulary { token, vocab_size }),
        }
    }

    /// Everything from logits, as our own models do it.
    fn of_logits(
        &self,
        logits: &Rows<'_, f32>,
        tree: &TokenTree,
        want: cascade::Want,
    ) -> Result<Scores> {
        let logits = logits.as_array();
        if logits.dim() != (tree.len() + 1, self.vocab_size) {
            return Err(Error::BrokenContract {
                interface: "Scorer.score",
                violation: format!(
                    "it returned logits of shape {:?} for a tree of {} nodes and a vocabulary of {}; the shape is \
                     (nodes + 1, vocabulary)",
                    logits.dim(),
                    tree.len(),
                    self.vocab_size
                ),
            });
        }
        if !want.hidden.is_empty() {
            return Err(Error::BrokenContract {
                interface: "Scorer.score",
                violation: "it returned logits alone, and hidden states were wanted; return Scores"
                    .to_owned(),
            });
        }
        let rows = tree.len() + 1;
        let logits = Matrix::new(self.vocab_size, logits.iter().copied().collect());
        let scores = cascade::models::scores_of_logits(logits, tree, want)?;
        Ok(scores.with_rows_computed(rows))
    }
}

impl cascade::Scorer for PyScorer {
    fn info(&self) -> ScorerInfo {
        ScorerInfo::new(self.architecture, self.vocab_size)
            .with_max_context(self.max_context)
            .with_hidden(HiddenLayers::LAST)
    }

    fn set_source(&mut self, source: &[TokenId]) -> Result<()> {
        Python::attach(|py| {
            let source = PyArray1::from_slice(py, source);
            let set = self.object.bind(py).call_method1("set_source", (source,));
            set.map(drop).map_err(Error::backend)
        })
    }

    fn score(
        &mut self,
        context: &[TokenId],
        tree: &TokenTree,
        want: cascade::Want,
    ) -> Result<Scores> {
        self.scored(context, tree, want)
    }
}

/// Reads logits: an array of any numbers, or lists of lists.
fn logits<'py>(value: &Bound<'py, PyAny>) -> PyResult<Rows<'py, f32>> {
    let read: PyResult<_> = value.extract();
    read.map_err(|cause| {
        let error = PyTypeError::new_err(format!(
            "Scorer.score returned {}; return Scores, or all logits as numbers of shape (nodes + 1, vocabulary)",
            value.get_type()
        ));
        error.set_cause(value.py(), Some(cause));
        error
    })
}

/// Reads a `cascade_decoding.Scores`; what is missing in it the engine reports by name.
fn scores(value: &Bound<'_, PyAny>) -> PyResult<Scores> {
    let argmax: PyArrayLike1<'_, TokenId, AllowTypeChange> = value.getattr("argmax")?.extract()?;
    let rows: usize = value.getattr("rows_computed")?.extract()?;
    let gathered = match present(value, "gathered")? {
        None => None,
        Some(pair) => {
            let (argmax, nodes) = pair.extract::<(Floats<'_>, Floats<'_>)>()?;
            let (argmax, nodes) = (vector(&argmax), vector(&nodes));
            Some(GatheredProbs { argmax, nodes })
        }
    };
    let top = present(value, "top")?.map(|top| top_of(&top)).transpose()?;
    let entropy = present(value, "entropy")?
        .map(|own| own.extract::<Floats<'_>>())
        .transpose()?
        .map(|own| vector(&own));
    let logits = present(value, "logits")?
        .map(|own| matrix(&own))
        .transpose()?;
    let hidden = present(value, "hidden")?
        .map(|own| {
            let states = matrix(&own)?;
            PyResult::Ok(HiddenStates::default().with(HiddenLayer::Last, states))
        })
        .transpose()?;
    Ok(Scores::default()
        .with_argmax(argmax.as_array().to_vec())
        .with_gathered(gathered)
        .with_top(top)
        .with_entropy(entropy)
        .with_logits(logits)
        .with_hidden(hidden.unwrap_or_default())
        .with_rows_computed(rows))
}

type Floats<'py> = PyArrayLike1<'py, f32, AllowTypeChange>;
type Rows<'py, T> = PyArrayLike2<'py, T, AllowTypeChange>;

fn vector(values: &Floats<'_>) -> Vec<f32> {
    values.as_array().to_vec()
}

fn present<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let found = value.getattr_opt(name)?;
    Ok(found.filter(|found| !found.is_none()))
}

fn matrix(value: &Bound<'_, PyAny>) -> PyResult<Matrix> {
    let values: Rows<'_, f32> = value.extract()?;
    let values = values.as_array();
    match values.ncols() {
        0 => Err(PyValueError::new_err("a matrix has no columns")),
        columns => Ok(Matrix::new(columns, values.iter().copied().collect())),
    }
}

fn top_of(value: &Bound<'_, PyAny>) -> PyResult<Top> {
    let (tokens, probabilities) = value.extract::<(Rows<'_, TokenId>, Rows<'_, f32>)>()?;
    let (tokens, probabilities) = (tokens.as_array(), probabilities.as_array());
    if tokens.dim() != probabilities.dim() {
        return Err(PyValueError::new_err(format!(
            "top tokens have shape {:?} and their probabilities {:?}",
            tokens.dim(),
            probabilities.dim()
        )));
    }
    Ok(Top {
        width: tokens.ncols(),
        tokens: tokens
            .iter()
            .copied()
            .zip(probabilities.iter().copied())
            .collect(),
    })
}
