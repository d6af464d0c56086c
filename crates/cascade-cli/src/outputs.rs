//! Files that a command writes where the user says.

use std::path::{Path, PathBuf};

use cascade_fs::{Existing, Output, OutputError};

use crate::{interrupt, terminal};

/// As [`Output::check`], before the work for the output begins; what a killed command has left in
/// its folder is removed, and a signal that ends this one leaves nothing.
///
/// # Errors
/// As [`Output::check`].
pub(crate) fn check<P: AsRef<Path>>(
    path: impl Into<PathBuf>,
    existing: Existing,
    inputs: impl IntoIterator<Item = P>,
) -> Result<Output, OutputError> {
    let output = Output::check(path, existing, inputs)?;
    prepare(cascade_fs::parent(output.path()));
    Ok(output)
}

/// Prepares a folder for files that are written into it.
pub(crate) fn prepare(folder: &Path) {
    interrupt::remove_temporaries_on_termination();
    for left in cascade_fs::remove_leftovers(folder) {
        terminal::note(format_args!(
            "removed {}, which a command that was killed has left",
            left.display()
        ));
    }
}
