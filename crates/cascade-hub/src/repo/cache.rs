//! Where the cache keeps a repository: the layout of Hugging Face's own libraries.
//!
//! ```text
//! models--org--name/blobs/ETAG               content
//! models--org--name/blobs/ETAG.incomplete    content that is not all here yet
//! models--org--name/snapshots/COMMIT/NAME    a link to the content
//! models--org--name/refs/REVISION            a commit
//! models--org--name/.no_exist/COMMIT/NAME    the commit has no such file
//! models--org--name/listings/COMMIT.json     names of its files (ours alone)
//! .locks/models--org--name/ETAG.lock         who may write the content
//! ```
//!
//! Every name in it that a server chose has been checked: ETags by [`Etag`], commits by
//! [`is_commit_name`], files by [`is_plain_name`](crate::name::is_plain_name).

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cascade_core::fs::AtomicFile;

use super::RepoType;
use super::etag::Etag;
use super::failure::Outcome;
use super::partial_download::cannot_write;

/// The folders of one repository.
#[derive(Debug)]
pub(super) struct RepoCache {
    repo: PathBuf,
    locks: PathBuf,
}

impl RepoCache {
    pub(super) fn new(cache: &Path, kind: RepoType, id: &str) -> Self {
        let name = format!("{}--{}", kind.plural(), id.replace('/', "--"));
        Self {
            repo: cache.join(&name),
            locks: cache.join(".locks").join(&name),
        }
    }

    /// Where content is.
    pub(super) fn blob(&self, etag: &Etag) -> PathBuf {
        self.repo.join("blobs").join(etag.to_string())
    }

    /// Where content is that is not all here yet; with a name of this process's own where there are
    /// no locks.
    pub(super) fn part(&self, etag: &Etag, is_locked: bool) -> Outcome<PathBuf> {
        let blobs = self.repo.join("blobs");
        fs::create_dir_all(&blobs).map_err(|error| cannot_write(&blobs, &error))?;
        Ok(blobs.join(if is_locked {
            format!("{etag}.incomplete")
        } else {
            format!("{etag}.{}.incomplete", std::process::id())
        }))
    }

    pub(super) fn lock(&self, etag: &Etag) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.repo.join("snapshots").join(commit)
    }

    /// A file of a commit, if it is there.
    pub(super) fn file(&self, commit: &str, name: &str) -> Option<PathBuf> {
        let path = self.snapshot(commit).join(name);
        path.is_file().then_some(path)
    }

    /// Makes content a file of a commit.
    pub(super) fn link(&self, blob: &Path, commit: &str, name: &str) -> Outcome<PathBuf> {
        let path = self.snapshot(commit).join(name);
        // From the file's folder up to the repository's: snapshots, the commit, folders of the
        // name.
        let up = "../".repeat(2 + name.matches('/').count());
        let target = blob.strip_prefix(&self.repo).unwrap_or(blob);
        let target = Path::new(&up).join(target);
        let made = fs::create_dir_all(cascade_core::fs::parent(&path)).and_then(|()| {
            match link(&target, blob, &path) {
                // One that leads nowhere: its content was deleted.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !path.exists() => {
                    fs::remove_file(&path)?;
                    link(&target, blob, &path)
                }
                linked => linked,
            }
        });
        match made {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.exists() => Ok(path),
            Err(error) => Err(cannot_write(&path, &error)),
            Ok(()) => Ok(path),
        }
    }

    /// Whether the hub has said that a commit has no such file.
    pub(super) fn lacks(&self, commit: &str, name: &str) -> bool {
        self.lacking(commit, name).is_file()
    }

    /// Keeps that a commit has no such file. A cache that cannot be written to stays without.
    pub(super) fn keep_lack(&self, commit: &str, name: &str) {
        let path = self.lacking(commit, name);
        let _ =
            fs::create_dir_all(cascade_core::fs::parent(&path)).and_then(|()| fs::write(&path, ""));
    }

    fn lacking(&self, commit: &str, name: &str) -> PathBuf {
        self.repo.join(".no_exist").join(commit).join(name)
    }

    /// The commit that a revision was when the cache last heard of it.
    pub(super) fn remembered(&self, revision: &str) -> Option<String> {
        let commit = fs::read_to_string(self.reference(revision)).ok()?;
        let commit = commit.trim();
        is_commit_name(commit).then(|| commit.to_owned())
    }

    /// Keeps which commit a revision is. Failing to write is harmless: the files in the cache can
    /// be read all the same.
    pub(super) fn remember(&self, revision: &str, commit: &str) {
        if commit != revision && self.remembered(revision).as_deref() != Some(commit) {
            let _ = self.write(&self.reference(revision), commit.as_bytes());
        }
    }

    fn reference(&self, revision: &str) -> PathBuf {
        self.repo.join("refs").join(revision)
    }

    /// Where the names of a commit's files are kept.
    pub(super) fn listing(&self, commit: &str) -> PathBuf {
        self.repo.join("listings").join(format!("{commit}.json"))
    }

    /// Writes a small file, whole or not at all. Other libraries do not look at what lies directly
    /// in the repository's folder, so that is where it is made.
    pub(super) fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::create_dir_all(cascade_core::fs::parent(path))?;
        let output = AtomicFile::create_in(&self.repo, path)?;
        output.file().write_all(bytes)?;
        output.commit()
    }
}

#[cfg(unix)]
fn link(target: &Path, _: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// Symbolic links need a privilege on Windows.
#[cfg(not(unix))]
fn link(_: &Path, blob: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(blob, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            fs::copy(blob, path).map(|_| ())
        }
        linked => linked,
    }
}

/// Whether a text may be a commit. It becomes the name of a folder.
pub(super) fn is_commit_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_are_relative_and_mended() {
        let folder = tempfile::tempdir().unwrap();
        let cache = RepoCache::new(folder.path(), RepoType::Model, "org/name");
        let etag = Etag::parse("abcdef").unwrap();
        let part = cache.part(&etag, true).unwrap();
        assert!(part.ends_with("models--org--name/blobs/abcdef.incomplete"));
        fs::write(&part, "content").unwrap();
        let blob = cache.blob(&etag);
        let path = cache.link(&blob, "c0ffee", "a/b/file").unwrap();
        assert!(
            cache.file("c0ffee", "a/b/file").is_none(),
            "it leads nowhere"
        );
        fs::rename(&part, &blob).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "content");
        let target = fs::read_link(&path).unwrap();
        assert_eq!(target, Path::new("../../../../blobs/abcdef"));
        // Again, over a good one, over one that leads nowhere.
        cache.link(&blob, "c0ffee", "a/b/file").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        cache.link(&blob, "c0ffee", "a/b/file").unwrap();
        assert_eq!(cache.file("c0ffee", "a/b/file"), Some(path));
    }

    #[test]
    fn commits_of_the_cache_are_checked_too() {
        let folder = tempfile::tempdir().unwrap();
        let cache = RepoCache::new(folder.path(), RepoType::Dataset, "org/name");
        cache.remember("refs/pr/1", "c0ffee");
        assert_eq!(cache.remembered("refs/pr/1").as_deref(), Some("c0ffee"));
        let path = folder.path().join("datasets--org--name/refs/refs/pr/1");
        assert_eq!(fs::read_to_string(&path).unwrap(), "c0ffee");
        fs::write(&path, "../..").unwrap();
        assert_eq!(cache.remembered("refs/pr/1"), None);
    }
}
