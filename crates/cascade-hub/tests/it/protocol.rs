//! Servers that do it differently, and not wrong: mirrors, moved repositories, and what the cache
//! knows without asking.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use cascade_hub::{HubDataset, HubOptions};

use crate::good_hub::{COMMIT, Hub, git_sha1};
use crate::test_server::{Request, Server, message, ranged, send, sha256};
use crate::world::{World, assert_parts, limits};

fn hub() -> Hub {
    Hub::with(&[
        ("config.json", b"{}"),
        ("data/a b#1.bin", b"weights"),
        ("empty.json", b""),
    ])
}

#[test]
fn the_cache_is_laid_out_as_in_hugging_faces_own_libraries() {
    let server = Server::start(|request, stream| hub().answer(request, stream));
    let world = World::new();
    let options = world.options(&server);
    assert_eq!(world.fetch(&options, "data/a b#1.bin").unwrap(), b"weights");
    assert_eq!(world.fetch(&options, "empty.json").unwrap(), b"");
    let repo = world.cache().join("datasets--org--name");
    assert_eq!(fs::read_to_string(repo.join("refs/main")).unwrap(), COMMIT);
    let blob = sha256(b"weights");
    assert_eq!(
        fs::read(repo.join("blobs").join(&blob)).unwrap(),
        b"weights"
    );
    let link = repo.join("snapshots").join(COMMIT).join("data/a b#1.bin");
    #[cfg(unix)]
    assert_eq!(
        fs::read_link(link).unwrap(),
        std::path::Path::new("../../../blobs").join(&blob)
    );
    let lock = format!(".locks/datasets--org--name/{blob}.lock");
    assert!(world.cache().join(lock).is_file());
    let mut names: Vec<_> = fs::read_dir(repo.join("blobs"))
        .unwrap()
        .flatten()
        .collect();
    names.retain(|name| name.path().extension().is_some());
    assert!(names.is_empty(), "{names:?}");
    // A file that the hub does not have is not asked for twice.
    server.take_paths();
    let mut dataset = HubDataset::new("org/name", Some(COMMIT), &options, false).unwrap();
    for _ in 0..2 {
        let message = dataset.fetch("tokenizer.model").unwrap_err().to_string();
        assert_parts(&message, &["has no tokenizer.model in dataset org/name"]);
    }
    assert_eq!(server.take_paths().len(), 1);
    assert!(
        repo.join(".no_exist")
            .join(COMMIT)
            .join("tokenizer.model")
            .is_file()
    );
    let offline = options.with_offline(true);
    let message = world.fetch(&offline, "tokenizer.model").unwrap_err();
    assert_parts(&message, &["has no tokenizer.model"]);
}

#[test]
fn names_that_leave_the_cache_are_not_asked_for() {
    let server = Server::start(|request, stream| hub().answer(request, stream));
    let world = World::new();
    for name in ["../x", "/etc/passwd", "a\\..\\x", "C:x", "x\0y", ""] {
        let message = world.fetch(&world.options(&server), name).unwrap_err();
        assert_parts(&message, &["has no"]);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn names_in_lists_are_checked() {
    let bad = ["../../evil", "/etc/evil", "a\\b", "C:evil", "a/./b"];
    let good: Vec<&str> = vec!["a/b", "z"];
    let names: Vec<(&str, &[u8])> = bad
        .iter()
        .chain(&good)
        .map(|name| (*name, &b"x"[..]))
        .collect();
    let hub = Hub::with(&names);
    let server = Server::start(move |request, stream| hub.answer(request, stream));
    let world = World::new();
    let options = world.options(&server);
    let mut dataset = HubDataset::new("org/name", None, &options, false).unwrap();
    assert_eq!(dataset.files().unwrap(), good);
    let evil = r#"{"sha": "../../evil", "siblings": []}"#;
    let server = Server::start(|_, stream| send(stream, "200 OK", evil.as_bytes()));
    let options = HubOptions::new(server.url(), world.cache().join("new")).with_limits(limits());
    let mut dataset = HubDataset::new("org/name", None, &options, false).unwrap();
    let message = dataset.files().unwrap_err().to_string();
    assert_parts(&message, &["calls the commit", "../../evil"]);
}

#[test]
fn a_mirror_without_commits_says_them_with_the_list() {
    let server = Server::start(|request: &Request, stream: &mut TcpStream| {
        let (head, body) = hub().reply(request);
        send(stream, &head.replace("X-Repo-Commit", "X-Nothing"), &body)
    });
    let world = World::new();
    assert_eq!(
        world.fetch(&world.options(&server), "config.json").unwrap(),
        b"{}"
    );
    let commit = fs::read_to_string(world.cache().join("datasets--org--name/refs/main")).unwrap();
    assert_eq!(commit, COMMIT);
    // For a commit nobody needs to say it.
    server.take_paths();
    let world = World::new();
    let options = world.options(&server);
    assert_eq!(
        world
            .fetch_of(Some(COMMIT), &options, "config.json")
            .unwrap(),
        b"{}"
    );
    assert_eq!(server.take_paths().len(), 1);
}

#[test]
fn a_mirror_without_either_is_refused() {
    let server = Server::start(|request: &Request, stream: &mut TcpStream| {
        if request.path.starts_with("/api/") {
            send(stream, "404 Not Found", b"")
        } else {
            send(stream, "200 OK\r\nETag: \"abcdef\"", b"{}")
        }
    });
    let world = World::new();
    let message = world
        .fetch(&world.options(&server), "config.json")
        .unwrap_err();
    assert_parts(&message, &["X-Repo-Commit", "name a commit after @"]);
}

/// Sends an answer without its last ten bytes if it is the first.
fn send_cut(stream: &mut TcpStream, bytes: &[u8], first: &AtomicBool) -> std::io::Result<()> {
    let cut = if first.swap(false, Ordering::SeqCst) {
        10
    } else {
        0
    };
    stream.write_all(&bytes[..bytes.len() - cut])
}

/// Files of a web server: ETags that are no digests, no ranges, all of it from the start.
#[test]
fn a_plain_web_server_with_a_commit() {
    let first = AtomicBool::new(true);
    let server = Server::start(move |_: &Request, stream: &mut TcpStream| {
        let bytes = message("200 OK\r\nETag: W/\"65f1c2a0-1b2\"", &[7; 1000]);
        send_cut(stream, &bytes, &first)
    });
    let world = World::new();
    let options = world.options(&server);
    let found = world.fetch_of(Some(COMMIT), &options, "data.bin");
    assert_eq!(found.unwrap(), [7; 1000]);
    assert!(world.blobs().join("65f1c2a0-1b2").is_file());
    let requests = server.requests();
    let mut tokens = requests
        .iter()
        .map(|request| request.header("authorization"));
    assert!(tokens.all(|token| token.is_none()));
}

/// Without a digest, the rest is taken only if it says of which content it is.
#[test]
fn a_rest_without_a_digest_must_be_of_the_same_content() {
    for (of_rest, is_taken) in [("\"65f1c2a0-1b2\"", true), ("\"65f1c2a0-1b3\"", false)] {
        let first = AtomicBool::new(true);
        let server = Server::start(move |request: &Request, stream: &mut TcpStream| {
            let (etag, byte) = match request.from() {
                None => ("\"65f1c2a0-1b2\"", 7),
                Some(_) => (of_rest, 8),
            };
            let (head, body) = ranged(request, &format!("ETag: {etag}"), &[byte; 1000]);
            send_cut(stream, &message(&head, &body), &first)
        });
        let world = World::new();
        let options = world.options(&server);
        let found = world.fetch_of(Some(COMMIT), &options, "data.bin").unwrap();
        let rest = if is_taken { 8 } else { 7 };
        assert_eq!(found, [vec![7; 990], vec![rest; 10]].concat());
    }
}

#[test]
fn a_moved_repository_is_followed() {
    let server = Server::start(|request: &Request, stream: &mut TcpStream| {
        match request.path.strip_prefix("/datasets/old/house") {
            Some(rest) => {
                let head = format!("307 Temporary Redirect\r\nLocation: /datasets/org/name{rest}");
                send(stream, &head, b"")
            }
            None => hub().answer(request, stream),
        }
    });
    let world = World::new();
    let options = HubOptions::new(server.url(), world.cache()).with_limits(limits());
    let mut dataset = HubDataset::new("old/house", None, &options, false).unwrap();
    let path = dataset.fetch("config.json").unwrap();
    assert_eq!(fs::read(path).unwrap(), b"{}");
    let path = dataset.fetch("data/a b#1.bin").unwrap();
    assert_eq!(fs::read(path).unwrap(), b"weights");
}

#[test]
fn a_hub_that_fails_is_no_obstacle_to_what_the_cache_has() {
    let world = World::new();
    let server = Server::start(|request, stream| hub().answer(request, stream));
    world.fetch(&world.options(&server), "config.json").unwrap();
    drop(server);
    for head in ["503 Oh", "500 Oh", "429 Oh\r\nRetry-After: 9999", "200 OK"] {
        let server = Server::start(move |_, stream| send(stream, head, b"hello"));
        let options = world.options(&server);
        assert_eq!(
            world.fetch(&options, "config.json").unwrap(),
            b"{}",
            "{head}"
        );
        assert!(server.requests().len() <= 2, "{head}: the cache has it");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn disks_that_are_full_or_closed_are_named() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let server = Server::start(|request, stream| hub().answer(request, stream));
    let world = World::new();
    fs::create_dir_all(world.blobs()).unwrap();
    let part = world
        .blobs()
        .join(format!("{}.incomplete", git_sha1(b"{}")));
    symlink("/dev/full", &part).unwrap();
    let options = world.options(&server);
    let mut dataset = HubDataset::new("org/name", None, &options, false).unwrap();
    let message = dataset.fetch("config.json").unwrap_err().to_string();
    assert_parts(
        &message,
        &["cannot write", "blobs", "No space left", "HF_HUB_CACHE"],
    );
    fs::remove_file(part).unwrap();

    fs::set_permissions(world.blobs(), fs::Permissions::from_mode(0o500)).unwrap();
    let closed = fs::write(world.blobs().join("x"), "").is_err();
    let fetched = world.fetch(&world.options(&server), "config.json");
    fs::set_permissions(world.blobs(), fs::Permissions::from_mode(0o700)).unwrap();
    // Root may write anywhere.
    if closed {
        assert_parts(
            &fetched.unwrap_err(),
            &["cannot write", "can be written to"],
        );
    }
    let options = HubOptions::new(server.url(), "/proc/no/cache").with_limits(limits());
    let mut dataset = HubDataset::new("org/name", None, &options, false).unwrap();
    let message = dataset.fetch("config.json").unwrap_err().to_string();
    assert_parts(
        &message,
        &["cannot write /proc/no/cache", "the cache is /proc/no/cache"],
    );
    world.assert_recovers(&hub(), "config.json");
}
