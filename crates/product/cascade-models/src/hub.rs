//! Files of the Hugging Face hub, through the cache that all Hugging Face libraries share.
//!
//! A revision (`main`, a tag) is resolved to a commit once per model, and all files are taken from that commit. Files
//! of a known commit never change, so they are taken from the cache without asking. When the hub cannot be reached, what
//! the cache last knew of the revision is good enough.

mod dataset;
mod listing;

use std::fmt;
use std::path::{Path, PathBuf};

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};

use crate::{Error, Result};

pub use dataset::HubDataset;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Where the hub is, where its files are kept, and what may be asked of it.
#[derive(Clone)]
#[non_exhaustive]
pub struct HubOptions {
    /// Address of the hub, without a slash at the end.
    pub endpoint: String,
    /// Folder of the cache, in the layout of Hugging Face's own libraries.
    pub cache: PathBuf,
    /// Access token for private and gated repositories.
    pub token: Option<String>,
    /// Use the cache only.
    pub offline: bool,
}

impl HubOptions {
    /// A hub and its cache, without a token.
    pub fn new(endpoint: impl Into<String>, cache: impl Into<PathBuf>) -> Self {
        Self {
            endpoint: endpoint.into().trim_end_matches('/').to_owned(),
            cache: cache.into(),
            token: None,
            offline: false,
        }
    }

    /// What the environment says, by the variables of Hugging Face's own libraries: `HF_ENDPOINT`, `HF_HUB_CACHE`,
    /// `HF_HOME`, `HF_HUB_OFFLINE`, `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, `HF_TOKEN_PATH`. Without a token variable the
    /// token file that `hf auth login` writes is read.
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let home = get("HF_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(get("XDG_CACHE_HOME")?).join("huggingface")))
            .unwrap_or_else(|| {
                let user = get("HOME").or_else(|| get("USERPROFILE"));
                PathBuf::from(user.unwrap_or_default()).join(".cache/huggingface")
            });
        let cache = get("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from);
        let token_file = get("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
        let token = get("HF_TOKEN")
            .or_else(|| get("HUGGING_FACE_HUB_TOKEN"))
            .or_else(|| std::fs::read_to_string(token_file).ok())
            .map(|token| token.trim().to_owned())
            .filter(|token| !token.is_empty());
        let offline = get("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value));
        let endpoint = get("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        Self {
            token,
            offline,
            ..Self::new(endpoint, cache)
        }
    }

    /// The same hub with an access token.
    pub fn with_token(self, token: impl Into<String>) -> Self {
        Self {
            token: Some(token.into()),
            ..self
        }
    }

    /// The same hub, using the cache only.
    pub fn with_offline(self, offline: bool) -> Self {
        Self { offline, ..self }
    }
}

/// Reads the environment.
impl Default for HubOptions {
    fn default() -> Self {
        Self::from_env()
    }
}

/// Does not show the token.
impl fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubOptions")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("offline", &self.offline)
            .finish()
    }
}

fn is_true(value: &str) -> bool {
    matches!(
        value.trim().to_ascii_lowercase().as_str(),
        "1" | "on" | "yes" | "true"
    )
}

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
    /// A model. Asks nothing yet.
    pub(crate) fn new(
        id: &str,
        revision: Option<&str>,
        options: &'a HubOptions,
        progress: bool,
    ) -> Result<Self> {
        Self::of_kind(RepoType::Model, id, revision, options, progress)
    }

    fn of_kind(
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

    /// Path of a file in the cache, downloaded if need be; `None` if the repository has no such file, or if there is nothing
    /// but a cache and it does not have it ([`missing`](Self::missing) tells these apart).
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

    /// The error for a file that was needed and not found; `None` if the model really has no such file.
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

    /// Names of all files of the model, for hints: empty if the hub does not tell.
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

    /// The commit to take `file` from; `None` if the hub does not have the file. Asks the hub once per repository.
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

    /// Tells the cache which commit the revision is. A cache that cannot be written to stays behind, and nothing is lost
    /// but that: what is in it can be read.
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
        match error {
            ApiError::TooManyRetries(inner) => self.explain(file, *inner),
            ApiError::RequestError(error) => match *error {
                ureq::Error::StatusCode(404) => Ok(()),
                ureq::Error::StatusCode(status @ (401 | 403)) => {
                    Err(Failure::other(Error::HubDenied {
                        repo: self.to_string(),
                        file: file.to_owned(),
                        endpoint: self.options.endpoint.clone(),
                        status,
                    }))
                }
                ureq::Error::StatusCode(416) => Err(self.bad_part(file)),
                // Too many requests say nothing of the file either.
                ureq::Error::StatusCode(status) if status < 500 && status != 429 => {
                    let reason = format!("HTTP status {status}");
                    Err(Failure::other(self.failed(file, reason)))
                }
                error => Err(Failure::Unreachable(error.to_string())),
            },
            ApiError::InvalidResume => Err(self.bad_part(file)),
            // Whatever answered, perhaps the login page of a network, was no hub.
            error @ (ApiError::MissingHeader(_)
            | ApiError::InvalidHeader(_)
            | ApiError::ParseIntError(_)) => {
                let reason = format!("the answer is not that of a hub ({error})");
                Err(Failure::Unreachable(reason))
            }
            error => {
                let reason = format!("{error} (the cache is {})", self.options.cache.display());
                Err(Failure::other(self.failed(file, reason)))
            }
        }
    }

    fn bad_part(&self, file: &str) -> Failure {
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

/// Whether a text is an owner or a name of the hub.
pub(crate) fn is_hub_name(part: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    !part.is_empty() && !part.starts_with(['.', '-']) && part.bytes().all(allowed)
}

/// Whether a text may be a branch, a tag or a commit. It becomes a path in the cache.
pub(crate) fn is_revision(text: &str) -> bool {
    is_plain_name(text) && !text.contains(char::is_whitespace)
}

/// Whether a file name from a repository stays inside the folder it is joined to.
pub(crate) fn is_plain_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &str)]) -> HubOptions {
        HubOptions::from_lookup(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn reads_the_variables_of_the_hugging_face_libraries() {
        let plain = options(&[("HOME", "/home/me")]);
        assert_eq!(plain.endpoint, DEFAULT_ENDPOINT);
        assert_eq!(plain.cache, Path::new("/home/me/.cache/huggingface/hub"));
        assert_eq!((plain.token, plain.offline), (None, false));

        let set = options(&[
            ("HF_HOME", "/data/hf"),
            ("HF_ENDPOINT", "https://mirror.example/"),
            ("HF_TOKEN", " hf_abc\n"),
            ("HF_HUB_OFFLINE", "1"),
        ]);
        assert_eq!(set.endpoint, "https://mirror.example");
        assert_eq!(set.cache, Path::new("/data/hf/hub"));
        assert_eq!(set.token.as_deref(), Some("hf_abc"));
        assert!(set.offline);
        assert!(!format!("{set:?}").contains("hf_abc"));

        let cache = options(&[("HF_HOME", "/data/hf"), ("HF_HUB_CACHE", "/elsewhere")]);
        assert_eq!(cache.cache, Path::new("/elsewhere"));
        let old = options(&[("HUGGING_FACE_HUB_TOKEN", "t"), ("HF_HUB_OFFLINE", "0")]);
        assert_eq!((old.token.as_deref(), old.offline), (Some("t"), false));
    }

    #[test]
    fn the_token_file_is_the_last_resort() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "hf_file\n").unwrap();
        let home = home.path().to_str().unwrap();
        let token = |more: &[(&str, &str)]| options(&[&[("HF_HOME", home)], more].concat()).token;
        assert_eq!(token(&[]).as_deref(), Some("hf_file"));
        assert_eq!(token(&[("HF_TOKEN", "hf_env")]).as_deref(), Some("hf_env"));
    }

    #[test]
    fn names_stay_inside_their_folder() {
        assert!(is_plain_name("model-00001-of-00002.safetensors") && is_plain_name("a/b"));
        for bad in ["", "../a", "/etc/passwd", "a/../../b"] {
            assert!(!is_plain_name(bad), "{bad}");
        }
    }
}
