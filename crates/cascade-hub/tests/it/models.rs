//! Models, whose files name other files.

use cascade_hub::{HubOptions, ModelSource};

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
