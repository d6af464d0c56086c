//! A hub on this machine that speaks as much of the protocol as datasets need.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cascade_hub::HubOptions;

use crate::test_server::{Request, Server, ranged, send, sha256};

/// What the hub has.
#[derive(Default)]
pub(crate) struct State {
    /// Commit of each branch or tag of the dataset that it has.
    pub(crate) revisions: BTreeMap<String, String>,
    /// Content by commit and name.
    pub(crate) files: BTreeMap<(String, String), Vec<u8>>,
    /// What it takes to be let in.
    pub(crate) token: Option<String>,
    /// Paths that were asked for.
    pub(crate) requests: Vec<String>,
}

pub(crate) struct HubServer {
    server: Server,
    state: Arc<Mutex<State>>,
}

impl HubServer {
    /// A hub with one dataset, `repo`.
    pub(crate) fn start(repo: &'static str) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let server = Server::start(move |request, stream| {
            let mut state = shared.lock().unwrap();
            state.requests.push(request.path.clone());
            let (head, body) = reply(&state, repo, request);
            send(stream, &head, &body)
        });
        Self { server, state }
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    pub(crate) fn take_requests(&self) -> Vec<String> {
        self.change(|state| std::mem::take(&mut state.requests))
    }

    /// Failures are not waited for.
    pub(crate) fn options(&self, cache: &Path) -> HubOptions {
        let mut options = HubOptions::new(self.server.url(), cache);
        options.limits.backoff = Duration::from_millis(1);
        options
    }
}

fn reply(state: &State, repo: &str, request: &Request) -> (String, Vec<u8>) {
    let path = request.path.as_str();
    let given = request.header("authorization");
    let needed = state.token.as_ref().map(|token| format!("Bearer {token}"));
    if needed.is_some() && given != needed.as_deref() {
        return ("401 Unauthorized".to_owned(), Vec::new());
    }
    let listing = path.strip_prefix(&format!("/api/datasets/{repo}/revision/"));
    let file = path.strip_prefix(&format!("/datasets/{repo}/resolve/"));
    match (listing, file.and_then(|rest| rest.split_once('/'))) {
        (Some(revision), _) => list(state, revision),
        (None, Some((revision, name))) => content(state, revision, name, request),
        (None, None) => not_found(),
    }
}

fn not_found() -> (String, Vec<u8>) {
    ("404 Not Found".to_owned(), Vec::new())
}

fn commit(state: &State, revision: &str) -> String {
    let revision = revision.replace("%2F", "/");
    state.revisions.get(&revision).unwrap_or(&revision).clone()
}

fn list(state: &State, revision: &str) -> (String, Vec<u8>) {
    let sha = commit(state, revision);
    let names: Vec<_> = state
        .files
        .keys()
        .filter(|(commit, _)| *commit == sha)
        .map(|(_, name)| serde_json::json!({ "rfilename": name }))
        .collect();
    if names.is_empty() {
        return not_found();
    }
    let info = serde_json::json!({ "sha": sha, "siblings": names });
    ("200 OK".to_owned(), info.to_string().into_bytes())
}

fn content(state: &State, revision: &str, name: &str, request: &Request) -> (String, Vec<u8>) {
    let commit = commit(state, revision);
    let Some(bytes) = state.files.get(&(commit.clone(), name.to_owned())) else {
        return not_found();
    };
    // In the shape of neither digest that the hub uses.
    let etag = &sha256(bytes)[..16];
    let headers = format!("ETag: \"{etag}\"\r\nX-Repo-Commit: {commit}");
    ranged(request, &headers, bytes)
}
