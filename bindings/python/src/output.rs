//! What generations return, as dictionaries of which `Output` and `Step` are made in Python.

use cascade::{GenerationOutput, LevelId, StepReport, TokenLogprobs, Usage};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::tree::Tree;
use crate::view::figures;

/// An answer, with log probabilities if they were asked for.
pub(crate) type Answer = (GenerationOutput, Vec<TokenLogprobs>);

/// What an `Output` holds.
pub(crate) fn output<'py>(
    py: Python<'py>,
    (output, logprobs): &Answer,
    names: &[String],
) -> PyResult<Bound<'py, PyDict>> {
    let steps = output.steps.iter();
    let steps: Vec<_> = steps.map(|step| (step.drafted, step.accepted)).collect();
    let models = output.models.iter().map(|model| {
        let own = usage(py, &model.usage)?;
        own.set_item("name", &model.name)?;
        own.set_item("role", model.role.as_str())?;
        Ok(own)
    });
    Ok(figures! {
        py,
        text: output.text.as_deref(),
        tokens: PyArray1::from_slice(py, &output.tokens),
        proposers: named(names, output.proposers.iter()),
        finish: output.finish.as_str(),
        num_spec_steps: steps.len(),
        steps: steps,
        num_draft_tokens: output.num_draft_tokens(),
        num_accepted_draft_tokens: output.num_accepted_draft_tokens(),
        mean_acceptance_length: output.mean_acceptance_length(),
        draft_acceptance_rate: output.draft_acceptance_rate(),
        acceptance_histogram: output.acceptance_histogram(),
        wall_seconds: output.wall.as_secs_f64(),
        tokens_per_second: output.tokens_per_second(),
        logprobs: pairs(logprobs),
        models: models.collect::<PyResult<Vec<_>>>()?,
    })
}

/// What a `Step` holds.
pub(crate) fn step<'py>(
    py: Python<'py>,
    report: &StepReport,
    names: &[String],
) -> PyResult<Bound<'py, PyDict>> {
    let pieces = report.text.iter();
    let pieces: Vec<_> = pieces
        .map(|piece| (&piece.text, &names[piece.proposer.0]))
        .collect();
    let mut draft = cascade::TokenTree::new();
    for node in &report.draft {
        draft.push(node.token, node.parent);
    }
    let kept: Vec<_> = report.draft.iter().map(|node| node.accepted).collect();
    let drafted_by = report.draft.iter().map(|node| &node.proposer);
    let levels = report.levels.iter().zip(names).map(|(level, name)| {
        let own = usage(py, &level.usage)?;
        own.set_item("name", name)?;
        own.set_item("drafted", level.drafted)?;
        own.set_item("accepted", level.accepted)?;
        Ok(own)
    });
    let times = &report.timings;
    let timings = figures! {
        py,
        drafting: times.drafting.as_secs_f64(),
        forward: times.forward.as_secs_f64(),
        verification: times.verification.as_secs_f64(),
        emission: times.emission.as_secs_f64(),
    };
    Ok(figures! {
        py,
        text: report.text(),
        pieces: pieces,
        tokens: PyArray1::from_slice(py, &report.tokens),
        proposers: named(names, report.proposers.iter()),
        drafted: report.step.drafted,
        accepted: report.step.accepted,
        draft: Tree::from(&draft),
        draft_proposers: named(names, drafted_by),
        draft_accepted: kept,
        levels: levels.collect::<PyResult<Vec<_>>>()?,
        timings: timings,
        logprobs: pairs(&report.logprobs),
        finish: report.finish.as_ref().map(cascade::Finish::as_str),
    })
}

/// The names of levels.
fn named<'a>(names: &'a [String], levels: impl Iterator<Item = &'a LevelId>) -> Vec<&'a str> {
    levels.map(|level| names[level.0].as_str()).collect()
}

fn pairs(own: &[TokenLogprobs]) -> Vec<(f64, Vec<(u32, f64)>)> {
    own.iter()
        .map(|own| (own.logprob, own.top.clone()))
        .collect()
}

fn usage<'py>(py: Python<'py>, usage: &Usage) -> PyResult<Bound<'py, PyDict>> {
    Ok(figures! {
        py,
        calls: usage.calls,
        rows: usage.rows,
        catch_up_rows: usage.catch_up_rows,
        prefill_rows: usage.prefill_rows,
        seconds: usage.time.as_secs_f64(),
    })
}
