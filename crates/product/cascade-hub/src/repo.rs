//! Files of the Hugging Face hub, through the cache that all Hugging Face libraries share.
//!
//! A revision (`main`, a tag) is resolved to a commit once per model, and all files are taken from
//! that commit. Files of a known commit never change, so they are taken from the cache without
//! asking. When the hub cannot be reached, what the cache last knew of the revision is used.

mod failure;
mod listing;

use std::fmt;
use std::path::PathBuf;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, CacheRepo, Repo};

use self::failure::Refusal;
use crate::{Error, HubOptions, Result};

pub(crate) use hf_hub::RepoType;

/// Why files come from the cache only.
#[derive(Debug)]
enum CacheOnly {
    /// The caller forbade downloads.
    Asked,
    /// The hub did not answer.
    Unreachable(String),
}

/// One revision of one model or dataset of the hub.
#[derive(Debug)]
pub(crate) struct HubRepo<'a> {
    kind: RepoType,
    id: String,
    revision: String,
    options: &'a HubOptions,
    api: Api,
    /// The commit that `revision` turned out to be.
    commit: Option<String>,
    cache_only: Option<CacheOnly>,
}

impl<'a> HubRepo<'a> {
    /// A model or a dataset. Asks nothing yet.
    pub(crate) fn new(
        kind: RepoType,
        id: &str,
        revision: Option<&str>,
        options: &'a HubOptions,
        progress: bool,
    ) -> Result<Self> {
        let revision = revision.unwrap_or("main").to_owned();
        let builder = ApiBuilder::from_cache(Cache::new(options.cache.clone()))
            .with_endpoint(options.endpoint.clone())
            .with_token(options.token.clone())
            .with_progress(progress)
            .with_retries(3)
            .with_user_agent("cascade", env!("CARGO_PKG_VERSION"));
        let api = builder.build().map_err(|error| Error::HubFailed {
            repo: id.to_owned(),
            file: "any file".to_owned(),
            endpoint: options.endpoint.clone(),
            reason: error.to_string(),
        })?;
        let commit = is_commit(&revision).then(|| revision.clone());
        Ok(Self {
            kind,
            id: id.to_owned(),
            revision,
            options,
            api,
            commit,
            cache_only: options.offline.then_some(CacheOnly::Asked),
        })
    }

    /// Path of a file in the cache, downloaded if need be; `None` if the repository has no such
    /// file, or if only the cache may be used and it does not have it ([`missing`](Self::missing)
    /// distinguishes the two).
    pub(crate) fn find(&mut self, file: &str) -> Result<Option<PathBuf>> {
        if let Some(path) = self.commit.as_ref().and_then(|c| self.snapshot(c, file)) {
            return Ok(Some(path));
        }
        if self.cache_only.is_some() {
            return Ok(self.cached(file));
        }
        match self.resolve(file) {
            Ok(None) => Ok(None),
            Ok(Some(commit)) => self.take(&commit, file),
            Err(Failure::Unreachable(reason)) => {
                self.cache_only = Some(CacheOnly::Unreachable(reason));
                match self.cached(file) {
                    Some(path) => Ok(Some(path)),
                    None => self.missing(file).map_or(Ok(None), Err),
                }
            }
            Err(Failure::Other(error)) => Err(*error),
        }
    }

    /// The error for a file that was needed and not found; `None` if the repository really has no
    /// such file.
    pub(crate) fn missing(&self, file: &str) -> Option<Error> {
        let (repo, file) = (self.to_string(), file.to_owned());
        match self.cache_only.as_ref()? {
            CacheOnly::Asked => Some(Error::HubOffline {
                repo,
                file,
                cache: self.options.cache.clone(),
            }),
            CacheOnly::Unreachable(reason) => Some(Error::HubUnreachable {
                repo,
                file,
                endpoint: self.options.endpoint.clone(),
                reason: reason.clone(),
            }),
        }
    }

    /// The error for a file that the hub says it does not have.
    pub(crate) fn not_found(&self, file: &str) -> Error {
        Error::HubNotFound {
            repo: self.to_string(),
            file: file.to_owned(),
            endpoint: self.options.endpoint.clone(),
        }
    }

    /// Names of all files of the repository, for hints: empty if the hub does not give them.
    pub(crate) fn names(&self) -> Vec<String> {
        if self.cache_only.is_some() {
            return Vec::new();
        }
        let info = self.api.repo(self.repo(&self.revision)).info();
        info.map_or_else(
            |_| Vec::new(),
            |info| info.siblings.into_iter().map(|s| s.rfilename).collect(),
        )
    }

    /// The commit to take `file` from; `None` if the hub does not have the file. Asks the hub once
    /// per repository.
    fn resolve(&mut self, file: &str) -> std::result::Result<Option<String>, Failure> {
        if let Some(commit) = &self.commit {
            return Ok(Some(commit.clone()));
        }
        let url = self.api.repo(self.repo(&self.revision)).url(file);
        let metadata = match self.api.metadata(&url) {
            Ok(metadata) => metadata,
            Err(error) => return self.explain(file, error).map(|()| None),
        };
        let commit = self.checked_commit(file, metadata.commit_hash())?;
        self.commit = Some(commit.clone());
        Ok(Some(commit))
    }

    /// The commit becomes the name of a folder: a server must not choose which.
    fn checked_commit(&self, file: &str, commit: &str) -> std::result::Result<String, Failure> {
        let commit = commit.trim();
        if commit.is_empty() || !commit.bytes().all(|b| b.is_ascii_alphanumeric()) {
            let reason = format!("the server calls the commit \"{commit}\"");
            return Err(Failure::other(self.failed(file, reason)));
        }
        Ok(commit.to_owned())
    }

    fn take(&mut self, commit: &str, file: &str) -> Result<Option<PathBuf>> {
        let path = match self.snapshot(commit, file) {
            Some(path) => path,
            None => match self.api.repo(self.repo(commit)).download(file) {
                Ok(path) => path,
                Err(error) => {
                    return match self.explain(file, error) {
                        Ok(()) => Ok(None),
                        Err(Failure::Other(error)) => Err(*error),
                        Err(Failure::Unreachable(reason)) => {
                            self.cache_only = Some(CacheOnly::Unreachable(reason));
                            self.missing(file).map_or(Ok(None), Err)
                        }
                    }
                }
            },
        };
        self.remember(commit);
        Ok(Some(path))
    }

    /// Records in the cache which commit the revision is. Failing to write is harmless: the files
    /// in the cache can be read all the same.
    fn remember(&self, commit: &str) {
        if commit != self.revision && self.remembered().as_deref() != Some(commit) {
            let _ = self.cache_repo().create_ref(commit);
        }
    }

    /// The commit that the revision was when the cache last heard of it.
    fn remembered(&self) -> Option<String> {
        let known = self.cached_repo_folder().join("refs").join(&self.revision);
        let commit = std::fs::read_to_string(known).ok()?.trim().to_owned();
        (!commit.is_empty()).then_some(commit)
    }

    /// Where the cache keeps the repository.
    fn cached_repo_folder(&self) -> PathBuf {
        let repo = self.repo(&self.revision);
        self.options.cache.join(repo.folder_name())
    }

    /// A file of the commit that the revision was when the cache last heard of it.
    fn cached(&self, file: &str) -> Option<PathBuf> {
        self.cache_repo().get(file)
    }

    fn snapshot(&self, commit: &str, file: &str) -> Option<PathBuf> {
        let path = self.cache_repo().pointer_path(commit).join(file);
        path.exists().then_some(path)
    }

    fn cache_repo(&self) -> CacheRepo {
        Cache::new(self.options.cache.clone()).repo(self.repo(&self.revision))
    }

    fn repo(&self, revision: &str) -> Repo {
        Repo::with_revision(self.id.clone(), self.kind, revision.to_owned())
    }

    fn failed(&self, file: &str, reason: String) -> Error {
        Error::HubFailed {
            repo: self.to_string(),
            file: file.to_owned(),
            endpoint: self.options.endpoint.clone(),
            reason,
        }
    }

    /// `Ok` if the hub said that there is no such file.
    fn explain(&self, file: &str, error: ApiError) -> std::result::Result<(), Failure> {
        let failed = |reason| Err(Failure::other(self.failed(file, reason)));
        match error.into() {
            Refusal::NotFound => Ok(()),
            Refusal::Denied(status) => Err(Failure::other(Error::HubDenied {
                repo: self.to_string(),
                file: file.to_owned(),
                endpoint: self.options.endpoint.clone(),
                status,
            })),
            Refusal::DamagedPart => Err(self.damaged_part(file)),
            Refusal::Unreachable(reason) => Err(Failure::Unreachable(reason)),
            Refusal::Status(status) => failed(format!("HTTP status {status}")),
            Refusal::Local(reason) => failed(format!(
                "{reason} (the cache is {})",
                self.options.cache.display()
            )),
        }
    }

    fn damaged_part(&self, file: &str) -> Failure {
        let blobs = self.cache_repo().blob_path("*.part");
        let reason = format!(
            "an earlier download left a damaged part behind, delete {}",
            blobs.display()
        );
        Failure::other(self.failed(file, reason))
    }
}

impl fmt::Display for HubRepo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RepoType::Dataset => "dataset ",
            _ => "",
        };
        write!(f, "{kind}{}@{}", self.id, self.revision)
    }
}

enum Failure {
    /// No answer, or none that says anything of the file: the cache may help.
    Unreachable(String),
    Other(Box<Error>),
}

impl Failure {
    fn other(error: Error) -> Self {
        Self::Other(Box::new(error))
    }
}

fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}
