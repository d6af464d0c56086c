//! Files of the Hugging Face hub, through the cache that all Hugging Face libraries share.
//!
//! A revision (`main`, a tag) is resolved to a commit once per model, and all files are taken from
//! that commit. Files of a known commit never change, so they are taken from the cache without
//! asking. When the hub cannot be reached, what the cache last knew of the revision is used.
//!
//! Nothing that a server says is believed further than it can be checked: see the crate's
//! documentation. This is an own client rather than a library because of that.

mod body;
mod cache;
mod client;
mod download;
mod etag;
mod failure;
mod listing;
mod lock;
mod offer;
mod partial_download;
mod progress;
mod redirect;
mod retry;

use std::fmt;
use std::path::PathBuf;

use url::Url;

use self::cache::{RepoCache, is_commit_name};
use self::client::Client;
use self::download::Download;
use self::failure::{Failure, Outcome};
use self::offer::Offer;
use self::progress::Display;
use self::retry::Patience;
use crate::name::{is_hub_name, is_plain_name};
use crate::{Error, ErrorKind, HubOptions, Result};

/// What a repository holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepoType {
    Model,
    Dataset,
}

impl RepoType {
    /// What folders of such repositories are called.
    fn plural(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }

    /// What precedes the name in addresses of such a repository; of a model, nothing.
    fn prefix<'a>(self) -> Option<&'a str> {
        (self != Self::Model).then(|| self.plural())
    }
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
    client: Client,
    cache: RepoCache,
    display: Display,
    /// The commit that `revision` turned out to be.
    commit: Option<String>,
    cache_only: Option<CacheOnly>,
    /// Whether it was said that the repository has another name now.
    told_moved: bool,
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
        let commit = is_commit(&revision).then(|| revision.clone());
        Ok(Self {
            kind,
            id: id.to_owned(),
            revision,
            options,
            client: Client::new(options)?,
            cache: RepoCache::new(&options.cache, kind, id),
            display: Display::new(progress),
            commit,
            cache_only: options.offline.then_some(CacheOnly::Asked),
            told_moved: false,
        })
    }

    /// Path of a file in the cache, downloaded if need be; `None` if the repository has no such
    /// file, or if only the cache may be used and it does not have it ([`missing`](Self::missing)
    /// distinguishes the two).
    pub(crate) fn find(&mut self, file: &str) -> Result<Option<PathBuf>> {
        // The name becomes a path in the cache.
        if !is_plain_name(file) {
            return Ok(None);
        }
        if let Some(commit) = &self.commit {
            if let Some(path) = self.cache.file(commit, file) {
                return Ok(Some(path));
            }
            if self.cache.lacks(commit, file) {
                return Ok(None);
            }
        }
        if self.cache_only.is_some() {
            return Ok(self.cached(file));
        }
        match self.fetch(file) {
            Ok(found) => Ok(found),
            Err(Failure::Unreachable { reason, .. }) => {
                self.cache_only = Some(CacheOnly::Unreachable(reason));
                match self.cached(file) {
                    Some(path) => Ok(Some(path)),
                    None => self.missing(file).map_or(Ok(None), Err),
                }
            }
            Err(failure) => Err(self.error(file, failure)),
        }
    }

    /// The error for a file that was needed and not found; `None` if the repository really has no
    /// such file.
    pub(crate) fn missing(&self, file: &str) -> Option<Error> {
        let commit = self.known_commit();
        if commit.is_some_and(|commit| self.cache.lacks(&commit, file)) {
            return None;
        }
        Some(match self.cache_only.as_ref()? {
            CacheOnly::Asked => {
                let message = format!(
                    "{file} of {self} is not in the cache at {}, and HF_HUB_OFFLINE forbids downloads; unset \
                     HF_HUB_OFFLINE once to download it, or give a local folder",
                    self.options.cache.display()
                );
                Error::new(ErrorKind::Unreachable, message)
            }
            CacheOnly::Unreachable(reason) => self.unreachable(file, reason),
        })
    }

    fn unreachable(&self, file: &str, reason: &str) -> Error {
        let message = format!(
            "cannot reach {} for {file} of {self}: {reason}; check the connection and HF_ENDPOINT, or give a local folder",
            self.options.endpoint
        );
        Error::new(ErrorKind::Unreachable, message)
    }

    /// The error for a file that the hub says it does not have.
    pub(crate) fn not_found(&self, file: &str) -> Error {
        let message = format!(
            "{} has no {file} in {self}: no such repository, revision or file; check the name and the part after @",
            self.options.endpoint
        );
        Error::new(ErrorKind::Missing, message)
    }

    /// Names of all files of the repository, for hints: empty if the hub does not give them.
    pub(crate) fn names(&self) -> Vec<String> {
        if self.cache_only.is_some() {
            return Vec::new();
        }
        self.info().map_or_else(|_| Vec::new(), |info| info.names)
    }

    /// The file, as the hub has it; `None` if it does not.
    fn fetch(&mut self, file: &str) -> Outcome<Option<PathBuf>> {
        let offer = match self.ask(file) {
            Ok(offer) => offer,
            Err(Failure::NotFound { commit }) => {
                self.learn_lack(file, commit);
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        };
        self.tell_if_moved(offer.here());
        let commit = self.settle(offer.commit.clone())?;
        let path = match self.cache.file(&commit, file) {
            Some(path) => path,
            None => self.download(&commit, file).run(offer)?,
        };
        self.cache.remember(&self.revision, &commit);
        Ok(Some(path))
    }

    fn ask(&self, file: &str) -> Outcome<Offer> {
        let revision = self.commit.as_deref().unwrap_or(&self.revision);
        let url = self.file_url(revision, file);
        let cached = self.cached(file).is_some();
        self.patiently(cached, || Offer::ask(&self.client, url.clone()))
    }

    /// Asks until the hub answers, or has failed so often that it is given up: sooner if the cache
    /// can stand in for it.
    fn patiently<T>(&self, cached: bool, ask: impl Fn() -> Outcome<T>) -> Outcome<T> {
        let mut patience = Patience::new(self.client.limits()).with_cached(cached);
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    patience.wait_or_give_up(failure, self.client.reached(), &self.display)?;
                }
            }
        }
    }

    fn download<'d>(&'d self, commit: &'d str, file: &'d str) -> Download<'d> {
        Download {
            client: &self.client,
            cache: &self.cache,
            display: &self.display,
            url: self.file_url(commit, file),
            commit,
            file,
        }
    }

    /// The commit to take files from, once a server has named one, or none. It becomes the name of
    /// a folder: a server must not choose which.
    fn settle(&mut self, given: Option<String>) -> Outcome<String> {
        let commit = match (&self.commit, given) {
            (Some(known), Some(given)) if !known.eq_ignore_ascii_case(&given) => {
                let asked = format!(", and {known} was asked for");
                return Err(Failure::odd_commit(&given, &asked));
            }
            (Some(known), _) => known.clone(),
            (None, Some(given)) if is_commit_name(&given) => given,
            (None, Some(given)) => return Err(Failure::odd_commit(&given, "")),
            // A mirror that does not say it along with files may say it with the list of them.
            (None, None) => match self.info() {
                Ok(info) => info.commit,
                Err(Failure::Untrusted(reason)) => return Err(Failure::Untrusted(reason)),
                Err(_) => {
                    return Err(Failure::no_hub(
                        "it does not say of which commit the file is, neither as X-Repo-Commit nor \
                         with a list of files; name a commit after @ if this is a mirror",
                    ));
                }
            },
        };
        self.commit = Some(commit.clone());
        Ok(commit)
    }

    /// Keeps that a commit has no such file, if the hub said which commit.
    fn learn_lack(&mut self, file: &str, commit: Option<String>) {
        let Some(commit) = commit.filter(|commit| is_commit_name(commit)) else {
            return;
        };
        if self.commit.as_ref().is_none_or(|known| *known == commit) {
            self.cache.keep_lack(&commit, file);
            self.cache.remember(&self.revision, &commit);
            self.commit = Some(commit);
        }
    }

    fn tell_if_moved(&mut self, place: &Url) {
        let moved = self
            .client
            .is_hub(place)
            .then(|| moved_to(place, &self.id))
            .flatten();
        if let (Some(name), false) = (moved, self.told_moved) {
            self.told_moved = true;
            let id = &self.id;
            self.display.say(&format!(
                "{id} is called {name} now; the old name still works"
            ));
        }
    }

    /// The commit that is used or, where only the cache knows, was last.
    fn known_commit(&self) -> Option<String> {
        let known = self.commit.clone();
        known.or_else(|| self.cache.remembered(&self.revision))
    }

    /// A file of the commit that the revision was when the cache last heard of it.
    pub(crate) fn cached(&self, file: &str) -> Option<PathBuf> {
        self.cache.file(&self.known_commit()?, file)
    }

    fn file_url(&self, revision: &str, file: &str) -> Url {
        let id = self.id.split('/');
        let start = self
            .kind
            .prefix()
            .into_iter()
            .chain(id)
            .chain(["resolve", revision]);
        self.url(start.chain(file.split('/')))
    }

    fn info_url(&self) -> Url {
        let revision = self.commit.as_deref().unwrap_or(&self.revision);
        let start = ["api", self.kind.plural()].into_iter();
        let named = start.chain(self.id.split('/'));
        self.url(named.chain(["revision", revision]))
    }

    /// An address of the hub; a slash in a part is not one between parts.
    fn url<'p>(&self, parts: impl Iterator<Item = &'p str>) -> Url {
        let mut url = self.client.hub().clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        url
    }

    fn error(&self, file: &str, failure: Failure) -> Error {
        match failure {
            Failure::Denied { status, gated } => self.denied(file, status, gated),
            Failure::Untrusted(reason) => self.untrusted(file, &reason),
            Failure::NotTheRest => {
                self.untrusted(file, "a part came where all of it was asked for")
            }
            Failure::NotFound { .. } => self.not_found(file),
            Failure::Unreachable { reason, .. } => self.unreachable(file, &reason),
            Failure::Status(reason) => self.failed(file, &reason),
            Failure::Local(reason) => {
                let cache = self.options.cache.display();
                self.failed(file, &format!("{reason} (the cache is {cache})"))
            }
        }
    }

    fn denied(&self, file: &str, status: u16, gated: bool) -> Error {
        let token = if self.options.token.is_some() {
            "with the account that the token in HF_TOKEN (or of `hf auth login`) belongs to"
        } else {
            "and put an access token of that account into HF_TOKEN (or run `hf auth login`)"
        };
        let message = if gated {
            format!(
                "{file} of {self} is gated (HTTP {status}): accept the terms on {} while logged in, {token}; if that is \
                 done, ask there whether access was granted",
                self.page()
            )
        } else {
            format!(
                "{} refused {file} of {self} (HTTP {status}): it does not exist, is private, or is gated; check the \
                 name, accept the terms on its page, and put an access token into HF_TOKEN (or log in with `hf auth \
                 login`)",
                self.options.endpoint
            )
        };
        Error::new(ErrorKind::Denied, message)
    }

    /// For an answer that contradicts itself, or that the cache could not keep safely.
    fn untrusted(&self, file: &str, reason: &str) -> Error {
        let message = format!(
            "{} answered for {file} of {self} with what is not taken: {reason}; nothing of it was kept; check HF_ENDPOINT \
             and the connection, or give a local folder",
            self.options.endpoint
        );
        Error::new(ErrorKind::Download, message)
    }

    fn failed(&self, file: &str, reason: &str) -> Error {
        let message = format!(
            "downloading {file} of {self} from {} failed: {reason}; try again, or give a local folder",
            self.options.endpoint
        );
        Error::new(ErrorKind::Download, message)
    }

    /// Where people see the repository.
    fn page(&self) -> String {
        let parts = [
            Some(&*self.options.endpoint),
            self.kind.prefix(),
            Some(&*self.id),
        ];
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        parts.join("/")
    }
}

impl fmt::Display for HubRepo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            RepoType::Dataset => "dataset ",
            RepoType::Model => "",
        };
        write!(f, "{kind}{}@{}", self.id, self.revision)
    }
}

fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Another name of a repository, if the address of a file has one.
fn moved_to(place: &Url, id: &str) -> Option<String> {
    let parts: Vec<&str> = place.path_segments()?.collect();
    let at = parts.iter().position(|part| *part == "resolve")?;
    let [.., owner, name] = parts[..at] else {
        return None;
    };
    let found = format!("{owner}/{name}");
    (is_hub_name(owner) && is_hub_name(name) && found != id).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_escaped() {
        let options = HubOptions::new("https://proxy/hf/", "/nonexistent");
        let model = HubRepo::new(RepoType::Model, "org/name", None, &options, false).unwrap();
        let url = model.file_url("refs/pr/1", "a/b c?#%.txt").to_string();
        assert_eq!(
            url,
            "https://proxy/hf/org/name/resolve/refs%2Fpr%2F1/a/b%20c%3F%23%25.txt"
        );
        let revision = Some("v1");
        let data = HubRepo::new(RepoType::Dataset, "org/name", revision, &options, false).unwrap();
        let url = data.file_url("v1", "x").to_string();
        assert_eq!(url, "https://proxy/hf/datasets/org/name/resolve/v1/x");
        let url = data.info_url().to_string();
        assert_eq!(url, "https://proxy/hf/api/datasets/org/name/revision/v1");
    }

    #[test]
    fn new_names_of_repositories_are_noticed() {
        let moved = |url: &str| moved_to(&Url::parse(url).unwrap(), "org/name");
        assert_eq!(moved("http://hub/org/name/resolve/main/x"), None);
        assert_eq!(moved("http://hub/datasets/org/name/resolve/main/x"), None);
        assert_eq!(moved("http://hub/api/resolve-cache/models/a/b"), None);
        let new = moved("http://hub/datasets/new/other/resolve/main/resolve");
        assert_eq!(new.as_deref(), Some("new/other"));
        assert_eq!(moved("http://hub/%1b/x/resolve/main/x"), None);
    }
}
