//! What serializes, as Python's own dictionaries and lists.

use pyo3::prelude::*;
use serde::Serialize;

use crate::error::to_python;

/// A value under the names that the program's JSON has. Numbers that are not finite become `None`.
pub(crate) fn object<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(to_python)?;
    py.import("json")?.call_method1("loads", (text,))
}
