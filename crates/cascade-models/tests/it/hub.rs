//! Models of the hub, against a server on this machine that speaks as much of the protocol as is
//! needed. What else servers may do is tested in `cascade-hub`.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cascade_core::Architecture;
use cascade_models::{HubOptions, LoadOptions, LoadedModel, ModelSource, load};
use tempfile::TempDir;

use crate::common::demo::{self, folder};
use crate::test_server::{Request, Server as TestServer, message, ranged, sha256};

const OLD: &str = "0123456789abcdef0123456789abcdef01234567";
const NEW: &str = "89abcdef0123456789abcdef0123456789abcdef";

/// What the server knows of the one model it has, `org/model`.
#[derive(Default)]
struct State {
    /// Commit of each branch or tag.
    revisions: HashMap<String, String>,
    /// Content by commit and name.
    files: HashMap<(String, String), Vec<u8>>,
    requests: Vec<String>,
}

impl State {
    fn add_demo(&mut self, commit: &str, name: &str) {
        for file in fs::read_dir(folder(name)).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            let bytes = fs::read(file.path()).unwrap();
            self.files.insert((commit.to_owned(), name), bytes);
        }
    }
}

struct Server {
    server: TestServer,
    state: Arc<Mutex<State>>,
}

impl Server {
    /// A server whose branch `main` is a demo model.
    fn with_demo(name: &str) -> Self {
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        let server = TestServer::start(move |request, stream| answer(request, stream, &shared));
        let server = Self { server, state };
        server.change(|state| {
            state.revisions.insert("main".to_owned(), OLD.to_owned());
            state.add_demo(OLD, name);
        });
        server
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    fn take_requests(&self) -> Vec<String> {
        self.change(|state| std::mem::take(&mut state.requests))
    }

    /// Failures are not waited for.
    fn options(&self, cache: &TempDir) -> HubOptions {
        let mut options = HubOptions::new(format!("{}/", self.server.url()), cache.path());
        options.limits.backoff = Duration::from_millis(1);
        options
    }
}

fn answer(request: &Request, stream: &mut TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut state = state.lock().unwrap();
    state.requests.push(request.path.clone());
    let (head, body) = reply(&state, request);
    stream.write_all(&message(&head, &body))
}

fn reply(state: &State, request: &Request) -> (String, Vec<u8>) {
    let path = request.path.as_str();
    let plain = |status: &str| (status.to_owned(), Vec::new());
    // The hub redirects small files to another path, large ones to another host.
    if let Some(rest) = path.strip_prefix("/api/resolve-cache/") {
        let (commit, file) = rest.split_once('/').unwrap();
        return content(state, commit, file, request);
    }
    // The storage behind the hub is open to those who know the address.
    if let Some(rest) = path.strip_prefix("/storage/") {
        let (commit, file) = rest.split_once('/').unwrap();
        return content(state, commit, file, request);
    }
    if path.starts_with("/api/models/org/model/") {
        let names = state
            .files
            .keys()
            .map(|(_, name)| serde_json::json!({ "rfilename": name }));
        let info = serde_json::json!({ "sha": OLD, "siblings": names.collect::<Vec<_>>() });
        return ("200 OK".to_owned(), info.to_string().into_bytes());
    }
    let Some((revision, file)) = path
        .strip_prefix("/org/model/resolve/")
        .and_then(|rest| rest.split_once('/'))
    else {
        return plain("404 Not Found");
    };
    let commit = state
        .revisions
        .get(revision)
        .map_or(revision, String::as_str);
    let Some(bytes) = state.files.get(&(commit.to_owned(), file.to_owned())) else {
        // A commit that lacks a file lacks it for good: weights may come later, in tests.
        let known = state.files.keys().any(|(known, _)| known == commit);
        return if known && !file.ends_with(".safetensors") {
            plain(&format!(
                "404 Not Found\r\nX-Error-Code: EntryNotFound\r\nX-Repo-Commit: {commit}"
            ))
        } else {
            plain("404 Not Found")
        };
    };
    if file.ends_with(".safetensors") {
        let address = request.header("host").unwrap_or_default();
        return plain(&format!(
            "302 Found\r\nLocation: http://{address}/storage/{commit}/{file}\r\n\
             X-Repo-Commit: {commit}\r\nX-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}",
            sha256(bytes),
            bytes.len()
        ));
    }
    if file == "tokenizer.json" {
        return plain(&format!(
            "307 Temporary Redirect\r\nLocation: /api/resolve-cache/{commit}/{file}"
        ));
    }
    content(state, commit, file, request)
}

fn content(state: &State, commit: &str, file: &str, request: &Request) -> (String, Vec<u8>) {
    let Some(bytes) = state.files.get(&(commit.to_owned(), file.to_owned())) else {
        return ("404 Not Found".to_owned(), Vec::new());
    };
    // In the shape of neither digest that the hub uses.
    let name = &sha256(bytes)[..32];
    let headers = format!("ETag: \"{name}\"\r\nX-Repo-Commit: {commit}");
    ranged(request, &headers, bytes)
}

fn open(source: &str, hub: HubOptions) -> cascade_models::Result<LoadedModel> {
    let options = LoadOptions {
        hub,
        progress: false,
        ..LoadOptions::default()
    };
    load(&ModelSource::parse(source).unwrap(), &options)
}

#[track_caller]
fn assert_refused(source: &str, hub: HubOptions, parts: &[&str]) {
    let message = open(source, hub).expect_err("it cannot load").to_string();
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
    }
}

fn cache() -> TempDir {
    TempDir::new().unwrap()
}

#[test]
fn downloads_once_and_then_loads_offline() {
    let server = Server::with_demo("demo-t5-small");
    let cache = cache();
    let model = open("org/model", server.options(&cache)).unwrap();
    assert_eq!(model.name, "org/model");
    assert_eq!(model.eos_token_ids, [2]);
    let weights = model.files.weights[0].to_string();
    let place = format!("models--org--model/snapshots/{OLD}/model.safetensors");
    assert!(weights.ends_with(&place), "{weights}");
    let refs = cache.path().join("models--org--model/refs/main");
    assert_eq!(fs::read_to_string(refs).unwrap(), OLD);

    // Asked again, the hub is asked what main is, and nothing else.
    server.take_requests();
    open("org/model", server.options(&cache)).unwrap();
    assert_eq!(
        server.take_requests(),
        ["/org/model/resolve/main/config.json"]
    );

    let offline = server.options(&cache).with_offline(true);
    let model = open("org/model", offline).unwrap();
    assert_eq!(model.files.weights[0].to_string(), weights);
    assert!(server.take_requests().is_empty());
}

#[test]
fn adapters_of_the_hub_are_refused_before_weights_are_downloaded() {
    let settings = r#"{"peft_type": "LORA", "base_model_name_or_path": "org/base"}"#;
    let said = [
        "(LORA, adapter_config.json)",
        "org/base",
        "merge_and_unload()",
    ];
    for instead in [false, true] {
        let server = Server::with_demo("demo-llama-small");
        server.change(|state| {
            let place = |name: &str| (OLD.to_owned(), name.to_owned());
            state
                .files
                .insert(place("adapter_config.json"), settings.into());
            if instead {
                state
                    .files
                    .retain(|(_, name), _| !name.starts_with("config"));
            }
        });
        let cache = cache();
        assert_refused("org/model", server.options(&cache), &said);
        let requests = server.take_requests();
        let weights = |path: &String| path.ends_with(".safetensors");
        assert!(!requests.iter().any(weights), "{requests:?}");
        let offline = server.options(&cache).with_offline(true);
        assert_refused("org/model", offline, &said);
    }
}

#[test]
fn encryption_needs_nothing_else() {
    // Nobody here speaks it, but a handshake is begun.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let first_byte = std::thread::spawn(move || {
        let mut byte = [0];
        let (mut client, _) = listener.accept().unwrap();
        client.read_exact(&mut byte).unwrap();
        byte[0]
    });
    let cache = cache();
    assert_refused(
        "org/model",
        HubOptions::new(&endpoint, cache.path()),
        &["cannot reach", &endpoint],
    );
    assert_eq!(first_byte.join().unwrap(), 0x16, "a TLS handshake");
}

#[test]
fn a_branch_that_moves_is_followed() {
    let server = Server::with_demo("demo-t5-small");
    let cache = cache();
    open("org/model", server.options(&cache)).unwrap();
    server.change(|state| {
        state.revisions.insert("main".to_owned(), NEW.to_owned());
        state.add_demo(NEW, "demo-llama-small");
    });
    let model = open("org/model", server.options(&cache)).unwrap();
    assert_eq!(model.eos_token_ids, [2]);
    let model = open("org/model", server.options(&cache).with_offline(true)).unwrap();
    assert_eq!(model.eos_token_ids, [2]);
}

#[test]
fn revisions_are_branches_tags_and_commits() {
    let server = Server::with_demo("demo-t5-small");
    server.change(|state| {
        state.revisions.insert("v2".to_owned(), NEW.to_owned());
        state.add_demo(NEW, "demo-llama-small");
    });
    let cache = cache();
    let kind = |source: &str, options| open(source, options).unwrap().info().architecture;
    assert_eq!(
        kind("org/model@v2", server.options(&cache)),
        Architecture::DecoderOnly
    );
    assert_eq!(
        kind("org/model@main", server.options(&cache)),
        Architecture::EncoderDecoder
    );
    let commit = format!("org/model@{NEW}");
    server.take_requests();
    assert_eq!(
        kind(&commit, server.options(&cache)),
        Architecture::DecoderOnly
    );
    assert!(server.take_requests().is_empty(), "a commit never changes");
    let offline = || server.options(&cache).with_offline(true);
    assert_eq!(kind("org/model@v2", offline()), Architecture::DecoderOnly);
    assert_eq!(
        kind(&format!("org/model@{OLD}"), offline()),
        Architecture::EncoderDecoder
    );
    assert_refused(
        "org/model@v3",
        server.options(&cache),
        &[
            "org/model@v3",
            "no such repository, revision or file",
            "after @",
        ],
    );
    let fresh = self::cache();
    assert_eq!(
        kind(&commit, server.options(&fresh)),
        Architecture::DecoderOnly
    );
}

#[test]
fn shards_are_downloaded_by_their_index() {
    let server = Server::with_demo("demo-llama-small");
    let sharded = demo::copy("demo-llama-small");
    demo::shard(sharded.path(), 2);
    let missing = "model-00002-of-00002.safetensors";
    let kept = server.change(|state| {
        state.files.clear();
        for file in fs::read_dir(sharded.path()).unwrap() {
            let file = file.unwrap();
            let name = file.file_name().into_string().unwrap();
            let bytes = fs::read(file.path()).unwrap();
            state.files.insert((OLD.to_owned(), name), bytes);
        }
        state
            .files
            .remove(&(OLD.to_owned(), missing.to_owned()))
            .unwrap()
    });
    let cache = cache();
    assert_refused(
        "org/model",
        server.options(&cache),
        &["index.json", missing],
    );
    server.change(|state| {
        state
            .files
            .insert((OLD.to_owned(), missing.to_owned()), kept);
    });
    let model = open("org/model", server.options(&cache)).unwrap();
    assert_eq!(model.files.weights.len(), 2);
}

#[test]
fn a_hub_that_cannot_be_reached() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let endpoint = format!("http://{gone}");
    let cache = cache();
    assert_refused(
        "org/model",
        HubOptions::new(&endpoint, cache.path()),
        &[
            "cannot reach",
            &endpoint,
            "org/model@main",
            "config.json",
            "HF_ENDPOINT",
            "local folder",
        ],
    );
    assert_refused(
        "org/model",
        HubOptions::new(&endpoint, cache.path()).with_offline(true),
        &[
            "config.json of org/model@main",
            "not in the cache",
            cache.path().to_str().unwrap(),
            "unset HF_HUB_OFFLINE",
        ],
    );
}

#[test]
fn a_model_that_lacks_files() {
    let server = Server::with_demo("demo-t5-small");
    let remove =
        |name: &str| server.change(|state| state.files.remove(&(OLD.to_owned(), name.to_owned())));
    let add = |name: &str| {
        server.change(|state| {
            let key = (OLD.to_owned(), name.to_owned());
            state.files.insert(key, b"old format".to_vec())
        })
    };
    remove("model.safetensors");
    add("tf_model.h5");
    assert_refused(
        "org/model",
        server.options(&cache()),
        &["org/model@main has no weights", "there is tf_model.h5"],
    );
    add("pytorch_model.bin");
    assert_refused(
        "org/model",
        server.options(&cache()),
        &["pytorch_model.bin is not a PyTorch file", "old format"],
    );
    remove("tokenizer.json");
    add("vocab.json");
    assert_refused(
        "org/model",
        server.options(&cache()),
        &[
            "no tokenizer",
            "only vocab.json",
            "from_pretrained(\"org/model\")",
        ],
    );
    remove("generation_config.json");
    remove("config.json");
    assert_refused(
        "org/model",
        server.options(&cache()),
        &["config.json", "org/model@main", "no such repository"],
    );
    assert_refused(
        "org/other",
        server.options(&cache()),
        &["org/other@main", "check the name"],
    );
}
