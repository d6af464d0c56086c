//! Files that a command writes where the user says.

use std::path::{Path, PathBuf};

use cascade_core::fs::{AtomicFile, Existing, Output, OutputError};

use crate::terminal::Out;
use crate::{interrupt, terminal};

/// As [`Output::check`], before the work for the output begins; what a killed command has left in
/// its folder is removed, and a signal that ends this one leaves nothing.
///
/// # Errors
/// As [`Output::check`].
pub fn check<P: AsRef<Path>>(
    path: impl Into<PathBuf>,
    existing: Existing,
    inputs: impl IntoIterator<Item = P>,
) -> Result<Output, OutputError> {
    let output = Output::check(path, existing, inputs)?;
    prepare(cascade_core::fs::parent(output.path()));
    Ok(output)
}

/// Refuses an input that lies in a folder of results under a name that is written there.
///
/// # Errors
/// As [`Output::check`].
pub fn check_folder(
    folder: &Path,
    inputs: impl IntoIterator<Item = PathBuf>,
    is_written: impl Fn(&str) -> bool,
) -> Result<(), OutputError> {
    for input in inputs {
        let real = input.canonicalize().unwrap_or_else(|_| input.clone());
        for name in [&input, &real]
            .into_iter()
            .filter_map(|path| path.file_name())
        {
            let written = name.to_str().is_some_and(&is_written);
            if written && folder.join(name).exists() {
                Output::check(folder.join(name), Existing::Continue, [&input])?;
            }
        }
    }
    Ok(())
}

/// What is printed, on its way to a file that is whole or not there; to standard output if there is
/// none.
pub struct Printed {
    file: Option<AtomicFile>,
}

impl Printed {
    /// Begins the file.
    pub fn begin(output: Option<&Output>) -> std::io::Result<Self> {
        let file = output.map(Output::begin).transpose()?;
        Ok(Self { file })
    }

    /// Where to print.
    pub fn out(&self) -> std::io::Result<Out> {
        Ok(match &self.file {
            None => terminal::stdout(),
            Some(file) => terminal::file(file.file().try_clone()?),
        })
    }

    /// Puts the file into its place, after everything was printed.
    pub fn commit(self) -> std::io::Result<()> {
        self.file.map_or(Ok(()), AtomicFile::commit)
    }
}

/// Prepares a folder for files that are written into it.
pub fn prepare(folder: &Path) {
    interrupt::remove_temporaries_on_termination();
    for left in cascade_core::fs::remove_leftovers(folder) {
        terminal::note(format_args!(
            "removed {}, which a command that was killed has left",
            left.display()
        ));
    }
}
