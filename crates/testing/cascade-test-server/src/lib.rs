//! An HTTP server on this machine whose answers are a function, for tests of what asks servers.
//!
//! It sends whatever a test asks for: wrong lengths, silence, half bodies. It panics where the test
//! made a mistake.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// What was asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path with its query.
    pub path: String,
    /// By their names in lower case.
    pub headers: BTreeMap<String, String>,
}

impl Request {
    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The first byte that is asked for, if not all are.
    pub fn from(&self) -> Option<usize> {
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
}

/// Answers one request per connection.
pub trait Script: Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync {}
impl<F: Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync> Script for F {}

/// A server on a free port of this machine, for as long as it lives.
pub struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it.
    pub fn start(script: impl Script + 'static) -> Self {
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

    /// Its address, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Paths that were asked for since the last time.
    pub fn take_paths(&self) -> Vec<String> {
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
pub fn send(stream: &mut TcpStream, head: &str, body: &[u8]) -> std::io::Result<()> {
    stream.write_all(&message(head, body))
}

/// The bytes of an answer.
pub fn message(head: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// The beginning of an answer whose body has no announced length.
pub fn send_chunked_head(stream: &mut TcpStream, head: &str) -> std::io::Result<()> {
    let end = "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(format!("HTTP/1.1 {head}\r\n{end}").as_bytes())
}

/// A part of the body after [`send_chunked_head`].
pub fn send_chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    stream.write_all(&chunk)
}

/// Says nothing until the client hangs up.
pub fn be_silent(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read_to_end(&mut Vec::new()).map(|_| ())
}

/// The hub's name for a file in Git LFS: its SHA-256.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The hub's name for any other file: Git's SHA-1 of it.
pub fn git_sha1(bytes: &[u8]) -> String {
    let start = Sha1::new().chain_update(format!("blob {}\0", bytes.len()));
    hex(&start.chain_update(bytes).finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All or the rest of a file, as the request's range says: status with headers, and body.
pub fn ranged(request: &Request, headers: &str, bytes: &[u8]) -> (String, Vec<u8>) {
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
