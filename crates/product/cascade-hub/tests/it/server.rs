//! A server whose answers are a function, and one such function: a hub that does everything right.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use sha1::Sha1;
use sha2::{Digest, Sha256};

pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
pub(crate) const NEXT: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// By their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The first byte that is asked for, if not all are.
    pub(crate) fn from(&self) -> Option<usize> {
        let range = self.header("range")?;
        Some(
            range
                .strip_prefix("bytes=")
                .unwrap()
                .strip_suffix('-')
                .unwrap()
                .parse()
                .unwrap(),
        )
    }

    pub(crate) fn is_for_storage(&self) -> bool {
        self.path.starts_with("/lfs/")
    }

    pub(crate) fn is_for_file(&self) -> bool {
        self.path.contains("/resolve/")
    }
}

/// Answers one request per connection.
pub(crate) trait Script:
    Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync
{
}
impl<F: Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync> Script for F {}

pub(crate) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(script: impl Script + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let stop = Arc::<AtomicBool>::default();
        let (script, log, stopped) = (Arc::new(script), requests.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (mut stream, script, log) = (stream.unwrap(), script.clone(), log.clone());
                std::thread::spawn(move || {
                    // A client that hangs up early is its own affair.
                    let request = request(&stream).ok()?;
                    log.lock().unwrap().push(request.clone());
                    script(&request, &mut stream).ok()
                });
            }
        });
        Self {
            address,
            requests,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Paths that were asked for since the last time.
    pub(crate) fn take_paths(&self) -> Vec<String> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.into_iter().map(|request| request.path).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn request(stream: &TcpStream) -> std::io::Result<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let mut headers = BTreeMap::new();
    for line in lines {
        match line?.split_once(": ") {
            Some((name, value)) => headers.insert(name.to_ascii_lowercase(), value.to_owned()),
            None => break,
        };
    }
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    Ok(Request { path, headers })
}

/// An answer: a status with headers below it, and a body.
pub(crate) fn send(stream: &mut TcpStream, head: &str, body: &[u8]) -> std::io::Result<()> {
    stream.write_all(&message(head, body))
}

/// The bytes of an answer.
pub(crate) fn message(head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// The beginning of an answer whose body has no announced length.
pub(crate) fn send_chunked_head(stream: &mut TcpStream, head: &str) -> std::io::Result<()> {
    let end = "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(format!("HTTP/1.1 {head}\r\n{end}").as_bytes())
}

pub(crate) fn send_chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    stream.write_all(&chunk)
}

/// Says nothing until the client hangs up.
pub(crate) fn be_silent(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read_to_end(&mut Vec::new()).map(|_| ())
}

/// The hub's name for a file in Git LFS.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The hub's name for any other file.
pub(crate) fn git_sha1(bytes: &[u8]) -> String {
    let start = Sha1::new().chain_update(format!("blob {}\0", bytes.len()));
    hex(&start.chain_update(bytes).finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a hub has: files of one dataset and model, `org/name`. Those that end in `.bin` or
/// `.safetensors` are in Git LFS.
#[derive(Clone, Default)]
pub(crate) struct Hub {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// Where the large files are; the hub itself if `None`.
    pub(crate) storage: Option<String>,
}

impl Hub {
    pub(crate) fn with(files: &[(&str, &[u8])]) -> Self {
        let owned = |(name, bytes): &(&str, &[u8])| ((*name).to_owned(), bytes.to_vec());
        Self {
            files: files.iter().map(owned).collect(),
            storage: None,
        }
    }

    /// The whole protocol, done right.
    pub(crate) fn answer(&self, request: &Request, stream: &mut TcpStream) -> std::io::Result<()> {
        let (head, body) = self.reply(request);
        send(stream, &head, &body)
    }

    pub(crate) fn reply(&self, request: &Request) -> (String, Vec<u8>) {
        let path = request.path.replace("%20", " ").replace("%23", "#");
        let path = path.as_str();
        if let Some(rest) = path.strip_prefix("/lfs/") {
            let name = rest.split('?').next().unwrap();
            let etag = "\"of-the-storage\"";
            return ranged(request, &format!("ETag: {etag}"), &self.files[name]);
        }
        if path.starts_with("/api/") {
            let names = self.files.keys();
            let siblings: Vec<_> = names
                .map(|name| serde_json::json!({ "rfilename": name }))
                .collect();
            let info = serde_json::json!({ "sha": COMMIT, "siblings": siblings });
            return ("200 OK".to_owned(), info.to_string().into_bytes());
        }
        let rest = path
            .trim_start_matches("/datasets")
            .strip_prefix("/org/name/resolve/");
        let Some((revision, name)) = rest.and_then(|rest| rest.split_once('/')) else {
            return (
                "404 Not Found\r\nX-Error-Code: RepoNotFound".to_owned(),
                Vec::new(),
            );
        };
        if revision != "main" && revision != COMMIT {
            return (
                "404 Not Found\r\nX-Error-Code: RevisionNotFound".to_owned(),
                Vec::new(),
            );
        }
        let commit = format!("X-Repo-Commit: {COMMIT}");
        let Some(bytes) = self.files.get(name) else {
            let head = format!("404 Not Found\r\nX-Error-Code: EntryNotFound\r\n{commit}");
            return (head, Vec::new());
        };
        if !is_large(name) {
            return ranged(
                request,
                &format!("{commit}\r\nETag: \"{}\"", git_sha1(bytes)),
                bytes,
            );
        }
        let storage = self.storage.as_deref().unwrap_or_default();
        let place = name.replace(' ', "%20").replace('#', "%23");
        let head = format!(
            "302 Found\r\n{commit}\r\nLocation: {storage}/lfs/{place}?signature=s3cret\r\n\
             X-Linked-Size: {}\r\nX-Linked-Etag: \"{}\"",
            bytes.len(),
            sha256(bytes)
        );
        (head, b"Found. Redirecting".to_vec())
    }
}

pub(crate) fn is_large(name: &str) -> bool {
    name.ends_with(".bin") || name.ends_with(".safetensors")
}

/// All or the rest of a file.
pub(crate) fn ranged(request: &Request, headers: &str, bytes: &[u8]) -> (String, Vec<u8>) {
    let length = bytes.len();
    match request.from() {
        None => (format!("200 OK\r\n{headers}"), bytes.to_vec()),
        Some(from) if from >= length => ("416 Range Not Satisfiable".to_owned(), Vec::new()),
        Some(from) => {
            let range = format!("Content-Range: bytes {from}-{}/{length}", length - 1);
            let head = format!("206 Partial Content\r\n{headers}\r\n{range}");
            (head, bytes[from..].to_vec())
        }
    }
}
