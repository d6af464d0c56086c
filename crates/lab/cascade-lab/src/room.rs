//! The room that a terminal has.

use std::io::stdout;

use terminal_size::{Width, terminal_size_of};

/// Columns that a printed table takes at most: those of the terminal, and 100 elsewhere.
pub(crate) fn columns() -> usize {
    let terminal = terminal_size_of(stdout());
    terminal.map_or(100, |(Width(width), _)| width.into())
}
