//! An HTTP server on this machine whose answers are a function, for tests of what asks servers.
//!
//! The server sends whatever a test asks for: wrong lengths, silence, half bodies. It panics where
//! the test made a mistake. Tests of several crates include this file as a module; none uses all of
//! it.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use sha2::{Digest, Sha256};

/// A request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The path with its query.
    pub(crate) path: String,
    /// The headers, by their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Request {
    /// A header, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The first byte that is asked for, if not all are.
    pub(crate) fn from(&self) -> Option<usize> {
        let range = self.header("range")?.strip_prefix("bytes=").unwrap();
        Some(range.strip_suffix('-').unwrap().parse().unwrap())
    }
}

/// Answers one request per connection.
pub(crate) trait Script:
    Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync
{
}
impl<F: Fn(&Request, &mut TcpStream) -> std::io::Result<()> + Send + Sync> Script for F {}

/// A server on a free port of this machine, for as long as it lives.
pub(crate) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server.
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

    /// The address of the server, without a path.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// The paths of all requests since the last call.
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

/// A part of the body after [`send_chunked_head`].
pub(crate) fn send_chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    stream.write_all(&chunk)
}

/// Says nothing until the client hangs up.
pub(crate) fn be_silent(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.read_to_end(&mut Vec::new()).map(|_| ())
}

/// The hub's name for a file in Git LFS: its SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All or the rest of a file, as the request's range says: status with headers, and body.
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
