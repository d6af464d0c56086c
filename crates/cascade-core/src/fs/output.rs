//! Files that a user has named to be written.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use same_file::Handle;

use super::{AtomicFile, parent};

/// What happens to a file that stands where an output is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// A file at the path is kept, and the output is refused.
    Keep,
    /// A file at the path is replaced, in one step, when the output is complete.
    Replace,
    /// A file at the path is an unfinished output, and the caller continues it.
    Continue,
}

impl Existing {
    /// [`Replace`](Self::Replace) if the user says so, and else [`Keep`](Self::Keep).
    pub const fn replaced_if(force: bool) -> Self {
        if force { Self::Replace } else { Self::Keep }
    }
}

/// Why an output is refused.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The output would take the place of an input.
    #[error(
        "{}: cannot be written, because it is read: it is the input {}; give the output another name",
        output.display(),
        input.display()
    )]
    IsInput {
        /// The output.
        output: PathBuf,
        /// The input that is the same file, by path, symbolic link or hard link, or the folder that
        /// the output is in.
        input: PathBuf,
    },

    /// A file stands there.
    #[error("{}: the file exists already; give another name, or --force to replace it", output.display())]
    Exists {
        /// The output.
        output: PathBuf,
    },

    /// No file can be written there.
    #[error("cannot write {}: {reason}", output.display())]
    Unusable {
        /// The output.
        output: PathBuf,
        /// Why, and what to do.
        reason: &'static str,
    },
}

/// The name of a file to be written, checked: it is no input, and does not exist, unless the user
/// has said what happens to it.
#[derive(Clone, Debug)]
pub struct Output {
    path: PathBuf,
    existing: Existing,
}

impl Output {
    /// Checks an output before the work for it begins. An input may be a file, a folder, which
    /// stands for all files in it, or `-` for standard input; inputs that do not exist are passed
    /// over.
    ///
    /// # Errors
    /// [`OutputError::IsInput`], whatever `existing` says; [`OutputError::Exists`];
    /// [`OutputError::Unusable`] for a folder, a device, or a file in a folder that does not exist.
    pub fn check<P: AsRef<Path>>(
        path: impl Into<PathBuf>,
        existing: Existing,
        inputs: impl IntoIterator<Item = P>,
    ) -> Result<Self, OutputError> {
        let output = Self {
            path: path.into(),
            existing,
        };
        output.refuse_unusable()?;
        if output.exists() {
            inputs
                .into_iter()
                .try_for_each(|input| output.refuse_input(input.as_ref()))?;
            if existing == Existing::Keep {
                let output = output.path;
                return Err(OutputError::Exists { output });
            }
        }
        Ok(output)
    }

    /// An output that replaces what stands at the path, whatever it is. For files of the program
    /// itself.
    pub fn replacing(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            existing: Existing::Replace,
        }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What happens to a file at the path.
    pub fn existing(&self) -> Existing {
        self.existing
    }

    /// Begins the file, beside its path.
    ///
    /// # Errors
    /// As [`AtomicFile::create`]; and [`AtomicFile::commit`] fails if a file has appeared that is
    /// to be kept.
    pub fn begin(&self) -> io::Result<AtomicFile> {
        self.begin_in(parent(&self.path))
    }

    /// As [`begin`](Self::begin), with the temporary file in `folder`, which must be on the same
    /// file system.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub fn begin_in(&self, folder: impl AsRef<Path>) -> io::Result<AtomicFile> {
        let file = AtomicFile::create_in(folder, &self.path)?;
        Ok(match self.existing {
            Existing::Keep => file.replacing_nothing(),
            Existing::Replace | Existing::Continue => file,
        })
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// As [`begin`](Self::begin) and [`AtomicFile::commit`].
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let file = self.begin()?;
        file.file().write_all(bytes)?;
        file.commit()
    }

    /// Whether something has the name; a symbolic link that leads nowhere does.
    fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    fn refuse_unusable(&self) -> Result<(), OutputError> {
        let refuse = |reason| {
            Err(OutputError::Unusable {
                output: self.path.clone(),
                reason,
            })
        };
        if self.path.file_name().is_none() || self.path.is_dir() {
            return refuse("it is a folder; give the name of a file");
        }
        if !parent(&self.path).is_dir() {
            return refuse("its folder does not exist; make it first");
        }
        if self.path.exists() && !self.path.is_file() {
            return refuse("it is not an ordinary file; give the name of one");
        }
        Ok(())
    }

    fn refuse_input(&self, input: &Path) -> Result<(), OutputError> {
        let is_input = match input {
            stdin if stdin == Path::new("-") => self.is_standard_input(),
            folder if folder.is_dir() => self.is_in(folder),
            file => same_file::is_same_file(file, &self.path).unwrap_or(false),
        };
        if is_input {
            Err(OutputError::IsInput {
                output: self.path.clone(),
                input: input.to_owned(),
            })
        } else {
            Ok(())
        }
    }

    fn is_standard_input(&self) -> bool {
        let handles = (Handle::stdin(), Handle::from_path(&self.path));
        matches!(handles, (Ok(stdin), Ok(output)) if stdin == output)
    }

    fn is_in(&self, folder: &Path) -> bool {
        let paths = (self.path.canonicalize(), folder.canonicalize());
        matches!(paths, (Ok(path), Ok(folder)) if path.starts_with(&folder))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A temporary folder with one file, `in`.
    struct TestFolder(tempfile::TempDir);

    impl TestFolder {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            fs::write(place.at("in"), "text").unwrap();
            place
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn check(&self, output: &str, existing: Existing) -> Result<Output, OutputError> {
            let inputs = [self.at("none"), self.at("in")];
            Output::check(self.at(output), existing, inputs)
        }
    }

    const ALL: [Existing; 3] = [Existing::Keep, Existing::Replace, Existing::Continue];

    #[test]
    fn an_input_is_refused_under_every_name() {
        let place = TestFolder::new();
        fs::create_dir(place.at("folder")).unwrap();
        fs::hard_link(place.at("in"), place.at("hard")).unwrap();
        let mut names = vec!["in", "./in", "folder/../in", "hard"];
        if cfg!(unix) {
            #[cfg(unix)]
            std::os::unix::fs::symlink(place.at("in"), place.at("soft")).unwrap();
            names.push("soft");
        }
        for (name, existing) in names.iter().flat_map(|n| ALL.map(|e| (n, e))) {
            let error = place.check(name, existing).unwrap_err();
            let is_input =
                matches!(&error, OutputError::IsInput { input, .. } if *input == place.at("in"));
            assert!(is_input, "{name}: {error}");
        }
        assert_eq!(fs::read(place.at("in")).unwrap(), b"text");
    }

    #[test]
    fn files_in_an_input_folder_are_inputs() {
        let place = TestFolder::new();
        let check = |name| Output::check(place.at(name), Existing::Replace, [place.0.path()]);
        let error = check("in").unwrap_err();
        assert!(matches!(error, OutputError::IsInput { .. }), "{error}");
        check("new").unwrap();
    }

    #[test]
    fn what_exists_is_kept_unless_the_user_says_so() {
        let place = TestFolder::new();
        fs::write(place.at("old"), "old").unwrap();
        let error = place.check("old", Existing::Keep).unwrap_err().to_string();
        assert!(error.contains("old: the file exists already"), "{error}");
        assert!(error.contains("--force"), "{error}");
        let output = place.check("old", Existing::replaced_if(true)).unwrap();
        output.write(b"new").unwrap();
        assert_eq!(fs::read(place.at("old")).unwrap(), b"new");
        place.check("new", Existing::replaced_if(false)).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_kept_too() {
        let place = TestFolder::new();
        std::os::unix::fs::symlink(place.at("nowhere"), place.at("link")).unwrap();
        let error = place.check("link", Existing::Keep).unwrap_err();
        assert!(matches!(error, OutputError::Exists { .. }), "{error}");
    }

    #[test]
    fn what_appears_during_the_work_is_kept() {
        let place = TestFolder::new();
        let output = place.check("new", Existing::Keep).unwrap();
        fs::write(place.at("new"), "another's").unwrap();
        let error = output.write(b"ours").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(place.at("new")).unwrap(), b"another's");
    }

    #[test]
    fn no_file_can_be_written_at_these() {
        let place = TestFolder::new();
        fs::create_dir(place.at("folder")).unwrap();
        for (name, reason) in [
            ("folder", "it is a folder"),
            ("..", "it is a folder"),
            ("no/where", "make it first"),
        ] {
            let error = place.check(name, Existing::Replace).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        #[cfg(unix)]
        {
            let none: [&Path; 0] = [];
            let error = Output::check("/dev/null", Existing::Replace, none).unwrap_err();
            assert!(error.to_string().contains("ordinary"), "{error}");
        }
    }
}
