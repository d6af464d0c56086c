//! What one rendering may use: work and memory that instructions do not tell.
//!
//! An instruction of a template can be a comparison of lists that share their items sixty times
//! over, or the doubling of a text. Whatever costs more than a few steps is therefore charged here
//! before it is done, by the size of what it works on. A rendering has a thread of its own, and its
//! account is that thread's.

use std::cell::Cell;

use minijinja::{Error, ErrorKind};

/// Bytes of the longest text that a template may make: far more than any model reads.
pub(crate) const LONGEST: usize = crate::MAX_OUTPUT;

/// Steps that a rendering may take, besides those for its messages: less than a second.
const STEPS: usize = 10_000_000;

/// Bytes of values that a rendering may make, used or not, besides those for its messages.
const BYTES: usize = 256 << 20;

/// How often a template may go over the text of its messages, and how often it may copy it.
const TIMES: usize = 64;

/// Bytes that are copied or compared in one step.
const STRIDE: usize = 64;

/// What an item of a list or a mapping takes, in bytes, while it is built.
pub(crate) const ITEM: usize = 64;

thread_local! {
    static STEPS_LEFT: Cell<usize> = const { Cell::new(0) };
    static BYTES_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Opens the account of this thread, for messages of `messages` bytes.
pub(crate) fn open(messages: usize) {
    let more = messages.saturating_mul(TIMES);
    STEPS_LEFT.set(STEPS.saturating_add(more));
    BYTES_LEFT.set(BYTES.saturating_add(more));
}

/// Charges steps.
pub(crate) fn work(steps: usize) -> Result<(), Error> {
    match STEPS_LEFT.get().checked_sub(steps) {
        Some(left) => STEPS_LEFT.set(left),
        None => return Err(Error::from(ErrorKind::OutOfFuel)),
    }
    Ok(())
}

/// Charges the reading of a number of bytes.
pub(crate) fn read(bytes: usize) -> Result<(), Error> {
    work(1 + bytes / STRIDE)
}

/// Charges the making of a number of bytes.
pub(crate) fn make(bytes: usize) -> Result<(), Error> {
    read(bytes)?;
    match BYTES_LEFT.get().checked_sub(bytes) {
        Some(left) => BYTES_LEFT.set(left),
        None => {
            let mib = BYTES >> 20;
            return Err(refused(format!("it builds more than {mib} MiB of values")));
        }
    }
    Ok(())
}

/// Charges the making of a text of a number of bytes.
pub(crate) fn make_text(bytes: usize) -> Result<(), Error> {
    if bytes > LONGEST {
        let mib = LONGEST >> 20;
        return Err(refused(format!(
            "it makes a text of {bytes} bytes, which is too large: more than {mib} MiB"
        )));
    }
    make(bytes)
}

/// Charges the making of a list or a mapping of a number of items.
pub(crate) fn make_items(items: usize) -> Result<(), Error> {
    work(items)?;
    make(items.saturating_mul(ITEM))
}

/// An error of an operation that is not done.
pub(crate) fn refused(problem: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, problem.into())
}
