//! Servers that misbehave: nothing outside the cache, nothing wrong in it, an error that says what
//! is wrong, in time, and the right file from the next good server.

use std::io::{Result, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cascade_hub::HubLimits;

use crate::cases::Expect::{Error, Right};
use crate::cases::{
    ALL_OF_STORAGE, ALWAYS, ANY, Case, FILE, LARGE, REST, SMALL, STORAGE, case, fixed, half, hub,
    linked, named, run,
};
use crate::good_hub::{COMMIT, Hub, NEXT, git_sha1, is_for_file, is_for_storage};
use crate::test_server::{
    Request, Server, be_silent, message, ranged, send, send_chunk, send_chunked_head, sha256,
};
use crate::world::{World, assert_parts, limits};

type Parts = &'static [&'static str];

/// A small file that comes with that head and content, and is refused.
fn small(name: &'static str, head: &str, body: &[u8], parts: Parts) -> Case {
    fixed(name, SMALL, FILE, head, body, Error(parts))
}

/// A storage that answers for the large file so, which is refused.
fn stored(name: &'static str, head: &str, body: &[u8], parts: Parts) -> Case {
    fixed(name, LARGE, STORAGE, head, body, Error(parts))
}

#[test]
#[rustfmt::skip]
fn names_are_not_paths() {
    let evil = b"evil";
    let absolute = std::env::temp_dir().join("evil-of-the-hub");
    let absolute_name = format!("\"{}\"", absolute.display());
    let etag = |name, etag: &str, parts| small(name, &named(etag), evil, parts);
    let commit = |name, commit: &str, parts| {
        let head = format!("200 OK\r\nX-Repo-Commit: {commit}\r\nETag: \"{}\"", git_sha1(evil));
        small(name, &head, evil, parts)
    };
    let climbs = linked("../../../../evil", Some("4"));
    run(vec![
        etag("an absolute ETag", &absolute_name, &["ETag", "cannot be the name of a file"]).asking(1),
        etag("an ETag that climbs", "\"../../../../evil\"", &["ETag", "../../../../evil"]),
        etag("a weak ETag that climbs", "W/\"../../../evil\"", &["ETag"]),
        etag("an ETag that is the name of another's part", "\"abcdef.incomplete\"", &["ETag"]),
        fixed("a linked ETag that climbs", LARGE, FILE, &climbs, b"", Error(&["ETag"])),
        etag("an empty ETag", "\"\"", &["ETag"]),
        etag("an ETag with a terminal's commands", "\"\u{1b}[2Jabcdef\"", &[]),
        etag("two ETags", "\"abcdef\"\r\nETag: \"fedcba\"", &["two different headers", "etag"]),
        commit("a commit that climbs", "../../../../evil", &["calls the commit", "../../../../evil"]),
        commit("an absolute commit", "/tmp/evil", &["calls the commit"]),
        commit("an endless commit", &"a".repeat(5000), &["calls the commit", "…"]),
    ]);
    assert!(!absolute.exists());
}

#[test]
#[rustfmt::skip]
fn sizes_and_digests_are_checked() {
    let hub = hub();
    let (content, large) = (&hub.files[SMALL], &hub.files[LARGE]);
    let wrong = |bytes: &[u8]| [&[bytes[0] ^ 1], &bytes[1..]].concat();
    let right_name = named(&format!("\"{}\"", git_sha1(content)));
    let gzip = format!("{right_name}\r\nContent-Encoding: gzip");
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 40000\n",
        sha256(large)
    );
    let pointer_name = named(&format!("\"{}\"", git_sha1(pointer.as_bytes())));
    let size = |name, size, parts| {
        fixed(name, LARGE, FILE, &linked(&sha256(large), Some(size)), b"", Error(parts))
    };
    let longer = [large.as_slice(), b"more"].concat();
    run(vec![
        stored("another content", "200 OK", &wrong(large), &["SHA-256", "nothing of it was kept"]),
        small("another small content", &right_name, &wrong(content), &["Git's SHA-1"]),
        stored("a short file", "200 OK", &large[..30_000], &["announced 40000 bytes, and 30000"]),
        stored("a long file", "200 OK", &longer, &["announced 40000 bytes, and 40004"]),
        stored("an empty file", "200 OK", b"", &["and 0 were"]),
        size("a negative size", "-1", &["x-linked-size \"-1\""]),
        size("a size without end", "99999999999999999999999", &["x-linked-size"]),
        stored("two sizes", "200 OK\r\nContent-Length: 5", large, &[]),
        small("a pointer to the file", &pointer_name, pointer.as_bytes(), &["Git LFS pointer", "oid sha256:"]),
        small("compressed", &gzip, b"\x1f\x8b\x08", &["compressed it (gzip)"]),
        case("compressed by the storage", LARGE, (STORAGE, ALWAYS), |request, stream| {
            assert_eq!(request.header("accept-encoding"), Some("identity"));
            send(stream, "200 OK\r\nContent-Encoding: br", b"...")
        }, Error(&["compressed it (br)"])),
        case("longer than announced, in chunks", LARGE, (STORAGE, ALWAYS), |_, stream| {
            send_chunked_head(stream, "200 OK")?;
            without_end(|| send_chunk(stream, &[7; 10_000]))
        }, Error(&["longer than the 40000 bytes"])),
        case("endless, without a size", SMALL, (FILE, ALWAYS), |_, stream| {
            send_chunked_head(stream, &named("\"abcdef\""))?;
            without_end(|| send_chunk(stream, &[7; 100_000]))
        }, Error(&["longer than 1048576 bytes"])),
        case("endless, without anything", SMALL, (FILE, ALWAYS), |_, stream| {
            stream.write_all(format!("HTTP/1.1 {}\r\n\r\n", named("\"abcdef\"")).as_bytes())?;
            without_end(|| stream.write_all(&[7; 100_000]))
        }, Error(&["neither size nor digest"])),
        case("a list of files without an end", SMALL, (ANY, ALWAYS), |request, stream| {
            if is_for_file(request) {
                return send(stream, "200 OK\r\nETag: \"abcdef\"", b"x");
            }
            send_chunked_head(stream, "200 OK")?;
            without_end(|| send_chunk(stream, &[b' '; 100_000]))
        }, Error(&["longer than 1048576 bytes"])).with_limits(|limits| limits.listing = 1 << 20),
        case("chunks without a size, and right", LARGE, (ANY, ALWAYS), |request, stream| {
            let large = large_file();
            if is_for_file(request) {
                return send(stream, &linked(&sha256(&large), None), b"");
            }
            send_chunked_head(stream, "200 OK")?;
            large.chunks(7_000).try_for_each(|chunk| send_chunk(stream, chunk))?;
            send_chunk(stream, b"")
        }, Right),
    ]);
}

fn without_end(mut send: impl FnMut() -> Result<()>) -> Result<()> {
    loop {
        send()?;
    }
}

fn large_file() -> Vec<u8> {
    hub().files[LARGE].clone()
}

#[test]
#[rustfmt::skip]
fn redirects_end() {
    let to = |name, location: &str, parts| {
        small(name, &format!("302 Found\r\nLocation: {location}"), b"", parts)
    };
    let count = AtomicUsize::new(0);
    run(vec![
        case("a circle", SMALL, (ANY, ALWAYS), |request, stream| {
            let next = if request.path == "/a" { "/b" } else { "/a" };
            send(stream, &format!("302 Found\r\nLocation: {next}"), b"")
        }, Error(&["redirects in a circle", "/a -> "])).asking(4),
        case("ever new places", SMALL, (ANY, ALWAYS), move |_, stream| {
            let next = count.fetch_add(1, Ordering::SeqCst);
            send(stream, &format!("307 Moved\r\nLocation: /{next}"), b"")
        }, Error(&["redirects more than 5 times", "/0 -> "])).asking(6),
        to("itself", &format!("/datasets/org/name/resolve/main/{SMALL}"), &["circle"]).asking(1),
        to("a file of this machine", "file:///etc/passwd", &["redirects to \"file:///etc/passwd\""]).asking(1),
        small("nowhere", "302 Found", b"", &["a redirect to nowhere"]),
        to("a host that is not there", "http://127.0.0.1:1/x", &["http://127.0.0.1:1"]),
        to("with a user name", "http://hub@evil.example/", &["redirects to"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn silence_ends() {
    const SHORT: Duration = Duration::from_millis(200);
    let soon = |limits: &mut HubLimits| {
        (limits.answer, limits.read, limits.retries) = (SHORT, SHORT, 1);
    };
    fn drip(stream: &mut TcpStream) -> Result<()> {
        without_end(|| {
            std::thread::sleep(Duration::from_millis(10));
            stream.write_all(b"x")
        })
    }
    fn begin(stream: &mut TcpStream, length: usize) -> Result<()> {
        let head = named("\"abcdef\"");
        stream.write_all(format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n").as_bytes())
    }
    let half_of_it = |_: &Request, stream: &mut TcpStream| half(stream).and_then(|()| be_silent(stream));
    run(vec![
        case("says nothing", SMALL, (FILE, ALWAYS), |_, stream| be_silent(stream),
            Error(&["cannot reach", "sent nothing for 200ms", "HF_HUB_DOWNLOAD_TIMEOUT"]))
            .with_limits(|limits| limits.read = SHORT),
        case("says nothing, of two limits the other", SMALL, (FILE, ALWAYS), |_, stream| be_silent(stream),
            Error(&["cannot reach", "did not answer within 200ms", "HF_HUB_ETAG_TIMEOUT"]))
            .with_limits(|limits| limits.answer = SHORT),
        case("drips a header", SMALL, (FILE, ALWAYS), |_, stream| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ")?;
            drip(stream)
        }, Error(&["did not answer within 200ms"])).with_limits(|limits| limits.answer = SHORT),
        case("sends a header and no body", SMALL, (FILE, ALWAYS), |_, stream| {
            begin(stream, 9)?;
            be_silent(stream)
        }, Error(&["sent nothing for 200ms", "in the last of 2 attempts"])).with_limits(soon),
        case("stops in the middle", LARGE, (STORAGE, ALWAYS), half_of_it,
            Error(&["sent nothing for 200ms"])).with_limits(soon),
        case("stops in the middle, once", LARGE, (STORAGE, 1), half_of_it, Right)
            .with_limits(|limits| (limits.read, limits.retries) = (Duration::from_millis(500), 5)),
        case("drips a body", SMALL, (FILE, ALWAYS), |_, stream| {
            begin(stream, 1_000_000)?;
            drip(stream)
        }, Error(&["sent "])).with_limits(|limits| (limits.read, limits.retries) = (SHORT / 2, 0)),
    ]);
}

#[test]
#[rustfmt::skip]
fn hostile_answers() {
    let many: String = (0..5000).map(|i| format!("\r\nX-{i}: {i}")).collect();
    let garbage = |_: &Request, stream: &mut TcpStream| stream.write_all(b"\x16\x03\x01\0SSH-2.0\r\n\r\n");
    let page = b"<html>Please log in</html>";
    let part = format!(
        "206 Partial Content\r\nX-Repo-Commit: {COMMIT}\r\nETag: \"abcdef\"\r\nContent-Range: bytes 5-8/20"
    );
    run(vec![
        case("no HTTP", SMALL, (ANY, ALWAYS), garbage, Error(&["cannot reach"])),
        small("a megabyte of headers", &format!("200 OK\r\nX: {}", "x".repeat(1 << 20)), b"", &["cannot reach"]),
        small("5000 headers", &format!("200 OK{many}"), b"", &["cannot reach"]),
        small("unreadable headers", "200 OK\r\nETag: \"\u{e9}\u{e9}\u{e9}abc\"", b"", &["an unreadable etag"]),
        fixed("a login page", SMALL, ANY, "200 OK\r\nContent-Type: text/html", page,
            Error(&["cannot reach", "not that of a hub", "no ETag"])).asking(1),
        fixed("a login page with an ETag", SMALL, ANY, "200 OK\r\nETag: \"abcdef\"", page,
            Error(&["not that of a hub", "X-Repo-Commit"])),
        small("a part that nobody asked for", &part, b"part", &["a part came"]),
        small("a part without a range", "206 Partial Content\r\nETag: \"abcdef\"", b"part", &["content-range"]),
        small("no such range", "416 Range Not Satisfiable", b"", &["a part came"]),
        stored("a storage that forbids", "403 Forbidden", b"", &["HTTP status 403"]).asking(2),
        // It is the hub that knows which files there are.
        stored("a storage that has nothing", "404 Not Found", b"", &["404"]),
        small("a teapot", "418 Teapot\r\nX-Error-Message: I am one", b"",
            &["downloading", "HTTP status 418", "(I am one)", "try again"]).asking(1),
        small("nothing at all", "204 No Content", b"", &["204"]),
    ]);
}

#[test]
#[rustfmt::skip]
fn what_passes_is_waited_for() {
    let cut = |_: &Request, _: &mut TcpStream| Ok(());
    let busy = |name, file, times, head: &'static str, expect| {
        let kind = if file == SMALL { FILE } else { STORAGE };
        case(name, file, (kind, times), move |_: &Request, stream: &mut TcpStream| send(stream, head, b""), expect)
    };
    run(vec![
        case("hangs up twice", SMALL, (FILE, 2), cut, Right),
        case("the storage hangs up twice", LARGE, (STORAGE, 2), cut, Right),
        case("hangs up always", SMALL, (FILE, ALWAYS), cut, Error(&["cannot reach", "in the last of 3 attempts"])).asking(3),
        busy("is busy for a second", SMALL, 1, "429 Too Many Requests\r\nRetry-After: 1", Right).asking(2),
        busy("is busy until tomorrow", SMALL, ALWAYS, "429 Too Many Requests\r\nRetry-After: 86400",
            Error(&["cannot reach", "429", "come back in 86400 s"])).asking(1),
        busy("is busy for ever", SMALL, ALWAYS, "429 Too Many Requests", Error(&["429", "3 attempts"])).asking(3),
        busy("fails twice", SMALL, 2, "500 Oh", Right),
        busy("the storage fails twice", LARGE, 2, "503 Oh\r\nRetry-After: 0", Right),
        busy("the gateway fails twice", LARGE, 2, "502 Oh", Right),
        busy("fails for good", SMALL, ALWAYS, "504 Oh", Error(&["cannot reach", "504", "HF_ENDPOINT"])).asking(3),
        busy("cannot do it", SMALL, ALWAYS, "501 Oh", Error(&["501"])).asking(1),
    ]);
}

#[test]
#[rustfmt::skip]
fn halves_are_completed_or_thrown_away() {
    let cut = |_: &Request, stream: &mut TcpStream| half(stream);
    // The first answer is half of the file in each: what comes when the rest is asked for?
    let rest = |name, answer: fn(&Request, &mut TcpStream) -> Result<()>, expect| {
        let first = AtomicUsize::new(0);
        case(name, LARGE, (STORAGE, ALWAYS), move |request, stream| match request.from() {
            None if first.fetch_add(1, Ordering::SeqCst) == 0 => half(stream),
            None => hub().answer(request, stream),
            Some(_) => answer(request, stream),
        }, expect)
    };
    fn another(request: &Request, stream: &mut TcpStream, length: usize) -> Result<()> {
        let (head, body) = ranged(request, "", &vec![7; length]);
        send(stream, &head, &body)
    }
    fn from(stream: &mut TcpStream, from: usize, range: &str) -> Result<()> {
        send(stream, &format!("206 Partial Content{range}"), &large_file()[from..])
    }
    run(vec![
        case("cut once", LARGE, (STORAGE, 1), cut, Right),
        case("cut whenever all is asked for", LARGE, (ALL_OF_STORAGE, ALWAYS), cut, Right),
        case("the rest never comes", LARGE, (STORAGE, ALWAYS), cut, Error(&["attempts"])),
        rest("all of it", |_, stream| send(stream, "200 OK", &large_file()), Right),
        rest("the rest from another byte on", |request, stream| {
            let begin = request.from().unwrap() + 5;
            from(stream, begin, &format!("\r\nContent-Range: bytes {begin}-39999/40000"))
        }, Right),
        rest("the rest of another file", |request, stream| another(request, stream, 40_000), Right),
        rest("the rest of a longer file", |request, stream| another(request, stream, 50_000), Right),
        rest("a rest without a range", |request, stream| from(stream, request.from().unwrap(), ""), Right),
        rest("a range that contradicts itself", |request, stream| {
            from(stream, request.from().unwrap(), "\r\nContent-Range: bytes 20000-10000/40000")
        }, Right),
        rest("no such range", |_, stream| send(stream, "416 Range Not Satisfiable", b""), Right),
        rest("a status for it", |_, stream| send(stream, "410 Gone", b""), Error(&["410"])),
        case("no ranges and cut twice", LARGE, (REST, ALWAYS), |_, stream| send(stream, "200 OK", &large_file()), Right),
    ]);
}

#[test]
fn what_an_earlier_run_left_is_not_trusted() {
    let hub = hub();
    let large = &hub.files[LARGE];
    let mut damaged = large[..20_000].to_vec();
    damaged[0] ^= 1;
    let too_long = [large.as_slice(), b"more"].concat();
    let mut full = large.clone();
    full[5] ^= 1;
    for (name, left) in [
        ("a good half", &large[..20_000]),
        ("all of it", large.as_slice()),
        ("a damaged half", damaged.as_slice()),
        ("too much", too_long.as_slice()),
        ("damaged, of the right size", full.as_slice()),
    ] {
        let world = World::new();
        std::fs::create_dir_all(world.blobs()).unwrap();
        let part = world.blobs().join(format!("{}.incomplete", sha256(large)));
        std::fs::write(&part, left).unwrap();
        world.assert_recovers(&hub, LARGE);
        assert!(!part.exists(), "{name}");
    }
    // Content that was damaged later is noticed when a snapshot needs it again.
    let world = World::new();
    std::fs::create_dir_all(world.blobs()).unwrap();
    std::fs::write(world.blobs().join(sha256(large)), &full).unwrap();
    world.assert_recovers(&hub, LARGE);
}

#[test]
fn a_hub_that_names_another_commit() {
    let world = World::new();
    let hub = hub();
    let server = Server::start(move |request, stream| {
        let (head, body) = hub.reply(request);
        send(stream, &head.replace(COMMIT, NEXT), &body)
    });
    let options = world.options(&server);
    let message = world.fetch_of(Some(COMMIT), &options, SMALL).unwrap_err();
    assert_parts(
        &message,
        &["calls the commit", NEXT, COMMIT, "was asked for"],
    );
}

/// Whatever byte is the last that comes, of the first answer or of all.
#[test]
fn disconnects_at_every_byte() {
    let hub = hub();
    let path = format!("/datasets/org/name/resolve/main/{SMALL}");
    let headers = Default::default();
    let (head, body) = hub.reply(&Request { path, headers });
    let bytes = message(&head, &body);
    // Side by side: most of the time they wait for the disk.
    const WORKERS: usize = 8;
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (hub, bytes) = (&hub, &bytes);
            scope.spawn(move || {
                let world = World::new();
                for end in (worker..bytes.len()).step_by(WORKERS) {
                    disconnect(&world, hub, bytes, end, false);
                    disconnect(&world, hub, bytes, end, true);
                }
                world.assert_recovers(hub, SMALL);
            });
        }
    });
}

fn disconnect(world: &World, hub: &Hub, bytes: &[u8], end: usize, always: bool) {
    let (answered, given) = (AtomicUsize::new(0), hub.clone());
    let start = bytes[..end].to_vec();
    let server = Server::start(move |request: &Request, stream: &mut TcpStream| {
        if always || answered.fetch_add(1, Ordering::SeqCst) == 0 {
            stream.write_all(&start)
        } else {
            given.answer(request, stream)
        }
    });
    match world.fetch(&world.options(&server), SMALL) {
        Ok(found) => assert!(found == hub.files[SMALL], "wrong after {end} bytes"),
        Err(message) => assert!(always, "after {end} bytes: {message}"),
    }
    for folder in ["blobs", "snapshots"] {
        let repo = world.cache().join("datasets--org--name");
        let _ = std::fs::remove_dir_all(repo.join(folder));
    }
}

/// Disconnects within the rest of a file, at some bytes.
#[test]
fn disconnects_while_the_rest_comes() {
    let hub = hub();
    for step in [1, 1000, 7777, 19_999] {
        let world = World::new();
        let given = hub.clone();
        let server = Server::start(move |request: &Request, stream: &mut TcpStream| {
            if !is_for_storage(request) {
                return given.answer(request, stream);
            }
            let (head, body) = given.reply(request);
            let bytes = message(&head, &body);
            let end = bytes.len() - body.len() + step.min(body.len());
            stream.write_all(&bytes[..end])
        });
        let mut limits = limits();
        limits.retries = 60;
        limits.longest_wait = limits.backoff;
        let options = world.options(&server).with_limits(limits);
        match world.fetch(&options, LARGE) {
            Ok(found) => assert!(found == hub.files[LARGE]),
            Err(message) => assert_parts(&message, &["in the last of 61 attempts"]),
        }
        world.assert_recovers(&hub, LARGE);
    }
}
