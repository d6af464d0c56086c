//! Which files a repository has.
//!
//! The hub's answer for a commit is true for good, so it is kept beside the files, as
//! `listings/<commit>.json` in the repository's folder of the cache. Other libraries do not look
//! there, and do not write it either.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::body::Incoming;
use super::cache::is_commit_name;
use super::failure::{Failure, Outcome, shown};
use super::redirect::Trail;
use super::{CacheOnly, HubRepo};
use crate::name::is_plain_name;
use crate::{Error, Result};

/// What the list is called where messages name a file.
const LISTING: &str = "the list of files";

/// What the hub says of a revision.
pub(super) struct Info {
    pub(super) commit: String,
    /// Names of the files, in their order.
    pub(super) names: Vec<String>,
}

/// How the hub says it.
#[derive(Deserialize)]
struct Answered {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

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
                Err(Failure::Unreachable { reason, .. }) => {
                    self.cache_only = Some(CacheOnly::Unreachable(reason));
                }
                Err(failure) => return Err(self.error(LISTING, failure)),
            }
        }
        let names = self.known_commit().and_then(|commit| {
            let kept = self.kept(&commit);
            kept.or_else(|| self.in_snapshot(&commit))
        });
        names.ok_or_else(|| self.not_here(LISTING))
    }

    /// The error for a file that was not found, whoever said so.
    pub(crate) fn not_here(&self, file: &str) -> Error {
        self.missing(file).unwrap_or_else(|| self.not_found(file))
    }

    fn ask_for_listing(&mut self) -> Outcome<Vec<String>> {
        let cached = self.cache.remembered(&self.revision).is_some();
        let info = self.patiently(cached, || self.info())?;
        let commit = self.settle(Some(info.commit))?;
        // A cache that cannot be written to stays without the list.
        if let Ok(json) = serde_json::to_vec(&info.names) {
            let _ = self.cache.write(&self.cache.listing(&commit), &json);
        }
        self.cache.remember(&self.revision, &commit);
        Ok(info.names)
    }

    /// Asks the hub what the revision is.
    pub(super) fn info(&self) -> Outcome<Info> {
        let mut trail = Trail::new(self.info_url());
        let answer = self.client.follow(&mut trail, 0)?;
        let answer = answer.checked(&self.client, false)?;
        let incoming = Incoming::new(&self.client, answer);
        let body = incoming.read_all(self.client.limits().listing)?;
        let answered: Answered = serde_json::from_slice(&body).map_err(|error| {
            Failure::no_hub(&format!("no list of files: {}", shown(&error.to_string())))
        })?;
        if !is_commit_name(&answered.sha) {
            return Err(Failure::odd_commit(&answered.sha, ""));
        }
        let names = answered.siblings.into_iter().map(|file| file.rfilename);
        // Names become paths in the cache.
        let mut names: Vec<String> = names.filter(|name| is_plain_name(name)).collect();
        names.sort();
        Ok(Info {
            commit: answered.sha,
            names,
        })
    }

    fn kept(&self, commit: &str) -> Option<Vec<String>> {
        let bytes = fs::read(self.cache.listing(commit)).ok()?;
        let names: Vec<String> = serde_json::from_slice(&bytes).ok()?;
        let plain = names.iter().all(|name| is_plain_name(name));
        plain.then_some(names)
    }

    fn in_snapshot(&self, commit: &str) -> Option<Vec<String>> {
        let mut names = Vec::new();
        walk(&self.cache.snapshot(commit), "", &mut names)?;
        names.sort();
        Some(names)
    }
}

/// Adds the files below a folder, with `/` between the parts of their names.
fn walk(folder: &Path, prefix: &str, names: &mut Vec<String>) -> Option<()> {
    for entry in fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        let name = format!("{prefix}{}", path.file_name()?.to_str()?);
        if path.is_dir() {
            walk(&path, &format!("{name}/"), names)?
        } else {
            names.push(name)
        }
    }
    Some(())
}
