//! What generations return.

use cascade::{GenerationOutput, LevelId, StepReport, TokenId, TokenLogprobs, Usage};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

use crate::tree::Tree;

/// One answer; see the stubs.
#[pyclass(module = "cascade_decoding", frozen)]
pub struct Output {
    output: GenerationOutput,
    names: Vec<String>,
    logprobs: Vec<TokenLogprobs>,
}

impl Output {
    pub fn new(output: GenerationOutput, names: Vec<String>, logprobs: Vec<TokenLogprobs>) -> Self {
        Self {
            output,
            names,
            logprobs,
        }
    }
}

#[pymethods]
impl Output {
    #[getter]
    fn text(&self) -> Option<&str> {
        self.output.text.as_deref()
    }

    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<TokenId>> {
        PyArray1::from_slice(py, &self.output.tokens)
    }

    #[getter]
    fn proposers(&self) -> Vec<&str> {
        named(&self.names, self.output.proposers.iter())
    }

    #[getter]
    fn finish(&self) -> &'static str {
        self.output.finish.as_str()
    }

    #[getter]
    fn steps(&self) -> Vec<(usize, usize)> {
        let steps = self.output.steps.iter();
        steps.map(|step| (step.drafted, step.accepted)).collect()
    }

    #[getter]
    fn num_spec_steps(&self) -> usize {
        self.output.steps.len()
    }

    #[getter]
    fn num_draft_tokens(&self) -> usize {
        self.output.num_draft_tokens()
    }

    #[getter]
    fn num_accepted_draft_tokens(&self) -> usize {
        self.output.num_accepted_draft_tokens()
    }

    #[getter]
    fn mean_acceptance_length(&self) -> f64 {
        self.output.mean_acceptance_length()
    }

    #[getter]
    fn draft_acceptance_rate(&self) -> f64 {
        self.output.draft_acceptance_rate()
    }

    #[getter]
    fn acceptance_histogram(&self) -> Vec<usize> {
        self.output.acceptance_histogram()
    }

    #[getter]
    fn wall_seconds(&self) -> f64 {
        self.output.wall.as_secs_f64()
    }

    #[getter]
    fn tokens_per_second(&self) -> f64 {
        self.output.tokens_per_second()
    }

    #[getter]
    fn logprobs(&self) -> Vec<(f64, Vec<(TokenId, f64)>)> {
        logprobs(&self.logprobs)
    }

    #[getter]
    fn models<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let models = self.output.models.iter();
        let model = |model: &cascade::ModelUsage| {
            let usage = usage(py, &model.usage)?;
            usage.set_item("name", &model.name)?;
            usage.set_item("role", model.role.as_str())?;
            Ok(usage)
        };
        models.map(model).collect()
    }

    fn __repr__(&self) -> String {
        format!(
            "Output(text={:?}, tokens={}, mean_acceptance_length={:.2}, finish={:?})",
            self.output.text.as_deref().unwrap_or_default(),
            self.output.tokens.len(),
            self.output.mean_acceptance_length(),
            self.output.finish.as_str()
        )
    }
}

/// One step of a stream; see the stubs.
#[pyclass(module = "cascade_decoding", frozen)]
pub struct Step {
    report: StepReport,
    names: Vec<String>,
}

impl Step {
    pub fn new(report: StepReport, names: Vec<String>) -> Self {
        Self { report, names }
    }
}

#[pymethods]
impl Step {
    #[getter]
    fn text(&self) -> String {
        self.report.text()
    }

    #[getter]
    fn pieces(&self) -> Vec<(&str, &str)> {
        let pieces = self.report.text.iter();
        pieces
            .map(|piece| (piece.text.as_str(), self.names[piece.proposer.0].as_str()))
            .collect()
    }

    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<TokenId>> {
        PyArray1::from_slice(py, &self.report.tokens)
    }

    #[getter]
    fn proposers(&self) -> Vec<&str> {
        named(&self.names, self.report.proposers.iter())
    }

    #[getter]
    fn drafted(&self) -> usize {
        self.report.step.drafted
    }

    #[getter]
    fn accepted(&self) -> usize {
        self.report.step.accepted
    }

    #[getter]
    fn draft(&self) -> Tree {
        let mut tree = cascade::TokenTree::new();
        for node in &self.report.draft {
            tree.push(node.token, node.parent);
        }
        Tree::from(&tree)
    }

    #[getter]
    fn draft_proposers(&self) -> Vec<&str> {
        let nodes = self.report.draft.iter();
        named(&self.names, nodes.map(|node| &node.proposer))
    }

    #[getter]
    fn draft_accepted(&self) -> Vec<bool> {
        self.report.draft.iter().map(|node| node.accepted).collect()
    }

    #[getter]
    fn levels<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let levels = self.report.levels.iter().zip(&self.names);
        let level = |(level, name): (&cascade::LevelStep, &String)| {
            let usage = usage(py, &level.usage)?;
            usage.set_item("name", name)?;
            usage.set_item("drafted", level.drafted)?;
            usage.set_item("accepted", level.accepted)?;
            Ok(usage)
        };
        levels.map(level).collect()
    }

    #[getter]
    fn timings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let own = &self.report.timings;
        [
            ("drafting", own.drafting),
            ("forward", own.forward),
            ("verification", own.verification),
            ("emission", own.emission),
        ]
        .map(|(part, time)| (part, time.as_secs_f64()))
        .into_py_dict(py)
    }

    #[getter]
    fn logprobs(&self) -> Vec<(f64, Vec<(TokenId, f64)>)> {
        logprobs(&self.report.logprobs)
    }

    #[getter]
    fn finish(&self) -> Option<&'static str> {
        self.report.finish.as_ref().map(cascade::Finish::as_str)
    }

    fn __repr__(&self) -> String {
        format!(
            "Step(text={:?}, drafted={}, accepted={})",
            self.report.text(),
            self.report.step.drafted,
            self.report.step.accepted
        )
    }
}

/// The names of levels.
fn named<'a>(names: &'a [String], levels: impl Iterator<Item = &'a LevelId>) -> Vec<&'a str> {
    levels.map(|level| names[level.0].as_str()).collect()
}

fn logprobs(own: &[TokenLogprobs]) -> Vec<(f64, Vec<(TokenId, f64)>)> {
    own.iter()
        .map(|own| (own.logprob, own.top.clone()))
        .collect()
}

fn usage<'py>(py: Python<'py>, usage: &Usage) -> PyResult<Bound<'py, PyDict>> {
    let own = PyDict::new(py);
    own.set_item("calls", usage.calls)?;
    own.set_item("rows", usage.rows)?;
    own.set_item("catch_up_rows", usage.catch_up_rows)?;
    own.set_item("prefill_rows", usage.prefill_rows)?;
    own.set_item("seconds", usage.time.as_secs_f64())?;
    Ok(own)
}
