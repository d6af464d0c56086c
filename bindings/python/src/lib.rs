//! `cascade_decoding._lib`: the engine, its models and its drafters for Python.
//!
//! One file for each concept. `python/cascade_decoding` has what can be Python; of the classes that
//! users see here, the comments are their documentation in Python, from which
//! `scripts/python-stubs.py` copies that of `_lib.pyi`. Rust never holds the interpreter's lock
//! while models compute: a generation is stepped with the lock released, and parts written in
//! Python take it when they are called.

mod batch;
mod command;
mod config;
mod dataset;
mod drafter;
mod engine;
mod error;
mod native;
mod options;
mod output;
mod parts;
mod policy;
mod scorer;
mod stream;
mod tree;
mod view;

use pyo3::prelude::*;

#[pymodule]
fn _lib(module: &Bound<'_, PyModule>) -> PyResult<()> {
    ::cascade::demo::register();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add(
        "CascadeError",
        module.py().get_type::<error::CascadeError>(),
    )?;
    module.add_class::<config::Config>()?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<stream::Steps>()?;
    module.add_class::<tree::Tree>()?;
    module.add_class::<native::NativeDrafter>()?;
    module.add_function(wrap_pyfunction!(dataset::dataset, module)?)?;
    module.add_function(wrap_pyfunction!(command::lab_main, module)?)?;
    module.add_function(wrap_pyfunction!(command::command_main, module)?)
}
