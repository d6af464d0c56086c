//! Errors of the library as exceptions.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    cascade_decoding,
    CascadeError,
    PyException,
    "What went wrong, where, and how to mend it: the message of the library."
);

/// The exception for an error: that of a part in Python, if one raised it, as it was raised.
pub(crate) fn raised(error: &(dyn Error + 'static)) -> PyErr {
    let (mut chain, mut next) = (Vec::new(), Some(error));
    while let Some(error) = next {
        chain.push(error);
        next = error.source();
    }
    let of_part = chain.iter().find_map(|error| exception(*error));
    of_part.unwrap_or_else(|| CascadeError::new_err(message(&chain)))
}

/// The exception that an error is or wraps.
fn exception(error: &(dyn Error + 'static)) -> Option<PyErr> {
    let wrapped = match error.downcast_ref::<cascade::core::Error>() {
        Some(cascade::core::Error::Backend(inner)) => inner.downcast_ref::<PyErr>(),
        _ => error.downcast_ref::<PyErr>(),
    };
    Python::attach(|py| wrapped.map(|error| error.clone_ref(py)))
}

/// All messages of a chain; what an outer one already says is not repeated.
fn message(chain: &[&(dyn Error + 'static)]) -> String {
    let mut message = String::new();
    for error in chain {
        let own = error.to_string();
        if message.is_empty() {
            message = own;
        } else if !message.contains(&own) {
            message = format!("{message}: {own}");
        }
    }
    message
}

/// Turns an error of the library into an exception; an argument of `map_err`.
pub(crate) fn to_python(error: impl Error + 'static) -> PyErr {
    raised(&error)
}

/// Where parts whose methods return no errors (drafters, schedules, stop rules) leave the exception
/// that their Python code raised; the generation ends with it after the step.
#[derive(Clone, Default)]
pub struct Fault(Arc<Mutex<Option<PyErr>>>);

impl Fault {
    /// Keeps the first exception, and goes on with `otherwise`.
    pub fn keep<T>(&self, result: PyResult<T>, otherwise: T) -> T {
        match result {
            Ok(value) => value,
            Err(error) => {
                let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                kept.get_or_insert(error);
                otherwise
            }
        }
    }

    /// Raises what was kept.
    pub fn check(&self) -> PyResult<()> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take().map_or(Ok(()), Err)
    }
}
