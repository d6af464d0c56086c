//! The statistical drafters of the library, alone or as levels.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cascade::config::{Neural, model_source};
use cascade::ngram::{
    DrafterFactory, MaxGram, MaxGramConfig, MaxGramTree, MaxGramTreeConfig, NgramTable, Occurrence,
    PromptLookup,
};
use cascade::{AssembleOptions, Budget, Drafter, Observation, TokenId, TokenTree};
use numpy::{AllowTypeChange, PyArrayLike1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::to_python;
use crate::tree::Tree;

type Tokens<'py> = PyArrayLike1<'py, TokenId, AllowTypeChange>;

/// A statistical drafter of the library: alone, or as a level of :meth:`Cascade.build`.
///
/// >>> import cascade_decoding
/// >>> drafter = cascade_decoding.MaxGram()
/// >>> drafter.propose([1, 2, 3, 4, 1, 2], depth=2).tokens.tolist()
/// [3, 4]
#[pyclass(module = "cascade_decoding", frozen)]
pub struct NativeDrafter {
    /// What it is called in reports.
    #[pyo3(get)]
    name: &'static str,
    factory: Arc<dyn DrafterFactory>,
    /// Makes those that share a session with `own`.
    forks: Arc<dyn DrafterFactory>,
    own: Mutex<Box<dyn Drafter + Send>>,
}

impl NativeDrafter {
    fn new(name: &'static str, factory: impl DrafterFactory + 'static) -> Self {
        let factory: Arc<dyn DrafterFactory> = Arc::new(factory);
        Self {
            name,
            own: Mutex::new(factory.drafter()),
            forks: Arc::clone(&factory),
            factory,
        }
    }

    /// A fresh one with the same settings, for a cascade.
    pub fn level(&self) -> Box<dyn Drafter + Send> {
        self.factory.drafter()
    }

    fn drafter(&self) -> std::sync::MutexGuard<'_, Box<dyn Drafter + Send>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A table, if it was built for this tokenizer.
fn table_for(path: &Path, tokenizer: &str) -> PyResult<Arc<NgramTable>> {
    let model = Neural::new(model_source(tokenizer).map_err(to_python)?);
    let tokenizer = model
        .load_tokenizer(&AssembleOptions::default())
        .map_err(to_python)?;
    let table = NgramTable::open(path, &tokenizer.fingerprint()).map_err(to_python)?;
    Ok(Arc::new(table))
}

#[pymethods]
impl NativeDrafter {
    /// The paper's Max-Gram: what followed the longest suffix of the text that occurred before.
    ///
    /// ``occurrence``: of several such places the ``"earliest"`` (the paper's) or the ``"latest"``.
    /// ``min_match``: the shortest suffix. ``branches``: how many continuations are drafted.
    ///
    /// >>> import cascade_decoding
    /// >>> drafter = cascade_decoding.MaxGram(occurrence="latest")
    /// >>> drafter.propose([1, 2, 1, 3, 1], depth=1).tokens.tolist()
    /// [3]
    #[staticmethod]
    #[pyo3(signature = (*, occurrence="earliest", min_match=1, branches=1))]
    fn max_gram(occurrence: &str, min_match: usize, branches: usize) -> PyResult<Self> {
        let occurrence = match occurrence {
            "earliest" => Occurrence::Earliest,
            "latest" => Occurrence::Latest,
            other => {
                return Err(PyValueError::new_err(format!(
                    "occurrence {other:?}: give \"earliest\" (the paper's) or \"latest\""
                )));
            }
        };
        let options = MaxGramConfig {
            occurrence,
            min_match,
            branches,
            ..MaxGramConfig::default()
        };
        Ok(Self::new("max-gram", MaxGram::new().with_options(options)))
    }

    /// The tree of all matches, with estimates.
    ///
    /// ``table``: an n-gram table, which belongs to the tokenizer of the model ``tokenizer`` (a
    /// folder or hub id). ``session_tokens``: tokens of earlier texts that are kept to draft from.
    /// ``min_probability``: less probable nodes are not drafted.
    ///
    /// >>> import cascade_decoding
    /// >>> drafter = cascade_decoding.MaxGramTree()
    /// >>> sorted(drafter.propose([1, 2, 3, 1, 2, 4, 1, 2], depth=1, nodes=2).tokens.tolist())
    /// [3, 4]
    #[staticmethod]
    #[pyo3(signature = (*, table=None, tokenizer=None, session_tokens=None, min_probability=None))]
    fn max_gram_tree(
        py: Python<'_>,
        table: Option<PathBuf>,
        tokenizer: Option<&str>,
        session_tokens: Option<usize>,
        min_probability: Option<f32>,
    ) -> PyResult<Self> {
        let defaults = MaxGramTreeConfig::default();
        let min_probability = min_probability.unwrap_or(defaults.min_probability);
        if !(0.0..=1.0).contains(&min_probability) {
            return Err(PyValueError::new_err(format!(
                "min_probability is {min_probability}; give a number from 0 to 1"
            )));
        }
        let options = MaxGramTreeConfig {
            session_tokens: session_tokens.unwrap_or(defaults.session_tokens),
            min_probability,
            ..defaults
        };
        let table = match (table, tokenizer) {
            (None, _) => None,
            (Some(path), Some(tokenizer)) => Some(py.detach(|| table_for(&path, tokenizer))?),
            (Some(path), None) => {
                return Err(PyValueError::new_err(format!(
                    "{}: a table belongs to one tokenizer; give `tokenizer`, a model's folder or id",
                    path.display()
                )));
            }
        };
        let first = MaxGramTree::new(options, table);
        let new = Self::new("max-gram-tree", first.clone());
        Ok(Self {
            own: Mutex::new(Box::new(first.for_another_text())),
            forks: Arc::new(move || first.for_another_text()),
            ..new
        })
    }

    /// Prompt lookup, as a baseline: what followed the last ``max_ngram`` tokens or fewer.
    ///
    /// >>> import cascade_decoding
    /// >>> drafter = cascade_decoding.PromptLookup(max_ngram=2)
    /// >>> drafter.propose([7, 8, 9, 7, 8], depth=1).tokens.tolist()
    /// [9]
    #[staticmethod]
    #[pyo3(signature = (*, max_ngram=3, branches=1))]
    fn prompt_lookup(max_ngram: usize, branches: usize) -> Self {
        let lookup = PromptLookup::new(max_ngram).with_branches(branches);
        Self::new("prompt-lookup", move || lookup.clone())
    }

    /// One for another text that is generated at the same time, with the same settings and table.
    /// Max-Gram trees that keep answers (``session_tokens``) share them and what they learn: what
    /// one has observed, all draft from.
    fn fork(&self) -> Self {
        Self {
            name: self.name,
            factory: Arc::clone(&self.factory),
            forks: Arc::clone(&self.forks),
            own: Mutex::new(self.forks.drafter()),
        }
    }

    /// Sets the encoder's tokens; empty for decoder-only models.
    fn set_source(&self, py: Python<'_>, source: Tokens<'_>) {
        let source = source.as_array().to_vec();
        py.detach(|| self.drafter().set_source(&source));
    }

    /// A continuation of ``context``: at most ``nodes`` nodes, ``depth`` on any path; a chain if
    /// ``nodes`` is not given. Amortized time follows the tokens that are new in the context.
    #[pyo3(signature = (context, depth, nodes=None))]
    fn propose(
        &self,
        py: Python<'_>,
        context: Tokens<'_>,
        depth: usize,
        nodes: Option<usize>,
    ) -> Tree {
        let context = context.as_array().to_vec();
        let nodes = nodes.unwrap_or(depth);
        let proposed = py.detach(|| self.drafter().propose(&context, Budget { depth, nodes }));
        Tree::from(proposed)
    }

    /// Learns that the target said ``emitted`` after ``context``.
    fn observe(&self, py: Python<'_>, context: Tokens<'_>, emitted: Tokens<'_>) {
        let (context, emitted) = (context.as_array().to_vec(), emitted.as_array().to_vec());
        // What another engine has verified: of the target it is not known what it would have said
        // in the place of these tokens, which is what an observation of text alone says, too. But
        // drafters do not learn from that one: it is of steps in which they were not wanted.
        let accepted = emitted.len().saturating_sub(1);
        let draft = TokenTree::chain(emitted.iter().copied().take(accepted));
        let nodes: Vec<_> = (0..accepted).collect();
        let unknown = vec![Observation::UNKNOWN; accepted + 1];
        py.detach(|| {
            self.drafter().observe(&Observation::new(
                &context, &draft, &nodes, &emitted, &unknown,
            ));
        });
    }

    /// Forgets what it has observed.
    fn forget(&self) {
        self.drafter().forget();
    }

    fn __repr__(&self) -> String {
        format!("<{} drafter>", self.name)
    }
}
