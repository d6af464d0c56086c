//! Panics: what they say, and those that are no defects.

use std::any::Any;

use crate::terminal;

/// How panics begin where the system has no more threads: of the standard library, of tokio and of
/// rayon.
const NO_THREADS: [&str; 3] = [
    "failed to spawn thread",
    "OS can't spawn worker thread",
    "The global thread pool has not been initialized",
];

/// What a panic says.
pub(crate) fn message(payload: &dyn Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or_default()
}

/// Ends this process with a sentence where the system has no more threads, as out of memory.
pub(crate) fn expect_missing_threads() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let message = message(panic.payload());
        if !NO_THREADS.iter().any(|begin| message.starts_with(begin)) {
            return others(panic);
        }
        terminal::error(format_args!(
            "error: no more threads can be had; take fewer (`--threads 1`), end other programs, or raise the limit \
             (`ulimit -u`, that of the container)"
        ));
        cascade_core::fs::remove_temporaries();
        std::process::exit(2);
    }));
}
