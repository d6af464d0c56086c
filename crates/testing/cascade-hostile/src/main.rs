//! Runs every reader over some files, and says of each how it ends: `read-hostile FILE…`.
//!
//! A program of its own, because a reader may abort, and because memory is limited for a process.
//! Files whose names begin with `good` are also read with 200 mutations each, by the reader in
//! whose folder they are. Ends with 1 if a reader panics or names no file, and with 2 if one takes
//! too long.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use cascade_hostile::{READERS, Reader, mutations};

/// The longest that one reader may take with one file, in a debug build on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let alive = watch();
    let files = std::env::args_os().skip(1).map(PathBuf::from);
    let defects: usize = files.map(|file| read_all(&file, &alive)).sum();
    match defects {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Ends the process if nothing is sent for too long. What is sent is what is about to be done.
fn watch() -> Sender<String> {
    let (alive, heard) = channel::<String>();
    std::thread::spawn(move || {
        let mut doing = String::new();
        loop {
            match heard.recv_timeout(PATIENCE) {
                Ok(next) => doing = next,
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    println!("SLOW\t{doing}");
                    std::process::exit(2);
                }
            }
        }
    });
    alive
}

/// Number of defects of all readers with a file.
fn read_all(file: &Path, alive: &Sender<String>) -> usize {
    let own = file.parent().and_then(Path::file_name);
    let good = file
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("good"));
    let mut defects = 0;
    for reader in READERS {
        let what = format!("{}\t{}", reader.name, file.display());
        defects += usize::from(!passes(&what, alive, reader, |path| link(file, path)));
        if good && own.is_some_and(|own| own == reader.name) {
            let bytes = fs::read(file).unwrap_or_default();
            for (number, mutant) in mutations(&bytes).into_iter().enumerate() {
                let what = format!("{what} mutation {number}");
                let write = |path: &Path| fs::write(path, &mutant);
                defects += usize::from(!passes(&what, alive, reader, write));
            }
        }
    }
    defects
}

/// Larger files are not copied.
const COPIED: u64 = 64 << 20;

/// The file where the reader looks for it. Named pipes and devices stay what they are. Readers that
/// mend what an interrupted run left write to their files, so it is a copy.
fn link(file: &Path, path: &Path) -> std::io::Result<()> {
    let file = fs::canonicalize(file)?;
    let _ = fs::remove_file(path);
    let metadata = fs::metadata(&file)?;
    match metadata.is_file() {
        true if metadata.len() <= COPIED => fs::copy(&file, path).map(|_| ()),
        true => fs::hard_link(&file, path),
        false => point(&file, path),
    }
}

#[cfg(unix)]
fn point(file: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(file, path)
}

/// Only Unix has files that are none.
#[cfg(not(unix))]
fn point(file: &Path, path: &Path) -> std::io::Result<()> {
    fs::copy(file, path).map(|_| ())
}

/// Whether a reader ends as it must.
fn passes(
    what: &str,
    alive: &Sender<String>,
    reader: &Reader,
    put: impl FnOnce(&Path) -> std::io::Result<()>,
) -> bool {
    let _ = alive.send(what.to_owned());
    let Ok(folder) = tempfile::tempdir() else {
        println!("NO FOLDER\t{what}");
        return false;
    };
    let path = reader.place(folder.path());
    let _ = fs::remove_file(&path);
    if let Err(error) = put(&path) {
        println!("NO FILE\t{what}\t{error}");
        return false;
    }
    match catch_unwind(AssertUnwindSafe(|| reader.read_placed(&path))) {
        Err(_) => println!("PANIC\t{what}"),
        Ok(Err(message)) if !message.contains(&*folder.path().to_string_lossy()) => {
            println!("NO NAME\t{what}\t{message}")
        }
        Ok(Err(message)) => {
            println!("error\t{what}\t{message}");
            return true;
        }
        Ok(Ok(())) => {
            println!("read\t{what}");
            return true;
        }
    }
    false
}
