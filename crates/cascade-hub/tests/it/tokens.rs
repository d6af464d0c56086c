//! Who gets the access token, and what is said to those who need one.

use std::net::TcpStream;

use crate::good_hub::Hub;
use crate::test_server::{Request, Server, send};
use crate::world::{World, assert_parts};

const TOKEN: &str = "hf_secret";

fn hub() -> Hub {
    Hub::with(&[("config.json", b"{}"), ("model.bin", b"weights")])
}

fn authorized(requests: &[Request]) -> Vec<bool> {
    let token = format!("Bearer {TOKEN}");
    let given = requests
        .iter()
        .map(|request| request.header("authorization"));
    given
        .map(|given| given.inspect(|given| assert_eq!(*given, token)).is_some())
        .collect()
}

#[test]
fn the_hub_gets_it_and_nobody_else() {
    let storage = Server::start(|request, stream| hub().answer(request, stream));
    let mut split = hub();
    split.storage = Some(storage.url());
    let server = Server::start(move |request, stream| split.answer(request, stream));
    let world = World::new();
    let options = world.options(&server).with_token(TOKEN);
    for (file, content) in [("model.bin", &b"weights"[..]), ("config.json", b"{}")] {
        assert_eq!(world.fetch(&options, file).unwrap(), content);
    }
    assert_eq!(authorized(&server.requests()), [true, true]);
    assert_eq!(authorized(&storage.requests()), [false]);
}

#[test]
fn redirects_do_not_take_it_along() {
    // Another port is another server; the same goes for lists of files.
    let other = Server::start(|request, stream| hub().answer(request, stream));
    let elsewhere = other.url();
    let server = Server::start(move |request: &Request, stream: &mut TcpStream| {
        let path = &request.path;
        send(
            stream,
            &format!("302 Found\r\nLocation: {elsewhere}{path}"),
            b"",
        )
    });
    let world = World::new();
    let options = world.options(&server).with_token(TOKEN);
    assert_eq!(world.fetch(&options, "config.json").unwrap(), b"{}");
    let mut dataset = cascade_hub::HubDataset::new("org/name", None, &options, false).unwrap();
    assert_eq!(dataset.files().unwrap(), ["config.json", "model.bin"]);
    assert_eq!(authorized(&server.requests()), [true, true]);
    assert_eq!(authorized(&other.requests()), [false, false]);
}

#[test]
fn on_the_hub_itself_they_do() {
    let server = Server::start(|request: &Request, stream: &mut TcpStream| {
        match request.path.strip_prefix("/api/resolve-cache") {
            Some(path) => {
                let path = path.to_owned();
                hub().answer(
                    &Request {
                        path,
                        ..request.clone()
                    },
                    stream,
                )
            }
            None => {
                let head = "307 Temporary Redirect\r\nLocation: /api/resolve-cache";
                send(stream, &format!("{head}{}", request.path), b"")
            }
        }
    });
    let world = World::new();
    let options = world.options(&server).with_token(TOKEN);
    assert_eq!(world.fetch(&options, "config.json").unwrap(), b"{}");
    assert_eq!(authorized(&server.requests()), [true, true]);
}

#[test]
fn refusals_name_the_cure_and_are_final() {
    for (head, parts) in [
        (
            "401 Unauthorized\r\nX-Error-Code: GatedRepo",
            &[
                "gated (HTTP 401)",
                "/datasets/org/name",
                "accept the terms",
                "hf auth login",
            ][..],
        ),
        (
            "403 Forbidden\r\nX-Error-Code: GatedRepo",
            &[
                "gated (HTTP 403)",
                "accept the terms",
                "whether access was granted",
            ],
        ),
        (
            "401 Unauthorized",
            &["refused config.json", "HTTP 401", "HF_TOKEN", "gated"],
        ),
        (
            "403 Forbidden",
            &["refused config.json", "HTTP 403", "accept the terms"],
        ),
        (
            "404 Not Found\r\nX-Error-Code: RepoNotFound",
            &["no such repository"],
        ),
    ] {
        let world = World::new();
        let server = Server::start(move |_, stream| send(stream, head, b""));
        let message = world
            .fetch(&world.options(&server), "config.json")
            .unwrap_err();
        assert_parts(&message, parts);
        assert_eq!(server.requests().len(), 1, "{head} was tried again");
        let with_token = world.options(&server).with_token(TOKEN);
        let message = world.fetch(&with_token, "config.json").unwrap_err();
        assert!(!message.contains(TOKEN));
    }
}
