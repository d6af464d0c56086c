//! Several processes and one cache, and processes that are killed.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cascade_hub::{HubDataset, HubOptions};

use crate::good_hub::{Hub, is_for_storage};
use crate::test_server::{Request, Server, be_silent, message, sha256};
use crate::world::World;

const FILE: &str = "model.bin";

fn hub() -> Hub {
    let bytes: Vec<u8> = (0..200_000_u32)
        .map(|i| (i.wrapping_mul(i) / 7) as u8)
        .collect();
    Hub::with(&[(FILE, &bytes)])
}

/// Another process that downloads the file.
fn download(server: &Server, world: &World) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "processes::downloads_in_another_process",
            "--ignored",
        ])
        .env("HUB_OF_TEST", server.url())
        .env("CACHE_OF_TEST", world.cache())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
#[ignore = "other tests start it as a process of its own"]
fn downloads_in_another_process() {
    let Ok(url) = std::env::var("HUB_OF_TEST") else {
        return;
    };
    let options = HubOptions::new(url, std::env::var("CACHE_OF_TEST").unwrap());
    let mut dataset = HubDataset::new("org/name", None, &options, false).unwrap();
    let path = dataset.fetch(FILE).unwrap();
    assert!(std::fs::read(path).unwrap() == hub().files[FILE]);
}

#[test]
fn several_download_it_once() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = begun.clone();
    let server = Server::start(move |request: &Request, stream: &mut TcpStream| {
        let hub = hub();
        if !is_for_storage(request) {
            return hub.answer(request, stream);
        }
        counted.fetch_add(1, Ordering::SeqCst);
        let (head, body) = hub.reply(request);
        for piece in message(&head, &body).chunks(20_000) {
            stream.write_all(piece)?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    });
    let world = World::new();
    let children: Vec<_> = (0..4).map(|_| download(&server, &world)).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(
        begun.load(Ordering::SeqCst),
        1,
        "one downloads, the others wait"
    );
    world.assert_recovers(&hub(), FILE);
}

#[test]
fn a_killed_download_goes_on_where_it_stopped() {
    let server = Server::start(|request: &Request, stream: &mut TcpStream| {
        let hub = hub();
        if !is_for_storage(request) {
            return hub.answer(request, stream);
        }
        let (head, body) = hub.reply(request);
        let bytes = message(&head, &body);
        stream.write_all(&bytes[..bytes.len() - body.len() / 2])?;
        be_silent(stream)
    });
    let world = World::new();
    let mut child = download(&server, &world);
    let part = world
        .blobs()
        .join(format!("{}.incomplete", sha256(&hub().files[FILE])));
    let start = Instant::now();
    while std::fs::metadata(&part).map_or(0, |part| part.len()) < 100_000 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the download did not begin"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(server);

    // The lock that it held is in nobody's way, and what it had is not sent again.
    let server = Server::start(|request, stream| hub().answer(request, stream));
    let found = world.fetch(&world.options(&server), FILE).unwrap();
    assert!(found == hub().files[FILE]);
    let requests = server.requests();
    let from = requests
        .iter()
        .find(|request| is_for_storage(request))
        .unwrap()
        .from();
    assert_eq!(from, Some(100_000));
    assert!(!part.exists());
}
