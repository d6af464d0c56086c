//! Servers that misbehave: nothing outside the cache, nothing wrong in it, an error that says what
//! is wrong, in time, and the right file from the next good server.

use std::io::{Result, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cascade_hub::HubLimits;
use cascade_test_server::{
    be_silent, git_sha1, message, ranged, send, send_chunk, send_chunked_head, sha256, Request,
    Server,
};

use crate::cases::Expect::{self, Error, Right};
use crate::cases::{
    case, fixed, half, hub, named, run, ALL_OF_STORAGE, ALWAYS, FILE, LARGE, REST, SMALL, STORAGE,
};
use crate::good_hub::{is_for_file, is_for_storage, Hub, COMMIT, NEXT};
use crate::world::{assert_parts, limits, World};

#[test]
fn names_are_not_paths() {
    let evil = b"evil";
    let absolute = std::env::temp_dir().join("evil-of-the-hub");
    let absolute_name = named(&format!("\"{}\"", absolute.display()));
    let large = |etag: &str| {
        format!(
            "302 Found\r\nX-Repo-Commit: {COMMIT}\r\nLocation: /lfs/{LARGE}\r\n\
             X-Linked-Etag: \"{etag}\"\r\nX-Linked-Size: 4"
        )
    };
    let commit = |commit: &str| {
        let etag = git_sha1(evil);
        format!("200 OK\r\nX-Repo-Commit: {commit}\r\nETag: \"{etag}\"")
    };
    let no_name: Expect = Error(&["ETag", "cannot be the name of a file"]);
    run(vec![
        fixed(
            "an absolute ETag",
            SMALL,
            FILE,
            &absolute_name,
            evil,
            no_name,
        )
        .asking(1),
        fixed(
            "an ETag that climbs",
            SMALL,
            FILE,
            &named("\"../../../../evil\""),
            evil,
            Error(&["ETag", "../../../../evil"]),
        ),
        fixed(
            "a weak ETag that climbs",
            SMALL,
            FILE,
            &named("W/\"../../../evil\""),
            evil,
            Error(&["ETag"]),
        ),
        fixed(
            "an ETag that is the name of another's part",
            SMALL,
            FILE,
            &named("\"abcdef.incomplete\""),
            evil,
            Error(&["ETag"]),
        ),
        fixed(
            "a linked ETag that climbs",
            LARGE,
            FILE,
            &large("../../../../evil"),
            b"",
            Error(&["ETag"]),
        ),
        fixed(
            "an empty ETag",
            SMALL,
            FILE,
            &named("\"\""),
            evil,
            Error(&["ETag"]),
        ),
        fixed(
            "an ETag with a terminal's commands",
            SMALL,
            FILE,
            &named("\"\u{1b}[2Jabcdef\""),
            evil,
            Error(&[]),
        ),
        fixed(
            "two ETags",
            SMALL,
            FILE,
            &named("\"abcdef\"\r\nETag: \"fedcba\""),
            evil,
            Error(&["two different headers", "etag"]),
        ),
        fixed(
            "a commit that climbs",
            SMALL,
            FILE,
            &commit("../../../../evil"),
            evil,
            Error(&["calls the commit", "../../../../evil"]),
        ),
        fixed(
            "an absolute commit",
            SMALL,
            FILE,
            &commit("/tmp/evil"),
            evil,
            Error(&["calls the commit"]),
        ),
        fixed(
            "an endless commit",
            SMALL,
            FILE,
            &commit(&"a".repeat(5000)),
            evil,
            Error(&["calls the commit", "…"]),
        ),
    ]);
    assert!(!absolute.exists());
}

#[test]
fn sizes_and_digests_are_checked() {
    let hub = hub();
    let (small, large) = (&hub.files[SMALL], &hub.files[LARGE]);
    let mut wrong = large.clone();
    wrong[39_999] ^= 1;
    let mut wrong_small = small.clone();
    wrong_small[0] ^= 1;
    let right_name = named(&format!("\"{}\"", git_sha1(small)));
    let pointer = format!(
        "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 40000\n",
        sha256(large)
    );
    let linked = |size: &str| {
        format!(
            "302 Found\r\nX-Repo-Commit: {COMMIT}\r\nLocation: /lfs/{LARGE}\r\n\
             X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {size}",
            sha256(large)
        )
    };
    let longer = [large.as_slice(), b"more"].concat();
    run(vec![
        fixed(
            "another content",
            LARGE,
            STORAGE,
            "200 OK",
            &wrong,
            Error(&["SHA-256", "nothing of it was kept"]),
        ),
        fixed(
            "another small content",
            SMALL,
            FILE,
            &right_name,
            &wrong_small,
            Error(&["Git's SHA-1"]),
        ),
        fixed(
            "a short file",
            LARGE,
            STORAGE,
            "200 OK",
            &large[..30_000],
            Error(&["announced 40000 bytes, and 30000"]),
        ),
        fixed(
            "a long file",
            LARGE,
            STORAGE,
            "200 OK",
            &longer,
            Error(&["announced 40000 bytes, and 40004"]),
        ),
        fixed(
            "an empty file",
            LARGE,
            STORAGE,
            "200 OK",
            b"",
            Error(&["and 0 were"]),
        ),
        fixed(
            "a negative size",
            LARGE,
            FILE,
            &linked("-1"),
            b"",
            Error(&["x-linked-size \"-1\""]),
        ),
        fixed(
            "a size without end",
            LARGE,
            FILE,
            &linked("99999999999999999999999"),
            b"",
            Error(&["x-linked-size"]),
        ),
        fixed(
            "two sizes",
            LARGE,
            STORAGE,
            "200 OK\r\nContent-Length: 5",
            large,
            Error(&[]),
        ),
        fixed(
            "a pointer to the file",
            SMALL,
            FILE,
            &named(&format!("\"{}\"", git_sha1(pointer.as_bytes()))),
            pointer.as_bytes(),
            Error(&["Git LFS pointer", "oid sha256:"]),
        ),
        fixed(
            "compressed",
            SMALL,
            FILE,
            &format!("{right_name}\r\nContent-Encoding: gzip"),
            b"\x1f\x8b\x08",
            Error(&["compressed it (gzip)"]),
        ),
        case(
            "compressed by the storage",
            LARGE,
            (STORAGE, ALWAYS),
            |request, stream| {
                assert_eq!(request.header("accept-encoding"), Some("identity"));
                send(stream, "200 OK\r\nContent-Encoding: br", b"...")
            },
            Error(&["compressed it (br)"]),
        ),
        case(
            "longer than announced, in chunks",
            LARGE,
            (STORAGE, ALWAYS),
            |_, stream| {
                send_chunked_head(stream, "200 OK")?;
                loop {
                    send_chunk(stream, &[7; 10_000])?;
                }
            },
            Error(&["longer than the 40000 bytes"]),
        ),
        case(
            "endless, without a size",
            SMALL,
            (FILE, ALWAYS),
            |_, stream| {
                send_chunked_head(stream, &named("\"abcdef\""))?;
                loop {
                    send_chunk(stream, &[7; 100_000])?;
                }
            },
            Error(&["longer than 1048576 bytes"]),
        ),
        case(
            "endless, without anything",
            SMALL,
            (FILE, ALWAYS),
            |_, stream| {
                let head = named("\"abcdef\"");
                stream.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes())?;
                loop {
                    stream.write_all(&[7; 100_000])?;
                }
            },
            Error(&["neither size nor digest"]),
        ),
        case(
            "a list of files without an end",
            SMALL,
            (
                |request| request.path.contains("/api/") || is_for_file(request),
                ALWAYS,
            ),
            |request, stream| {
                if is_for_file(request) {
                    return send(stream, "200 OK\r\nETag: \"abcdef\"", b"x");
                }
                send_chunked_head(stream, "200 OK")?;
                loop {
                    send_chunk(stream, &[b' '; 100_000])?;
                }
            },
            Error(&["longer than 1048576 bytes"]),
        )
        .with_limits(|limits| limits.listing = 1 << 20),
        case(
            "chunks without a size, and right",
            LARGE,
            (|_| true, ALWAYS),
            |request, stream| {
                let hub = crate::cases::hub();
                let large = &hub.files[LARGE];
                if is_for_file(request) {
                    let head = format!(
                        "302 Found\r\nX-Repo-Commit: {COMMIT}\r\nLocation: /lfs/{LARGE}\r\n\
                         X-Linked-Etag: \"{}\"",
                        sha256(large)
                    );
                    return send(stream, &head, b"");
                }
                send_chunked_head(stream, "200 OK")?;
                for chunk in large.chunks(7_000) {
                    send_chunk(stream, chunk)?;
                }
                send_chunk(stream, b"")
            },
            Right,
        ),
    ]);
}

#[test]
fn redirects_end() {
    let to = |location: &str| format!("302 Found\r\nLocation: {location}");
    let count = AtomicUsize::new(0);
    run(vec![
        case(
            "a circle",
            SMALL,
            (|_| true, ALWAYS),
            |request, stream| {
                let next = if request.path == "/a" { "/b" } else { "/a" };
                send(stream, &format!("302 Found\r\nLocation: {next}"), b"")
            },
            Error(&["redirects in a circle", "/a -> "]),
        )
        .asking(4),
        case(
            "ever new places",
            SMALL,
            (|_| true, ALWAYS),
            move |_, stream| {
                let next = count.fetch_add(1, Ordering::SeqCst);
                send(stream, &format!("307 Moved\r\nLocation: /{next}"), b"")
            },
            Error(&["redirects more than 5 times", "/0 -> "]),
        )
        .asking(6),
        fixed(
            "itself",
            SMALL,
            FILE,
            &to(&format!("/datasets/org/name/resolve/main/{SMALL}")),
            b"",
            Error(&["circle"]),
        )
        .asking(1),
        fixed(
            "a file of this machine",
            SMALL,
            FILE,
            &to("file:///etc/passwd"),
            b"",
            Error(&["redirects to \"file:///etc/passwd\""]),
        )
        .asking(1),
        fixed(
            "nowhere",
            SMALL,
            FILE,
            "302 Found",
            b"",
            Error(&["a redirect to nowhere"]),
        ),
        fixed(
            "a host that is not there",
            SMALL,
            FILE,
            &to("http://127.0.0.1:1/x"),
            b"",
            Error(&["http://127.0.0.1:1"]),
        ),
        fixed(
            "with a user name",
            SMALL,
            FILE,
            &to("http://hub@evil.example/"),
            b"",
            Error(&["redirects to"]),
        ),
    ]);
}

#[test]
fn silence_ends() {
    let soon = |limits: &mut HubLimits| {
        limits.answer = Duration::from_millis(200);
        limits.read = Duration::from_millis(200);
        limits.retries = 1;
    };
    let drip = |stream: &mut TcpStream| -> Result<()> {
        loop {
            stream.write_all(b"x")?;
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    run(vec![
        case(
            "says nothing",
            SMALL,
            (FILE, ALWAYS),
            |_, stream| be_silent(stream),
            Error(&[
                "cannot reach",
                "sent nothing for 200ms",
                "HF_HUB_DOWNLOAD_TIMEOUT",
            ]),
        )
        .with_limits(|limits| limits.read = Duration::from_millis(200)),
        case(
            "says nothing, of two limits the other",
            SMALL,
            (FILE, ALWAYS),
            |_, stream| be_silent(stream),
            Error(&[
                "cannot reach",
                "did not answer within 200ms",
                "HF_HUB_ETAG_TIMEOUT",
            ]),
        )
        .with_limits(|limits| limits.answer = Duration::from_millis(200)),
        case(
            "drips a header",
            SMALL,
            (FILE, ALWAYS),
            move |_, stream| {
                stream.write_all(b"HTTP/1.1 200 OK\r\nX-Slow: ")?;
                drip(stream)
            },
            Error(&["did not answer within 200ms"]),
        )
        .with_limits(|limits| limits.answer = Duration::from_millis(200)),
        case(
            "sends a header and no body",
            SMALL,
            (FILE, ALWAYS),
            |_, stream| {
                let head = named("\"abcdef\"");
                stream.write_all(
                    format!("HTTP/1.1 {head}\r\nContent-Length: 9\r\n\r\n").as_bytes(),
                )?;
                be_silent(stream)
            },
            Error(&["sent nothing for 200ms", "in the last of 2 attempts"]),
        )
        .with_limits(soon),
        case(
            "stops in the middle",
            LARGE,
            (STORAGE, ALWAYS),
            |_, stream| {
                half(stream)?;
                be_silent(stream)
            },
            Error(&["sent nothing for 200ms"]),
        )
        .with_limits(soon),
        case(
            "stops in the middle, once",
            LARGE,
            (STORAGE, 1),
            |_, stream| {
                half(stream)?;
                be_silent(stream)
            },
            Right,
        )
        .with_limits(|limits| {
            limits.read = Duration::from_millis(500);
            limits.retries = 5;
        }),
        case(
            "drips a body",
            SMALL,
            (FILE, ALWAYS),
            move |_, stream| {
                let head = named("\"abcdef\"");
                let head = format!("HTTP/1.1 {head}\r\nContent-Length: 1000000\r\n\r\n");
                stream.write_all(head.as_bytes())?;
                drip(stream)
            },
            Error(&["sent "]),
        )
        .with_limits(|limits| {
            limits.read = Duration::from_millis(100);
            limits.retries = 0;
        }),
    ]);
}

#[test]
fn hostile_answers() {
    let many: String = (0..5000).map(|i| format!("\r\nX-{i}: {i}")).collect();
    let garbage =
        |_: &Request, stream: &mut TcpStream| stream.write_all(b"\x16\x03\x01\0SSH-2.0\r\n\r\n");
    let page = b"<html>Please log in</html>";
    run(vec![
        case("no HTTP", SMALL, (|_| true, ALWAYS), garbage, Error(&["cannot reach"])),
        fixed("a megabyte of headers", SMALL, FILE, &format!("200 OK\r\nX: {}", "x".repeat(1 << 20)), b"", Error(&["cannot reach"])),
        fixed("5000 headers", SMALL, FILE, &format!("200 OK{many}"), b"", Error(&["cannot reach"])),
        fixed("unreadable headers", SMALL, FILE, "200 OK\r\nETag: \"\u{e9}\u{e9}\u{e9}abc\"", b"", Error(&["an unreadable etag"])),
        fixed("a login page", SMALL, |_| true, "200 OK\r\nContent-Type: text/html", page, Error(&["cannot reach", "not that of a hub", "no ETag"])).asking(1),
        fixed("a login page with an ETag", SMALL, |_| true, "200 OK\r\nETag: \"abcdef\"", page, Error(&["not that of a hub", "X-Repo-Commit"])),
        fixed("a part that nobody asked for", SMALL, FILE, &format!("206 Partial Content\r\nX-Repo-Commit: {COMMIT}\r\nETag: \"abcdef\"\r\nContent-Range: bytes 5-8/20"), b"part", Error(&["a part came"])),
        fixed("a part without a range", SMALL, FILE, "206 Partial Content\r\nETag: \"abcdef\"", b"part", Error(&["content-range"])),
        fixed("no such range", SMALL, FILE, "416 Range Not Satisfiable", b"", Error(&["a part came"])),
        fixed("a storage that forbids", LARGE, STORAGE, "403 Forbidden", b"", Error(&["HTTP status 403"])).asking(2),
        // It is the hub that knows which files there are.
        fixed("a storage that has nothing", LARGE, STORAGE, "404 Not Found", b"", Error(&["404"])),
        fixed("a teapot", SMALL, FILE, "418 Teapot\r\nX-Error-Message: I am one", b"", Error(&["downloading", "HTTP status 418", "(I am one)", "try again"])).asking(1),
        fixed("nothing at all", SMALL, FILE, "204 No Content", b"", Error(&["204"])),
    ]);
}

#[test]
fn what_passes_is_waited_for() {
    let cut = |_: &Request, _: &mut TcpStream| Ok(());
    let busy =
        |head: &'static str| move |_: &Request, stream: &mut TcpStream| send(stream, head, b"");
    run(vec![
        case("hangs up twice", SMALL, (FILE, 2), cut, Right),
        case(
            "the storage hangs up twice",
            LARGE,
            (STORAGE, 2),
            cut,
            Right,
        ),
        case(
            "hangs up always",
            SMALL,
            (FILE, ALWAYS),
            cut,
            Error(&["cannot reach", "in the last of 3 attempts"]),
        )
        .asking(3),
        case(
            "is busy for a second",
            SMALL,
            (FILE, 1),
            busy("429 Too Many Requests\r\nRetry-After: 1"),
            Right,
        )
        .asking(2),
        case(
            "is busy until tomorrow",
            SMALL,
            (FILE, ALWAYS),
            busy("429 Too Many Requests\r\nRetry-After: 86400"),
            Error(&["cannot reach", "429", "come back in 86400 s"]),
        )
        .asking(1),
        case(
            "is busy for ever",
            SMALL,
            (FILE, ALWAYS),
            busy("429 Too Many Requests"),
            Error(&["429", "3 attempts"]),
        )
        .asking(3),
        case("fails twice", SMALL, (FILE, 2), busy("500 Oh"), Right),
        case(
            "the storage fails twice",
            LARGE,
            (STORAGE, 2),
            busy("503 Oh\r\nRetry-After: 0"),
            Right,
        ),
        case(
            "the gateway fails twice",
            LARGE,
            (STORAGE, 2),
            busy("502 Oh"),
            Right,
        ),
        case(
            "fails for good",
            SMALL,
            (FILE, ALWAYS),
            busy("504 Oh"),
            Error(&["cannot reach", "504", "HF_ENDPOINT"]),
        )
        .asking(3),
        case(
            "cannot do it",
            SMALL,
            (FILE, ALWAYS),
            busy("501 Oh"),
            Error(&["501"]),
        )
        .asking(1),
    ]);
}

#[test]
fn halves_are_completed_or_thrown_away() {
    let cut = |_: &Request, stream: &mut TcpStream| half(stream);
    // The first answer is half of the file in each: what comes when the rest is asked for?
    let rest = |name, answer: fn(&Request, &mut TcpStream) -> Result<()>, expect| {
        let first = AtomicUsize::new(0);
        case(
            name,
            LARGE,
            (STORAGE, ALWAYS),
            move |request, stream| match request.from() {
                None if first.fetch_add(1, Ordering::SeqCst) == 0 => half(stream),
                None => {
                    let hub = hub();
                    hub.answer(request, stream)
                }
                Some(_) => answer(request, stream),
            },
            expect,
        )
    };
    fn large() -> Vec<u8> {
        hub().files[LARGE].clone()
    }
    run(vec![
        case("cut once", LARGE, (STORAGE, 1), cut, Right),
        case(
            "cut whenever all is asked for",
            LARGE,
            (ALL_OF_STORAGE, ALWAYS),
            cut,
            Right,
        ),
        case(
            "the rest never comes",
            LARGE,
            (STORAGE, ALWAYS),
            cut,
            Error(&["attempts"]),
        ),
        rest(
            "all of it",
            |_, stream| send(stream, "200 OK", &large()),
            Right,
        ),
        rest(
            "the rest from another byte on",
            |request, stream| {
                let from = request.from().unwrap() + 5;
                let head =
                    format!("206 Partial Content\r\nContent-Range: bytes {from}-39999/40000");
                send(stream, &head, &large()[from..])
            },
            Right,
        ),
        rest(
            "the rest of another file",
            |request, stream| {
                let (head, body) = ranged(request, "", &[7; 40_000]);
                send(stream, &head, &body)
            },
            Right,
        ),
        rest(
            "the rest of a longer file",
            |request, stream| {
                let (head, body) = ranged(request, "", &[7; 50_000]);
                send(stream, &head, &body)
            },
            Right,
        ),
        rest(
            "a rest without a range",
            |request, stream| {
                send(
                    stream,
                    "206 Partial Content",
                    &large()[request.from().unwrap()..],
                )
            },
            Right,
        ),
        rest(
            "a range that contradicts itself",
            |request, stream| {
                let head = "206 Partial Content\r\nContent-Range: bytes 20000-10000/40000";
                send(stream, head, &large()[request.from().unwrap()..])
            },
            Right,
        ),
        rest(
            "no such range",
            |_, stream| send(stream, "416 Range Not Satisfiable", b""),
            Right,
        ),
        rest(
            "a status for it",
            |_, stream| send(stream, "410 Gone", b""),
            Error(&["410"]),
        ),
        case(
            "no ranges and cut twice",
            LARGE,
            (REST, ALWAYS),
            |_, stream| send(stream, "200 OK", &large()),
            Right,
        ),
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

/// The same for the rest of a file, at some bytes.
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
