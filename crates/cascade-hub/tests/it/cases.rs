//! A server that misbehaves, a file that is asked for, and what must come of it.

use std::io::{Result, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use cascade_hub::HubLimits;

use crate::good_hub::{COMMIT, Hub, is_for_file, is_for_storage};
use crate::test_server::{Request, Script, Server, message, send};
use crate::world::{World, limits};

pub(crate) const SMALL: &str = "config.json";
pub(crate) const LARGE: &str = "model.bin";

pub(crate) fn hub() -> Hub {
    let large: Vec<u8> = (0..40_000_u32)
        .map(|i| (i.wrapping_mul(i) / 7) as u8)
        .collect();
    Hub::with(&[(SMALL, b"{\"model_type\": \"llama\"}\n"), (LARGE, &large)])
}

pub(crate) enum Expect {
    /// The right file, in spite of everything.
    Right,
    /// An error with these parts.
    Error(&'static [&'static str]),
}

use Expect::{Error, Right};

pub(crate) struct Case {
    name: &'static str,
    file: &'static str,
    script: Box<dyn Script>,
    expect: Expect,
    limits: HubLimits,
    /// How often it may ask.
    most_requests: usize,
}

/// A server that misbehaves for the first `times` requests of a kind, and is good otherwise.
pub(crate) fn case(
    name: &'static str,
    file: &'static str,
    (kind, times): (fn(&Request) -> bool, usize),
    misbehave: impl Fn(&Request, &mut TcpStream) -> Result<()> + Send + Sync + 'static,
    expect: Expect,
) -> Case {
    let (hub, left) = (hub(), AtomicUsize::new(times));
    let script = move |request: &Request, stream: &mut TcpStream| {
        let take = |left: usize| left.checked_sub(1);
        let hit = kind(request)
            && left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, take)
                .is_ok();
        if hit {
            misbehave(request, stream)
        } else {
            hub.answer(request, stream)
        }
    };
    Case {
        name,
        file,
        script: Box::new(script),
        expect,
        limits: limits(),
        most_requests: 20,
    }
}

/// A server whose answers to a kind of requests are always the same.
pub(crate) fn fixed(
    name: &'static str,
    file: &'static str,
    kind: fn(&Request) -> bool,
    head: &str,
    body: &[u8],
    expect: Expect,
) -> Case {
    let (head, body) = (head.to_owned(), body.to_vec());
    let answer = move |_: &Request, stream: &mut TcpStream| send(stream, &head, &body);
    case(name, file, (kind, usize::MAX), answer, expect)
}

impl Case {
    pub(crate) fn with_limits(mut self, change: fn(&mut HubLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// What is final is asked for once.
    pub(crate) fn asking(mut self, most: usize) -> Self {
        self.most_requests = most;
        self
    }

    fn run(self) {
        let (world, hub) = (World::new(), hub());
        let server = Server::start(self.script);
        let options = world.options(&server).with_limits(self.limits);
        match (world.fetch(&options, self.file), self.expect) {
            (Ok(found), Right) => assert!(found == hub.files[self.file], "{}: wrong", self.name),
            (Ok(_), Error(parts)) => panic!("{}: {parts:?} was expected", self.name),
            (Err(message), Right) => panic!("{}: {message}", self.name),
            (Err(message), Error(parts)) => {
                assert!(!message.contains('\u{1b}'), "{}: {message:?}", self.name);
                for part in parts.iter().chain([&self.file]) {
                    let name = self.name;
                    assert!(
                        message.contains(part),
                        "{name}: \"{part}\" is not in:\n{message}"
                    );
                }
            }
        }
        let asked = server.requests().len();
        assert!(
            asked <= self.most_requests,
            "{}: asked {asked} times",
            self.name
        );
        drop(server);
        world.assert_recovers(&hub, self.file);
    }
}

/// Runs them side by side: most of the time they wait.
pub(crate) fn run(cases: Vec<Case>) {
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| case.run());
        }
    });
}

pub(crate) const FILE: fn(&Request) -> bool = is_for_file;
pub(crate) const STORAGE: fn(&Request) -> bool = is_for_storage;
pub(crate) const ANY: fn(&Request) -> bool = |_| true;
pub(crate) const REST: fn(&Request) -> bool = |request| request.from().is_some();
pub(crate) const ALL_OF_STORAGE: fn(&Request) -> bool =
    |request| is_for_storage(request) && request.from().is_none();
pub(crate) const ALWAYS: usize = usize::MAX;

/// A file of the hub with a name for its content that the server chose.
pub(crate) fn named(etag: &str) -> String {
    format!("200 OK\r\nX-Repo-Commit: {COMMIT}\r\nETag: {etag}")
}

/// The hub's answer for the large file, by a digest and a size that the server chose.
pub(crate) fn linked(etag: &str, size: Option<&str>) -> String {
    let size = size.map_or_else(String::new, |size| format!("\r\nX-Linked-Size: {size}"));
    format!(
        "302 Found\r\nX-Repo-Commit: {COMMIT}\r\nLocation: /lfs/{LARGE}\r\n\
         X-Linked-Etag: \"{etag}\"{size}"
    )
}

/// The start of the large file, and then nothing.
pub(crate) fn half(stream: &mut TcpStream) -> Result<()> {
    let whole = &hub().files[LARGE];
    let bytes = message("200 OK", whole);
    stream.write_all(&bytes[..bytes.len() - whole.len() / 2])
}
