//! Folders of results: resuming, refusing, merging.

use std::fs;
use std::path::Path;

use cascade_reproduce::report::{merge, write_atomically, Experiment, Record, Results};
use cascade_reproduce::{Error, ErrorKind};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    index: u64,
    id: String,
    text: String,
}

impl Record for Answer {
    fn index(&self) -> u64 {
        self.index
    }

    fn id(&self) -> &str {
        &self.id
    }
}

fn answer(index: u64) -> Answer {
    Answer {
        index,
        id: format!("q{index}"),
        text: "line\nfeed \u{0} é".repeat(index as usize % 3),
    }
}

fn experiment() -> Experiment {
    Experiment::new("key-1", 6)
}

fn open(folder: &Path) -> Result<Results<Answer>, Error> {
    Results::open(folder, &experiment())
}

fn run(folder: &Path, indices: impl IntoIterator<Item = u64>) {
    let mut results = open(folder).unwrap();
    for index in indices {
        results.append(answer(index)).unwrap();
    }
}

fn bytes(folder: &Path) -> Vec<u8> {
    fs::read(folder.join("results.jsonl")).unwrap()
}

#[test]
fn every_cut_resumes_to_the_same_bytes() {
    let whole = tempfile::tempdir().unwrap();
    run(whole.path(), 0..6);
    let expected = bytes(whole.path());
    for cut in 0..=expected.len() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), []);
        fs::write(folder.path().join("results.jsonl"), &expected[..cut]).unwrap();
        let mut results = open(folder.path()).unwrap();
        let missing: Vec<u64> = (0..6).filter(|i| !results.contains(*i)).collect();
        for index in missing {
            results.append(answer(index)).unwrap();
        }
        drop(results);
        assert_eq!(bytes(folder.path()), expected, "cut at {cut}");
    }
}

#[test]
fn another_experiment_is_refused_by_both_names() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), 0..2);
    let other = Experiment::new("key-2", 6);
    let error = Results::<Answer>::open(folder.path(), &other).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("key-1") && text.contains("key-2"), "{text}");
    fs::remove_file(folder.path().join("experiment.json")).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OtherResults);
    assert!(error.to_string().contains("no experiment.json"), "{error}");
}

#[test]
fn repeated_and_stray_records_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut results = open(folder.path()).unwrap();
    results.append(answer(1)).unwrap();
    let before = bytes(folder.path());
    let same_id = Answer {
        index: 2,
        ..answer(1)
    };
    let same_index = Answer {
        id: "new".into(),
        ..answer(1)
    };
    for record in [answer(1), same_id, same_index] {
        let error = results.append(record).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Record);
        let problem = "already has the record with index 1 ";
        assert!(error.to_string().contains(problem), "{error}");
    }
    let error = results.append(answer(6)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Record);
    assert!(error.to_string().contains("ends before 6"), "{error}");
    assert_eq!(bytes(folder.path()), before);
    results.append(answer(0)).unwrap();
    assert_eq!(results.into_ordered(), [answer(0), answer(1)]);
}

#[test]
fn a_broken_line_is_named() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), 0..2);
    let mut broken = bytes(folder.path());
    broken.extend_from_slice(b"{\"index\": nonsense}\n");
    fs::write(folder.path().join("results.jsonl"), broken).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Record);
    assert!(error.to_string().starts_with("line 3 of "), "{error}");
}

#[test]
fn two_writers_are_one_too_many() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path()).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    drop(first);
    open(folder.path()).unwrap();
}

#[test]
fn shards_that_do_not_fit_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    run(&at("a"), 0..3);
    run(&at("b"), 3..5);
    run(&at("c"), 2..6);
    let into = at("into");
    let merged = |names: &[&str]| {
        let shards: Vec<_> = names.iter().map(|name| at(name)).collect();
        merge::<Answer>(&shards, &into).map(|_| ())
    };
    let text = merged(&["a", "b"]).unwrap_err().to_string();
    assert!(text.contains("lack 1 of its 6 records: index 5"), "{text}");
    let kind = |names: &[&str]| merged(names).unwrap_err().kind();
    let text = merged(&["a", "c"]).unwrap_err().to_string();
    assert!(text.contains("or index 2"), "{text}");
    assert_eq!(kind(&["a", "c"]), ErrorKind::Shards);
    assert_eq!(kind(&["a", "nowhere"]), ErrorKind::NoResults);
    assert_eq!(kind(&[]), ErrorKind::Shards);
    assert!(!into.exists());
    run(&at("d"), 5..6);
    merged(&["a", "b", "d"]).unwrap();
    assert_eq!(kind(&["a", "b", "d"]), ErrorKind::OtherResults);
}

#[test]
fn files_are_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.md");
    write_atomically(&path, b"old").unwrap();
    write_atomically(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let error = write_atomically(&folder.path().join("no/where"), b"").unwrap_err();
    assert!(error.to_string().contains("where"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn shards_merge_to_the_bytes_of_one_run(owners in prop::collection::vec(0usize..3, 6), backwards: bool) {
        let root = tempfile::tempdir().unwrap();
        run(&root.path().join("one"), 0..6);
        let shards: Vec<_> = (0..3).map(|shard| {
            let folder = root.path().join(format!("shard-{shard}"));
            let mut own: Vec<u64> = (0..6).filter(|i| owners[*i as usize] == shard).collect();
            if backwards { own.reverse(); }
            run(&folder, own);
            folder
        }).collect();
        let into = root.path().join("merged");
        merge::<Answer>(&shards, &into).unwrap();
        for name in ["results.jsonl", "experiment.json"] {
            prop_assert_eq!(fs::read(into.join(name)).unwrap(), fs::read(root.path().join("one").join(name)).unwrap());
        }
    }
}
