//! Models, whose files name other files.

use cascade_hub::{HubOptions, ModelSource, WeightFormat};

use crate::good_hub::Hub;
use crate::test_server::Server;
use crate::world::{World, assert_parts, limits};

fn index(shard: &str) -> Vec<u8> {
    let index = serde_json::json!({ "weight_map": { "a": shard, "b": "good.safetensors" } });
    index.to_string().into_bytes()
}

#[test]
fn an_index_names_files_of_its_repository() {
    for (shard, good) in [
        ("shards/one.safetensors", true),
        ("../../../evil", false),
        ("/etc/passwd", false),
        ("a\\..\\evil", false),
        ("C:evil", false),
        ("a\u{0}b", false),
        ("a/../b", false),
        ("", false),
    ] {
        let index = index(shard);
        let hub = Hub::with(&[
            ("config.json", b"{}"),
            ("tokenizer.json", b"{}"),
            ("model.safetensors.index.json", &index),
            ("good.safetensors", b"b"),
            (shard, b"a"),
        ]);
        let server = Server::start(move |request, stream| hub.answer(request, stream));
        let world = World::new();
        let options = HubOptions::new(server.url(), world.cache()).with_limits(limits());
        let source = ModelSource::parse("org/name").unwrap();
        match source.files(&options, false) {
            Ok(files) => {
                assert!(good, "{shard:?}");
                let read = files
                    .weights
                    .iter()
                    .map(|file| file.read().unwrap().into_owned());
                assert_eq!(read.collect::<Vec<_>>().concat(), b"ba");
            }
            Err(error) => {
                assert!(!good, "{error}");
                assert_parts(
                    &error.to_string(),
                    &["index.json", "which is not a file name"],
                );
                assert!(
                    !server
                        .take_paths()
                        .iter()
                        .any(|path| path.contains("good."))
                );
            }
        }
    }
}

/// A GGUF model is found by the end of its file's name, with its parts, and with no others.
#[test]
fn a_gguf_model_of_a_repository_goes_by_its_tag() {
    let hub = Hub::with(&[
        ("config.json", b"{}"),
        ("m-Q4_K_M.gguf", b"small"),
        ("Q8_0/m-Q8_0-00001-of-00002.gguf", b"first"),
        ("Q8_0/m-Q8_0-00002-of-00002.gguf", b"second"),
        ("mmproj-m-Q4_K_M.gguf", b"eyes"),
    ]);
    let server = Server::start(move |request, stream| hub.answer(request, stream));
    let world = World::new();
    let options = HubOptions::new(server.url(), world.cache()).with_limits(limits());
    let source = |text: &str| ModelSource::parse(text).unwrap();
    for (text, whole, parts) in [
        ("org/name:Q4_K_M", &b"small"[..], 1),
        ("org/name:q8_0", b"firstsecond", 2),
        ("org/name:m-q4_k_m.gguf@main", b"small", 1),
    ] {
        let files = source(text).files(&options, false).unwrap();
        let read = files
            .weights
            .iter()
            .map(|file| file.read().unwrap().into_owned());
        let read: Vec<Vec<u8>> = read.collect();
        assert_eq!(
            (read.concat(), read.len()),
            (whole.to_vec(), parts),
            "{text}"
        );
        assert_eq!(
            (files.weight_format, &*files.name),
            (WeightFormat::Gguf, text)
        );
        let tokenizer = source(text).tokenizer(&options, false).unwrap();
        assert_eq!(tokenizer.vocabulary(), &files.config);
    }
    assert!(
        !server
            .take_paths()
            .iter()
            .any(|path| path.contains("mmproj"))
    );
    let there = "there are Q8_0, Q4_K_M";
    for (text, parts) in [
        ("org/name:Q5_K_M", ["has no GGUF model Q5_K_M", there]),
        ("org/name", ["org/name:Q4_K_M", there]),
    ] {
        let error = source(text).files(&options, false).unwrap_err().to_string();
        assert_parts(&error, &parts);
    }
    let offline = options.with_offline(true);
    let kept = source("org/name:Q8_0").files(&offline, false).unwrap();
    assert_eq!(kept.weights.len(), 2);
}

/// What a repository lacks is asked for once in its life.
#[test]
fn a_model_is_asked_for_once() {
    let hub = Hub::with(&[
        ("config.json", b"{}"),
        ("tokenizer.json", b"{}"),
        ("model.safetensors", b"weights"),
    ]);
    let server = Server::start(move |request, stream| hub.answer(request, stream));
    let world = World::new();
    let options = HubOptions::new(server.url(), world.cache()).with_limits(limits());
    let source = ModelSource::parse("org/name").unwrap();
    let first = source.files(&options, false).unwrap();
    server.take_paths();
    assert_eq!(source.files(&options, false).unwrap(), first);
    assert_eq!(server.take_paths(), ["/org/name/resolve/main/config.json"]);
    let offline = options.with_offline(true);
    assert_eq!(source.files(&offline, false).unwrap(), first);
}
