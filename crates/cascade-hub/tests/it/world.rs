//! A cache in a folder with something beside it that must stay as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cascade_hub::{HubDataset, HubLimits, HubOptions};
use tempfile::TempDir;

use crate::good_hub::Hub;
use crate::test_server::Server;

/// More than any attempt may take. It only shows that nothing hangs.
const MOST: Duration = Duration::from_secs(60);

pub(crate) struct World {
    folder: TempDir,
}

/// Limits for servers that answer at once: failures are not waited for.
pub(crate) fn limits() -> HubLimits {
    let mut limits = HubLimits::default();
    limits.backoff = Duration::from_millis(1);
    limits.retries = 2;
    limits.unannounced = 1 << 20;
    limits
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("cache")).unwrap();
        fs::write(folder.path().join("beside"), "untouched").unwrap();
        Self { folder }
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.cache().join("datasets--org--name/blobs")
    }

    pub(crate) fn options(&self, server: &Server) -> HubOptions {
        HubOptions::new(server.url(), self.cache()).with_limits(limits())
    }

    /// The content of a file of the dataset, or the message of the error.
    pub(crate) fn fetch(&self, options: &HubOptions, file: &str) -> Result<Vec<u8>, String> {
        self.fetch_of(None, options, file)
    }

    pub(crate) fn fetch_of(
        &self,
        revision: Option<&str>,
        options: &HubOptions,
        file: &str,
    ) -> Result<Vec<u8>, String> {
        let start = Instant::now();
        let mut dataset = HubDataset::new("org/name", revision, options, false).unwrap();
        let fetched = dataset.fetch(file).map_err(|error| error.to_string());
        assert!(start.elapsed() < MOST, "{file} took {:?}", start.elapsed());
        self.assert_tidy();
        fetched.map(|path| {
            let snapshots = self.cache().join("datasets--org--name/snapshots");
            assert!(path.starts_with(snapshots), "{}", path.display());
            fs::read(path).unwrap()
        })
    }

    /// A server that does everything right gives the file, whatever happened before.
    pub(crate) fn assert_recovers(&self, hub: &Hub, file: &str) {
        let hub_files = hub.clone();
        let server = Server::start(move |request, stream| hub_files.answer(request, stream));
        let found = self.fetch(&self.options(&server), file).unwrap();
        assert!(found == hub.files[file], "{file} is wrong in the cache");
    }

    /// Nothing is outside the cache, and nothing in it leads out of it.
    fn assert_tidy(&self) {
        let mut names: Vec<_> = entries(self.folder.path());
        names.sort();
        assert_eq!(names, [self.folder.path().join("beside"), self.cache()]);
        let beside = fs::read_to_string(self.folder.path().join("beside")).unwrap();
        assert_eq!(beside, "untouched");
        let cache = self.cache().canonicalize().unwrap();
        assert_inside(&self.cache(), &cache);
        for entry in entries(&self.cache()) {
            let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
            let known = [".locks", "datasets--org--name", "models--org--name"];
            assert!(known.contains(&name.as_str()), "{name}");
        }
    }
}

fn assert_inside(folder: &Path, cache: &Path) {
    for path in entries(folder) {
        if path.is_symlink() {
            let target = path.canonicalize().unwrap();
            assert!(target.starts_with(cache), "{} leads out", path.display());
        } else if path.is_dir() {
            assert_inside(&path, cache);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[track_caller]
pub(crate) fn assert_parts(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
    }
}
