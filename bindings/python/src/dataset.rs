//! Samples of datasets, with the prompts that a configuration makes of them.

use cascade::config::AssembleOptions;
use cascade_eval::{DataSource, Dataset, RandomSample, Sample, Selection};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::to_python;

/// Samples of a dataset; `cascade_decoding.dataset` in Python.
#[pyfunction]
#[pyo3(signature = (name, config, *, data=None, limit=None, offset=0, sample=None, seed=0))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn dataset<'py>(
    py: Python<'py>,
    name: &str,
    config: &Config,
    data: Option<&str>,
    limit: Option<usize>,
    offset: usize,
    sample: Option<usize>,
    seed: u64,
) -> PyResult<Bound<'py, PyAny>> {
    let known = Dataset::from_name(name).ok_or_else(|| unknown(name))?;
    let selection = Selection {
        offset,
        limit,
        random: sample.map(|size| RandomSample { size, seed }),
    };
    let template = match &known {
        Dataset::Problems(set) => set.template(config.0.prompt()),
        _ => config.0.prompt(),
    };
    let read = || match (data, known.made(selection)) {
        (Some(data), _) => {
            let source: DataSource = data.parse().unwrap_or_else(|never| match never {});
            let AssembleOptions { hub, .. } = AssembleOptions::default();
            source
                .read(&known, selection, &hub, false)
                .map_err(to_python)
        }
        (None, Some(made)) => made.map_err(to_python),
        (None, None) => Err(PyValueError::new_err(format!(
            "the dataset {known} is not part of the package; give data=\"hub\" or data=FILE"
        ))),
    };
    let samples = py.detach(read)?;
    let row = |sample: &Sample| -> cascade_eval::Result<Value> {
        Ok(json!({
            "id": sample.id,
            "category": sample.category,
            "prompt": sample.prompt(template)?,
            "solution": sample.solution().map(|known| known.to_string()),
            "references": sample.references,
        }))
    };
    let rows = samples
        .iter()
        .map(row)
        .collect::<cascade_eval::Result<Vec<_>>>();
    let rows = Value::from(rows.map_err(to_python)?).to_string();
    py.import("json")?.call_method1("loads", (rows,))
}

fn unknown(name: &str) -> PyErr {
    let known: Vec<_> = Dataset::ALL.iter().map(Dataset::name).collect();
    PyValueError::new_err(format!(
        "there is no dataset {name:?}; known: {}",
        known.join(", ")
    ))
}
