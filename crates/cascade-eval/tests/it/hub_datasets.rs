//! Datasets of the hub, against a server on this machine.

use std::fs;
use std::sync::Arc;

use cascade_eval::{DataSource, Dataset, Sample, Selection};
use cascade_hub::HubOptions;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

use crate::hub_server::HubServer;

const OLD: &str = "0123456789abcdef0123456789abcdef01234567";
const NEW: &str = "89abcdef0123456789abcdef0123456789abcdef";
const EXPORT: &str = "5555555555555555555555555555555555555555";
const FIRST: &str = "main/test-00000-of-00002.parquet";
const SECOND: &str = "main/test-00001-of-00002.parquet";

/// A Parquet file of questions and answers.
fn questions(texts: &[&str]) -> Vec<u8> {
    let schema =
        "message rows { REQUIRED BYTE_ARRAY question (UTF8); REQUIRED BYTE_ARRAY answer (UTF8); }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Default::default()).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    let texts: Vec<_> = texts.iter().map(|text| ByteArray::from(*text)).collect();
    while let Some(mut column) = rows.next_column().unwrap() {
        let typed = column.typed::<ByteArrayType>();
        typed.write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
    }
    rows.close().unwrap();
    writer.into_inner().unwrap()
}

/// A hub with GSM8K, as far as is needed here: two shards of two questions each.
fn gsm8k() -> HubServer {
    let server = HubServer::start("openai/gsm8k");
    add(&server, OLD, FIRST, questions(&["q0", "q1"]));
    add(&server, OLD, SECOND, questions(&["q2", "q3"]));
    let train = "main/train-00000-of-00001.parquet";
    add(&server, OLD, train, questions(&["train"]));
    let other = "socratic/test-00000-of-00001.parquet";
    add(&server, OLD, other, questions(&["socratic"]));
    add(&server, OLD, "README.md", b"Read me".to_vec());
    add(
        &server,
        NEW,
        "main/test-00000-of-00001.parquet",
        questions(&["new"]),
    );
    add(
        &server,
        EXPORT,
        "main/test/0000.parquet",
        questions(&["e0"]),
    );
    add(
        &server,
        EXPORT,
        "main/test/0001.parquet",
        questions(&["e1"]),
    );
    let revisions = [("main", OLD), ("v2", NEW), ("refs/convert/parquet", EXPORT)];
    server.change(|state| {
        state.revisions = revisions
            .map(|(name, commit)| (name.to_owned(), commit.to_owned()))
            .into();
    });
    server
}

fn add(server: &HubServer, commit: &str, name: &str, bytes: Vec<u8>) {
    let key = (commit.to_owned(), name.to_owned());
    server.change(|state| state.files.insert(key, bytes));
}

fn read_some(
    source: &str,
    hub: &HubOptions,
    selection: Selection,
) -> cascade_eval::Result<Vec<Sample>> {
    let source: DataSource = source.parse().unwrap();
    source.read(&Dataset::Gsm8k, selection, hub, false)
}

fn questions_of(source: &str, hub: &HubOptions) -> Vec<String> {
    let samples = read_some(source, hub, Selection::ALL).unwrap();
    let question = |sample: &Sample| sample.content.turns()[0].to_owned();
    samples.iter().map(question).collect()
}

#[track_caller]
fn assert_refused(source: &str, hub: &HubOptions, parts: &[&str]) {
    let error = read_some(source, hub, Selection::ALL).expect_err("it cannot be read");
    let message = error.to_string();
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is not in:\n{message}");
    }
}

fn cache() -> TempDir {
    TempDir::new().unwrap()
}

#[test]
fn a_split_is_downloaded_once_and_then_read_offline() {
    let (server, cache) = (gsm8k(), cache());
    let hub = server.options(cache.path());
    assert_eq!(questions_of("hub", &hub), ["q0", "q1", "q2", "q3"]);
    let repo = cache.path().join("datasets--openai--gsm8k");
    assert!(repo.join("snapshots").join(OLD).join(SECOND).is_file());
    assert_eq!(fs::read_to_string(repo.join("refs/main")).unwrap(), OLD);

    // Asked again, the hub is asked what main is, and nothing else.
    server.take_requests();
    assert_eq!(questions_of("hub", &hub).len(), 4);
    let requests = server.take_requests();
    assert_eq!(requests, ["/api/datasets/openai/gsm8k/revision/main"]);

    let offline = hub.clone().with_offline(true);
    assert_eq!(questions_of("hub", &offline), ["q0", "q1", "q2", "q3"]);
    assert!(server.take_requests().is_empty());
    assert_refused(
        "hub:openai/gsm8k/main/train",
        &offline,
        &[
            "main/train-00000-of-00001.parquet of dataset openai/gsm8k@main",
            "HF_HUB_OFFLINE",
        ],
    );
    // A hub that is away is no obstacle either.
    drop(server);
    assert_eq!(questions_of("hub", &hub).len(), 4);
}

#[test]
fn splits_are_named_and_revisions_pinned() {
    let (server, cache) = (gsm8k(), cache());
    let hub = server.options(cache.path());
    assert_eq!(questions_of("hub:openai/gsm8k/main/train", &hub), ["train"]);
    assert_eq!(questions_of("hub:openai/gsm8k", &hub).len(), 4);
    assert_eq!(
        questions_of("hub:openai/gsm8k/socratic/test-*.parquet", &hub),
        ["socratic"]
    );
    assert_eq!(
        questions_of(&format!("hub:openai/gsm8k/{SECOND}"), &hub),
        ["q2", "q3"]
    );
    assert_eq!(questions_of("hub@v2", &hub), ["new"]);
    assert_eq!(questions_of("hub:openai/gsm8k@v2", &hub), ["new"]);
    assert_eq!(
        questions_of("hub@refs/convert/parquet/main/test", &hub),
        ["e0", "e1"]
    );
    let pinned = format!("hub:openai/gsm8k@{OLD}/main/test");
    assert_eq!(questions_of(&pinned, &hub).len(), 4);
    // What a commit has is known for good.
    server.take_requests();
    assert_eq!(questions_of(&pinned, &hub).len(), 4);
    assert!(server.take_requests().is_empty());
    assert_eq!(questions_of("hub@v2", &hub.with_offline(true)), ["new"]);
}

#[test]
fn shards_after_the_last_selected_sample_are_not_downloaded() {
    let (server, cache) = (gsm8k(), cache());
    let hub = server.options(cache.path());
    let two = Selection {
        limit: Some(2),
        ..Selection::ALL
    };
    assert_eq!(read_some("hub", &hub, two).unwrap().len(), 2);
    assert!(
        !server
            .take_requests()
            .iter()
            .any(|path| path.ends_with(SECOND))
    );
    // The list of shards is known, so that half of them is not taken for all.
    let offline = hub.with_offline(true);
    assert_eq!(read_some("hub", &offline, two).unwrap().len(), 2);
    assert_refused("hub", &offline, &[SECOND, "is not in the cache"]);
}

#[test]
fn a_cache_that_another_library_filled() {
    let cache = cache();
    let repo = cache.path().join("datasets--openai--gsm8k");
    let snapshot = repo.join("snapshots").join(OLD);
    fs::create_dir_all(snapshot.join("main")).unwrap();
    fs::create_dir_all(repo.join("refs")).unwrap();
    fs::write(repo.join("refs/main"), OLD).unwrap();
    fs::write(snapshot.join(FIRST), questions(&["q0"])).unwrap();
    let hub = HubOptions::new("http://127.0.0.1:9", cache.path()).with_offline(true);
    assert_refused(
        "hub",
        &hub,
        &["has 1 of the 2 shards of main/test", "HF_HUB_OFFLINE"],
    );
    fs::write(snapshot.join(SECOND), questions(&["q1"])).unwrap();
    assert_eq!(questions_of("hub", &hub), ["q0", "q1"]);
    assert_eq!(questions_of(&format!("hub@{OLD}"), &hub), ["q0", "q1"]);
}

#[test]
fn what_is_not_there() {
    let (server, cache) = (gsm8k(), cache());
    let hub = server.options(cache.path());
    assert_refused(
        "hub:openai/gsm8k/main/tset",
        &hub,
        &[
            "dataset openai/gsm8k@main has no main/tset",
            "it has main/test, main/train;",
        ],
    );
    assert_refused(
        "hub:openai/gsm8k/test",
        &hub,
        &["main/test, main/train, socratic/test;"],
    );
    assert_refused(
        "hub:openai/gsm",
        &hub,
        &["dataset openai/gsm@main", "no such repository"],
    );
    assert_refused("hub@v3", &hub, &["dataset openai/gsm8k@v3", "after @"]);
    assert_refused(
        "hub:gsm8k",
        &hub,
        &["\"gsm8k\" names no dataset", "org/name"],
    );
    assert_refused(
        "hub@../..",
        &hub,
        &["openai/gsm8k@..", "not a branch, tag or commit"],
    );
    let offline = hub.clone().with_offline(true);
    assert_refused(
        "hub:some/other",
        &offline,
        &[
            "the list of files of dataset some/other@main is not in the cache",
            "HF_HUB_OFFLINE",
        ],
    );
    let source: DataSource = "hub".parse().unwrap();
    let error = source.read(&Dataset::SpecBench, Selection::ALL, &hub, false);
    let message = error.unwrap_err().to_string();
    assert!(
        message.contains("spec-bench has no repository") && message.contains("hub:org/name"),
        "{message}"
    );
}

#[test]
fn gated_datasets_need_a_token() {
    let (server, cache) = (gsm8k(), cache());
    server.change(|state| state.token = Some("hf_secret".to_owned()));
    let hub = server.options(cache.path());
    assert_refused(
        "hub",
        &hub,
        &[
            "refused the list of files of dataset openai/gsm8k@main",
            "HTTP 401",
            "gated",
            "HF_TOKEN",
        ],
    );
    assert_eq!(questions_of("hub", &hub.with_token("hf_secret")).len(), 4);
}

#[test]
fn a_damaged_file_is_replaced_once_it_is_deleted() {
    let (server, cache) = (gsm8k(), cache());
    let hub = server.options(cache.path());
    let whole = questions(&["q2", "q3"]);
    add(&server, OLD, SECOND, whole[..whole.len() / 2].to_vec());
    let file = cache
        .path()
        .join("datasets--openai--gsm8k/snapshots")
        .join(OLD)
        .join(SECOND);
    let name = file.to_str().unwrap();
    assert_refused(
        "hub",
        &hub,
        &[
            name,
            "not a whole Parquet file",
            "delete this file of the cache",
        ],
    );
    add(&server, OLD, SECOND, whole);
    assert_refused("hub", &hub, &[name]);
    fs::remove_file(&file).unwrap();
    assert_eq!(questions_of("hub", &hub).len(), 4);
}

#[test]
fn a_server_does_not_choose_where_files_go() {
    let (server, cache) = (gsm8k(), cache());
    let hub = server.options(cache.path());
    add(
        &server,
        OLD,
        "../../../../evil.parquet",
        questions(&["evil"]),
    );
    assert_refused(
        "hub:openai/gsm8k/../../../../evil.parquet",
        &hub,
        &["has no ../../../../evil.parquet"],
    );
    let evil = "../../evil";
    add(&server, evil, "main/test.parquet", questions(&["evil"]));
    server.change(|state| state.revisions.insert("main".to_owned(), evil.to_owned()));
    assert_refused("hub", &hub, &["calls the commit", evil]);
}

#[test]
fn places_are_written_as_they_are_read() {
    for text in [
        "hub",
        "hub@v1",
        "hub@refs/pr/1",
        "hub:org/name",
        "hub:org/name/main/test",
        "hub:org/name/odd@name.jsonl",
        "hub:org/name@refs/convert/parquet/main/test-*.parquet",
    ] {
        let source: DataSource = text.parse().unwrap();
        assert!(matches!(source, DataSource::Hub(_)), "{text}");
        assert_eq!(source.to_string(), text);
    }
    for text in [
        "./hub",
        "hub/test.jsonl",
        "hubs",
        "data/hub",
        "question.jsonl",
    ] {
        let source: DataSource = text.parse().unwrap();
        assert_eq!(source, DataSource::Local(text.into()));
    }
}
