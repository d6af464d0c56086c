//! Cascades of given parts: models, drafters, schedules and stop rules in Python.

use cascade::{CascadeBuilder, Convention, KMatrix, Lenience};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::drafter::PyDrafter;
use crate::error::{Fault, to_python};
use crate::native::NativeDrafter;
use crate::policy::{PyPart, PySchedule, PyStopRule};
use crate::scorer::PyScorer;

/// A drafter as it is given: itself, or with a stop rule, `(drafter, rule)`.
pub(crate) type GivenDrafter<'py> = Bound<'py, PyAny>;

/// Adds a drafter, whatever it is.
pub(crate) fn add(
    builder: CascadeBuilder,
    given: &GivenDrafter<'_>,
    index: usize,
    fault: &Fault,
) -> PyResult<CascadeBuilder> {
    if let Ok((drafter, rule)) = given.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() {
        let builder = add(builder, &drafter, index, fault)?;
        return Ok(builder.stop_rule(PyStopRule::new(&rule, fault)?));
    }
    let name = name_of(given)?.unwrap_or_else(|| format!("drafter {}", index + 1));
    if let Ok(native) = given.cast::<NativeDrafter>() {
        return Ok(builder.statistical(name, native.get().level()));
    }
    if given.hasattr("score")? {
        return Ok(builder.neural(name, PyScorer::new(given)?));
    }
    if given.hasattr("propose")? {
        return Ok(builder.statistical(name, PyDrafter(PyPart::new(given, fault))));
    }
    Err(PyTypeError::new_err(format!(
        "drafters[{index}] is {}, which has neither `score` (a model) nor `propose` (a drafter)",
        given.get_type().name()?
    )))
}

/// What it is called in reports: its attribute `name`, if it has one.
pub(crate) fn name_of(part: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    match part.getattr_opt("name")? {
        Some(name) => name.extract(),
        None => Ok(None),
    }
}

/// Sets who drafts how much: a K matrix, a schedule in Python, or what pays if there is neither.
pub(crate) fn scheduled(
    builder: CascadeBuilder,
    k: Option<Vec<Vec<usize>>>,
    schedule: Option<&Bound<'_, PyAny>>,
    fault: &Fault,
) -> PyResult<CascadeBuilder> {
    let builder = match k {
        None => builder,
        Some(rows) => builder.k_matrix(KMatrix::new(rows, Convention::Added).map_err(to_python)?),
    };
    Ok(match schedule {
        None => builder,
        Some(schedule) => builder.schedule(PySchedule(PyPart::new(schedule, fault))),
    })
}

/// λ.
pub(crate) fn lenience(value: Option<f64>) -> PyResult<Lenience> {
    match value {
        None => Ok(Lenience::STRICT),
        Some(value) => Lenience::new(value as f32).map_err(to_python),
    }
}
