//! What Python sees of the engine: figures by name, of which `cascade_decoding._views` makes
//! objects.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

/// A dictionary of figures, `name: value` for each; in a function that returns a `PyResult`.
macro_rules! figures {
    ($py:expr, $($name:ident: $value:expr),+ $(,)?) => {{
        let own = pyo3::types::PyDict::new($py);
        $(own.set_item(stringify!($name), $value)?;)+
        own
    }};
}
pub(crate) use figures;

/// An object of a class of `cascade_decoding._views`.
pub(crate) fn view<'py>(
    py: Python<'py>,
    class: &str,
    figures: Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    static VIEWS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let import = || py.import("cascade_decoding._views").map(Bound::unbind);
    let views = VIEWS.get_or_try_init(py, import)?.bind(py);
    views.getattr(class)?.call1((figures,))
}
