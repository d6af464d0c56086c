//! Errors of the library as exceptions.

use std::error::Error;
use std::process;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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

/// What the library calls by the names of its builder or of the command line, and Python otherwise.
const WORDS: [(&str, &str); 6] = [
    (
        "; call `codec` on the builder",
        ", and this cascade has none: give tokens, and no `stop`",
    ),
    (
        "`tree.max_nodes` (`max_nodes` of the builder)",
        "`max_nodes`",
    ),
    (": -k: ", ": draft_tokens: "),
    ("as in -k 5,10", "as in draft_tokens=[5, 10]"),
    ("--ngram", "table"),
    ("--device", "device"),
];

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
    let words = WORDS.iter();
    words.fold(message, |message, (own, python)| {
        message.replace(own, python)
    })
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

/// Checks that this is the process in which models were first used. The threads that compute are
/// not in one that was forked from it, where a forward would wait for them without end.
pub(crate) fn not_forked() -> PyResult<()> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    let first = *FIRST.get_or_init(process::id);
    if first == process::id() {
        return Ok(());
    }
    Err(CascadeError::new_err(format!(
        "this process was forked from process {first}, which has used models, and the threads that compute stayed \
         there; load models in the children alone, or start them by `multiprocessing.get_context(\"spawn\")`"
    )))
}
