//! A hub on this machine that speaks as much of the protocol as datasets need.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use cascade_hub::HubOptions;

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
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HubServer {
    /// A hub with one dataset, `repo`.
    pub(crate) fn start(repo: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (state, stop) = (Arc::<Mutex<State>>::default(), Arc::<AtomicBool>::default());
        let (shared, stopped) = (Arc::clone(&state), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                // A client that hangs up early is its own affair.
                let _ = answer(&stream.unwrap(), repo, &shared);
            }
        });
        Self {
            address,
            state,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    pub(crate) fn take_requests(&self) -> Vec<String> {
        self.change(|state| std::mem::take(&mut state.requests))
    }

    /// Failures are not waited for.
    pub(crate) fn options(&self, cache: &Path) -> HubOptions {
        let mut options = HubOptions::new(format!("http://{}", self.address), cache);
        options.limits.backoff = Duration::from_millis(1);
        options
    }
}

impl Drop for HubServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a client asks: the path, and the headers by their names in lower case.
fn request(stream: &TcpStream) -> std::io::Result<(String, BTreeMap<String, String>)> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let mut headers = BTreeMap::new();
    for line in lines {
        match line?.split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    Ok((path.to_owned(), headers))
}

fn answer(mut stream: &TcpStream, repo: &str, state: &Mutex<State>) -> std::io::Result<()> {
    let (path, headers) = request(stream)?;
    let mut state = state.lock().unwrap();
    state.requests.push(path.clone());
    let (head, body) = reply(&state, repo, &path, &headers);
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &body].concat())
}

fn reply(
    state: &State,
    repo: &str,
    path: &str,
    headers: &BTreeMap<String, String>,
) -> (String, Vec<u8>) {
    let given = headers.get("authorization").map(String::as_str);
    let needed = state.token.as_ref().map(|token| format!("Bearer {token}"));
    if needed.is_some() && given != needed.as_deref() {
        return ("401 Unauthorized".to_owned(), Vec::new());
    }
    let listing = path.strip_prefix(&format!("/api/datasets/{repo}/revision/"));
    let file = path.strip_prefix(&format!("/datasets/{repo}/resolve/"));
    match (listing, file.and_then(|rest| rest.split_once('/'))) {
        (Some(revision), _) => list(state, revision),
        (None, Some((revision, name))) => content(state, revision, name, headers),
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

fn content(
    state: &State,
    revision: &str,
    name: &str,
    headers: &BTreeMap<String, String>,
) -> (String, Vec<u8>) {
    let commit = commit(state, revision);
    let Some(bytes) = state.files.get(&(commit.clone(), name.to_owned())) else {
        return not_found();
    };
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let etag = format!("{:016x}", hasher.finish());
    let head = format!("ETag: \"{etag}\"\r\nX-Repo-Commit: {commit}");
    let Some(range) = headers.get("range") else {
        return (format!("200 OK\r\n{head}"), bytes.clone());
    };
    let first = range
        .strip_prefix("bytes=")
        .unwrap()
        .strip_suffix('-')
        .unwrap();
    let first: usize = first.parse().unwrap();
    let (last, length) = (bytes.len() - 1, bytes.len());
    let range = format!("Content-Range: bytes {first}-{last}/{length}");
    let head = format!("206 Partial Content\r\n{head}\r\n{range}");
    (head, bytes[first..].to_vec())
}
