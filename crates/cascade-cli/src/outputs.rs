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

#[cfg(all(test, unix))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    const FOLDER: &str = "CASCADE_TEST_FOLDER";

    /// What the test below interrupts: a command that has begun a file.
    #[test]
    fn writes_until_it_is_interrupted() {
        let Some(folder) = std::env::var_os(FOLDER) else {
            return;
        };
        prepare(folder.as_ref());
        let _file = AtomicFile::create(Path::new(&folder).join("out")).unwrap();
        println!("\nbegun");
        loop {
            std::thread::park();
        }
    }

    #[test]
    fn signals_leave_no_partial_file() {
        for (signal, code) in [("-INT", Some(130)), ("-TERM", None)] {
            let folder = tempfile::tempdir().unwrap();
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["writes_until_it_is_interrupted", "--nocapture"])
                .env(FOLDER, folder.path())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap() == "begun"));
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
            // The thread that waits for SIGTERM may have to begin yet.
            std::thread::sleep(std::time::Duration::from_millis(200));
            let id = child.id().to_string();
            let sent = Command::new("kill").args([signal, &id]).status().unwrap();
            assert!(sent.success());
            assert_eq!(child.wait().unwrap().code(), code, "{signal}");
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{signal}");
        }
    }
}
