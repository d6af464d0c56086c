//! `cascade_decoding._lib`: the engine, its models and its drafters for Python.
//!
//! One file for each concept; what a user sees is documented in the stubs (`_lib.pyi`) and in
//! `python/cascade_decoding`. Rust never holds the interpreter's lock while models compute: a
//! generation is stepped with the lock released, and parts written in Python take it when they are
//! called.

mod cascade;
mod command;
mod config;
mod dataset;
mod drafter;
mod error;
mod native;
mod options;
mod output;
mod parts;
mod policy;
mod scorer;
mod stream;
mod tree;

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
    module.add_class::<cascade::Cascade>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<output::Output>()?;
    module.add_class::<output::Step>()?;
    module.add_class::<tree::Tree>()?;
    module.add_class::<scorer::Want>()?;
    module.add_class::<policy::Drafted>()?;
    module.add_class::<policy::DraftState>()?;
    module.add_class::<policy::Review>()?;
    module.add_class::<drafter::Observed>()?;
    module.add_class::<native::NativeDrafter>()?;
    module.add_function(wrap_pyfunction!(dataset::dataset, module)?)?;
    module.add_function(wrap_pyfunction!(command::lab_main, module)?)?;
    module.add_function(wrap_pyfunction!(command::command_main, module)?)
}
