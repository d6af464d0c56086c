//! Which files a repository has.
//!
//! The hub's answer for a commit is true for good, so it is kept beside the files, as
//! `listings/<commit>.json` in the repository's folder of the cache. Other libraries do not look
//! there, and do not write it either.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CacheOnly, Failure, HubRepo};
use crate::name::is_plain_name;
use crate::{Error, Result};

/// What the list is called where messages name a file.
const LISTING: &str = "the list of files";

impl HubRepo<'_> {
    /// Names of all files of the repository, in their order. From then on, files are taken from the
    /// commit that they were listed of.
    ///
    /// If only the cache may be used and another library filled it, the names of the files in it,
    /// which may not be all.
    pub(crate) fn listing(&mut self) -> Result<Vec<String>> {
        if let Some(names) = self.commit.as_ref().and_then(|commit| self.kept(commit)) {
            return Ok(names);
        }
        if self.cache_only.is_none() {
            match self.ask_for_listing() {
                Ok(names) => return Ok(names),
                Err(Failure::Unreachable(reason)) => {
                    self.cache_only = Some(CacheOnly::Unreachable(reason));
                }
                Err(Failure::Other(error)) => return Err(*error),
            }
        }
        let commit = self.commit.clone().or_else(|| self.remembered());
        let names = commit.and_then(|commit| {
            let kept = self.kept(&commit);
            kept.or_else(|| self.in_snapshot(&commit))
        });
        names.ok_or_else(|| self.not_here(LISTING))
    }

    /// The error for a file that was not found, whoever said so.
    pub(crate) fn not_here(&self, file: &str) -> Error {
        self.missing(file).unwrap_or_else(|| self.not_found(file))
    }

    fn ask_for_listing(&mut self) -> std::result::Result<Vec<String>, Failure> {
        let info = match self.api.repo(self.repo(&self.revision)).info() {
            Ok(info) => info,
            Err(error) => {
                self.explain(LISTING, error)?;
                return Err(Failure::other(self.not_found(LISTING)));
            }
        };
        let commit = self.checked_commit(LISTING, &info.sha)?;
        let names = info.siblings.into_iter().map(|file| file.rfilename);
        // Names become paths in the cache.
        let mut names: Vec<String> = names.filter(|name| is_plain_name(name)).collect();
        names.sort();
        self.keep(&commit, &names);
        self.remember(&commit);
        self.commit = Some(commit);
        Ok(names)
    }

    /// A cache that cannot be written to stays without the list.
    fn keep(&self, commit: &str, names: &[String]) {
        let file = self.kept_file(commit);
        let part = file.with_extension(format!("{}.part", std::process::id()));
        let write = || {
            fs::create_dir_all(file.parent()?).ok()?;
            fs::write(&part, serde_json::to_vec(names).ok()?).ok()?;
            fs::rename(&part, &file).ok()
        };
        let _: Option<()> = write();
    }

    fn kept(&self, commit: &str) -> Option<Vec<String>> {
        let bytes = fs::read(self.kept_file(commit)).ok()?;
        let names: Vec<String> = serde_json::from_slice(&bytes).ok()?;
        names
            .iter()
            .all(|name| is_plain_name(name))
            .then_some(names)
    }

    fn kept_file(&self, commit: &str) -> PathBuf {
        let file = format!("{commit}.json");
        self.cached_repo_folder().join("listings").join(file)
    }

    fn in_snapshot(&self, commit: &str) -> Option<Vec<String>> {
        let mut names = Vec::new();
        walk(&self.cache_repo().pointer_path(commit), "", &mut names)?;
        names.sort();
        Some(names)
    }
}

/// Adds the files below a folder, with `/` between the parts of their names.
fn walk(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Option<()> {
    for entry in fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        let name = format!("{prefix}{}", path.file_name()?.to_str()?);
        match path.is_dir() {
            true => walk(&path, &format!("{name}/"), names)?,
            false => names.push(name),
        }
    }
    Some(())
}
