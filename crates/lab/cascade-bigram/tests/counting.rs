//! Counting, from files to tables: exact, and with the same bytes whatever the circumstances.
#![allow(clippy::unwrap_used)] // Clippy exempts test functions, but not what they call.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cascade_bigram::{BoxError, ErrorKind, Job, Memory, Status, Summary, build, compare};
use cascade_core::Fingerprint;
use cascade_core::fs::Output;
use cascade_ngram::{NgramLimits, NgramTable};
use rand::{Rng, SeedableRng, rngs::StdRng};

/// Letters are tokens, and so are pairs of vowels: a vocabulary of a few hundred.
const VOCAB_SIZE: usize = 400;

fn encode(text: &str) -> Result<Vec<u32>, BoxError> {
    if text.contains('#') {
        return Err("there is a # in it".into());
    }
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let vowel = |at: usize| b"aeiou".iter().position(|v| bytes.get(at) == Some(v));
        match (vowel(at), vowel(at + 1)) {
            (Some(a), Some(b)) => {
                tokens.push((256 + 5 * a + b) as u32);
                at += 2;
            }
            _ => {
                tokens.push(u32::from(bytes[at]));
                at += 1;
            }
        }
    }
    Ok(tokens)
}

fn text(seed: u64, documents: usize) -> String {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut text = String::new();
    for _ in 0..documents {
        for _ in 0..rng.random_range(1..4) {
            for _ in 0..rng.random_range(1..120) {
                // Squared, so that some letters are frequent.
                let letter = rng.random_range(0.0..1.0f64).powi(2) * 26.0;
                text.push((b'a' + letter as u8) as char);
            }
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

struct Setting {
    threads: usize,
    memory: Memory,
    checkpoint: Duration,
    resume: bool,
    limit_pages: Option<u64>,
    unique_sentences: bool,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            threads: 2,
            memory: Memory::Counts(64 << 20),
            checkpoint: Duration::from_secs(300),
            resume: false,
            limit_pages: None,
            unique_sentences: false,
        }
    }
}

impl Setting {
    fn job<T>(
        &self,
        inputs: &[PathBuf],
        output: &Path,
        work: impl FnOnce(&Job<'_>) -> cascade_bigram::Result<T>,
    ) -> cascade_bigram::Result<T> {
        work(&Job {
            inputs,
            output: &Output::replacing(output),
            encode: &encode,
            fingerprint: &Fingerprint::from_stored("letters"),
            vocab_size: VOCAB_SIZE,
            unique_sentences: self.unique_sentences,
            limit_pages: self.limit_pages,
            memory: self.memory,
            threads: NonZeroUsize::new(self.threads).unwrap(),
            checkpoint: self.checkpoint,
            resume: self.resume,
            command: "a test",
            status: &Status::default(),
        })
    }

    fn build(&self, inputs: &[PathBuf], output: &Path) -> cascade_bigram::Result<Summary> {
        let limits = NgramLimits {
            min_count: 2,
            ..LIMITS
        };
        let built = self.job(inputs, output, |job| build(job, 1, limits));
        built.map(|(_, summary)| summary)
    }
}

const LIMITS: NgramLimits = NgramLimits {
    top_k: 5,
    min_count: 1,
    min_context: 2,
};

/// Counts what follows one and two tokens.
fn build_2(job: &Job<'_>) -> cascade_bigram::Result<Summary> {
    build(job, 2, LIMITS).map(|(_, summary)| summary)
}

/// A folder with three texts in it, of so many documents each.
fn corpus(documents: usize) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.txt", "b.txt", "c.txt"].map(|name| folder.path().join(name));
    for (seed, path) in (0..).zip(&paths) {
        fs::write(path, text(seed, documents)).unwrap();
    }
    (folder, paths.to_vec())
}

/// The counts of tokens and of pairs, in a few lines.
fn recount(paths: &[PathBuf]) -> (BTreeMap<u32, u64>, BTreeMap<(u32, u32), u64>) {
    let (mut tokens, mut pairs) = (BTreeMap::new(), BTreeMap::new());
    for path in paths {
        for document in fs::read_to_string(path).unwrap().split("\n\n") {
            let document = encode(document.trim_end()).unwrap();
            for token in &document {
                *tokens.entry(*token).or_insert(0) += 1;
            }
            for pair in document.windows(2) {
                *pairs.entry((pair[0], pair[1])).or_insert(0) += 1;
            }
        }
    }
    (tokens, pairs)
}

/// Counts as tables hold them: exact up to 127, and totals up to 4095; then near the count.
fn rounded(row: Option<(u64, Vec<(u32, u64)>)>) -> Option<(u64, Vec<(u32, u64)>)> {
    let near = |count: u64, exact: u64, bits: u32| match count {
        count if count < exact => count,
        count => count >> (count.ilog2() - bits),
    };
    row.map(|(total, row)| {
        let row = row
            .into_iter()
            .map(|(token, count)| (token, near(count, 128, 4)));
        (near(total, 4096, 8), row.collect())
    })
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn equals_a_recount() {
    let (folder, inputs) = corpus(300);
    let output = folder.path().join("table");
    let summary = Setting::default().build(&inputs, &output).unwrap();
    let table = NgramTable::open_any(&output).unwrap();
    let (tokens, pairs) = recount(&inputs);
    assert_eq!(summary.documents, 900);
    assert_eq!(summary.tokens, tokens.values().sum::<u64>());
    assert_eq!(summary.bigrams, pairs.values().sum::<u64>());
    assert_eq!(summary.distinct, pairs.len() as u64);
    assert_eq!(table.metadata().total_bigrams, summary.bigrams);
    for token in 0..VOCAB_SIZE as u32 {
        let count = tokens.get(&token).copied().unwrap_or_default();
        let mut row: Vec<(u32, u64)> = pairs
            .range((token, 0)..(token + 1, 0))
            .map(|(pair, count)| (pair.1, *count))
            .collect();
        row.retain(|pair| pair.1 >= 2);
        row.sort_by_key(|pair| (std::cmp::Reverse(pair.1), pair.0));
        row.truncate(5);
        let expected = (!row.is_empty()).then_some((count, row));
        let after = table.after(&[token]);
        let found = after.map(|after| (after.total(), after.collect::<Vec<_>>()));
        assert_eq!(rounded(found), rounded(expected), "{token}");
    }
    assert_eq!(names(folder.path()), ["a.txt", "b.txt", "c.txt", "table"]);
}

type Lists = BTreeMap<Vec<u32>, (u64, Vec<(u32, u64)>)>;

fn lists(table: &NgramTable) -> Lists {
    let contexts = table.contexts();
    let lists = contexts.map(|(context, after)| {
        let row = (after.total(), after.collect());
        (context, rounded(Some(row)).unwrap())
    });
    lists.collect()
}

/// What follows one and two tokens, counted naively within the limits.
fn recount_2(documents: &[&str]) -> Lists {
    let mut counts: BTreeMap<Vec<u32>, BTreeMap<u32, u64>> = BTreeMap::new();
    for document in documents {
        let document = encode(document).unwrap();
        for window in document.windows(2).chain(document.windows(3)) {
            let (next, context) = window.split_last().unwrap();
            let of = counts.entry(context.to_vec()).or_default();
            *of.entry(*next).or_default() += 1;
        }
    }
    let lists = counts.into_iter().filter_map(|(context, next)| {
        let total = next.values().sum();
        let mut next: Vec<(u32, u64)> = next.into_iter().collect();
        next.sort_by_key(|pair| (std::cmp::Reverse(pair.1), pair.0));
        next.truncate(LIMITS.top_k);
        (context.len() == 1 || total >= LIMITS.min_context).then_some((context, (total, next)))
    });
    let rounded = lists.map(|(context, row)| (context, rounded(Some(row)).unwrap()));
    rounded.collect()
}

#[test]
fn triples_equal_a_recount() {
    let (folder, inputs) = corpus(100);
    // Documents of 1 and 2 tokens, too.
    fs::write(&inputs[2], "x\n\nbx\n\nbx\n\nbxx\n\nbxx\n").unwrap();
    let output = folder.path().join("table");
    // So little memory that there are many runs, which are merged in turns.
    let setting = Setting {
        memory: Memory::Counts(1),
        checkpoint: Duration::from_millis(1),
        ..Setting::default()
    };
    let summary = setting.job(&inputs, &output, build_2).unwrap();
    let texts: Vec<String> = inputs
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let documents: Vec<&str> = texts
        .iter()
        .flat_map(|text| text.split("\n\n"))
        .map(str::trim_end)
        .filter(|of| !of.is_empty())
        .collect();
    let table = NgramTable::open_any(&output).unwrap();
    assert_eq!(lists(&table), recount_2(&documents));
    let (tokens, pairs) = recount(&inputs);
    let found = table.metadata();
    assert_eq!(found.documents, documents.len() as u64);
    assert_eq!(found.total_tokens, tokens.values().sum::<u64>());
    assert_eq!(found.total_bigrams, pairs.values().sum::<u64>());
    let triples = documents
        .iter()
        .map(|of| encode(of).unwrap().windows(3).count() as u64);
    assert_eq!(found.total_trigrams, triples.sum::<u64>());
    assert_eq!(
        (summary.bigrams, summary.trigrams),
        (found.total_bigrams, found.total_trigrams)
    );
    assert_eq!(names(folder.path()), ["a.txt", "b.txt", "c.txt", "table"]);

    let agreement = compare(&table, &table, 2).unwrap();
    assert_eq!(agreement.all.tokens, table.pairs() as u64);
    assert_eq!(
        (agreement.all.share(), agreement.all.only_first),
        (Some(1.0), 0)
    );
}

#[test]
fn triples_have_the_same_bytes_whatever_the_circumstances() {
    let (folder, mut inputs) = corpus(60);
    let output = folder.path().join("table");
    let mut expected = [None, None];
    for (threads, memory, checkpoint) in [
        (1, 64 << 20, 300_000),
        (2, 1, 300_000),
        (5, 1, 20),
        (3, 64 << 20, 1),
    ] {
        for unique_sentences in [false, true] {
            inputs.rotate_left(1);
            let setting = Setting {
                threads,
                memory: Memory::Counts(memory),
                checkpoint: Duration::from_millis(checkpoint),
                unique_sentences,
                ..Setting::default()
            };
            setting.job(&inputs, &output, build_2).unwrap();
            let bytes = fs::read(&output).unwrap();
            let expected = &mut expected[usize::from(unique_sentences)];
            assert!(*expected.get_or_insert_with(|| bytes.clone()) == bytes);
        }
    }
}

#[test]
fn repeated_sentences_are_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(
        path("a.txt"),
        "first line\nsecond line\nthird line\n\nfirst line\n",
    )
    .unwrap();
    fs::write(
        path("b.txt"),
        "second line\nfourth line\nfirst line\nfifth line\n",
    )
    .unwrap();
    fs::write(
        path("c.txt"),
        "first line\nsecond line\nthird line\n\nfourth line\n\nfifth line\n",
    )
    .unwrap();
    let setting = Setting {
        unique_sentences: true,
        ..Setting::default()
    };
    let inputs = [path("b.txt"), path("a.txt")];
    let summary = setting.job(&inputs, &path("unique"), build_2).unwrap();
    assert_eq!((summary.documents, summary.repeated_sentences), (3, 3));
    // What is left of a document around a repeated sentence is several documents.
    Setting::default()
        .job(&[path("c.txt")], &path("once"), build_2)
        .unwrap();
    let open = |name| NgramTable::open_any(path(name)).unwrap();
    assert_eq!(lists(&open("unique")), lists(&open("once")));
    let summary = setting.build(&inputs, &path("bigrams")).unwrap();
    assert_eq!(summary.repeated_sentences, 3);
    assert_eq!(summary.tokens, open("once").total_tokens());
}

#[test]
fn tables_that_cannot_be_are_refused_before_anything_is_counted() {
    let (folder, inputs) = corpus(1);
    let output = folder.path().join("table");
    let wide = |job: &Job<'_>| {
        let vocab_size = 1 << 21;
        build(&Job { vocab_size, ..*job }, 2, LIMITS).map(drop)
    };
    let error = Setting::default().job(&inputs, &output, wide).unwrap_err();
    assert!(error.to_string().contains("2097152 tokens"), "{error}");
    let few = |job: &Job<'_>| build(job, 2, NgramLimits { top_k: 0, ..LIMITS }).map(drop);
    let error = Setting::default().job(&inputs, &output, few).unwrap_err();
    assert!(error.to_string().contains("0 continuations"), "{error}");
    assert_eq!(names(folder.path()), ["a.txt", "b.txt", "c.txt"]);
}

#[test]
fn bytes_are_the_same_whatever_the_circumstances() {
    let (folder, mut inputs) = corpus(300);
    let output = folder.path().join("table");
    let mut expected = None;
    for threads in [1, 2, 5] {
        for memory in [1, 64 << 20] {
            for checkpoint in [Duration::from_millis(20), Duration::from_secs(300)] {
                inputs.rotate_left(1);
                let setting = Setting {
                    threads,
                    memory: Memory::Counts(memory),
                    checkpoint,
                    ..Setting::default()
                };
                setting.build(&inputs, &output).unwrap();
                let bytes = fs::read(&output).unwrap();
                assert!(*expected.get_or_insert_with(|| bytes.clone()) == bytes);
            }
        }
    }
}

#[test]
fn pages_can_be_limited() {
    let (folder, inputs) = corpus(300);
    let setting = Setting {
        limit_pages: Some(310),
        ..Setting::default()
    };
    let summary = setting
        .build(&inputs, &folder.path().join("table"))
        .unwrap();
    assert_eq!(summary.documents, 310);
}

#[test]
fn what_cannot_be_read_is_said_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("empty"), "").unwrap();
    fs::write(path("blank"), "\n\n \n").unwrap();
    fs::write(path("number"), "fine\n\n# not").unwrap();
    fs::write(path("latin"), b"caf\xe9 au lait").unwrap();
    fs::write(path("lines"), "{\"text\": 1}\n{\"no\": 1}\n").unwrap();
    fs::create_dir(path("folder")).unwrap();
    let before = names(folder.path());
    for (name, parts) in [
        ("missing", ["cannot open", "missing"]),
        ("folder", ["is a directory", "folder"]),
        ("empty", ["is empty", "empty"]),
        ("blank", ["no document in", "blank"]),
        ("latin", ["not valid text", "byte 3"]),
        ("number", ["document at byte 6", "there is a # in it"]),
        ("lines", ["no document in", "2 invalid lines"]),
    ] {
        let error = Setting::default()
            .build(&[path(name)], &path("table"))
            .unwrap_err()
            .to_string();
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(names(folder.path()), before);
    }
    for (output, part) in [
        ("folder", "is a folder"),
        ("no/table", "folder does not exist"),
        ("..", "is a folder"),
    ] {
        let error = Setting::default()
            .build(&[path("number")], &path(output))
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn bad_lines_are_passed_over_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("lines.jsonl");
    fs::write(
        &input,
        "{\"text\": \"abc\"}\n{\"text\": 1}\n{\"text\": \"de\"}\n",
    )
    .unwrap();
    let summary = Setting::default()
        .build(&[input], &folder.path().join("table"))
        .unwrap();
    assert_eq!(
        (summary.documents, summary.tokens, summary.bad_lines),
        (2, 5, 1)
    );
    assert!(summary.bad_line.unwrap().contains("line 2"));
}

#[test]
fn an_interrupted_count_goes_on_where_it_was_safe() {
    let (folder, inputs) = corpus(20);
    let path = |name: &str| folder.path().join(name);
    Setting::default()
        .build(&inputs, &path("expected"))
        .unwrap();
    let safe = Setting {
        checkpoint: Duration::ZERO,
        ..Setting::default()
    };
    let again = Setting {
        resume: true,
        ..Setting::default()
    };
    // The last document of the last file stops it.
    let whole = fs::read_to_string(&inputs[2]).unwrap();
    fs::write(&inputs[2], format!("{whole}\n\n#")).unwrap();
    let error = safe.build(&inputs, &path("table")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Tokenizer, "{error}");
    assert!(path("table.checkpoint").is_dir() && !path("table").exists());

    fs::write(&inputs[2], &whole).unwrap();
    let error = safe.build(&inputs, &path("table")).unwrap_err().to_string();
    assert!(
        error.contains("--resume") && error.contains("table.checkpoint"),
        "{error}"
    );
    let other = again
        .job(&inputs, &path("table"), |job| {
            build_2(&Job {
                command: "another",
                ..*job
            })
        })
        .unwrap_err()
        .to_string();
    assert!(other.contains("is of another command"), "{other}");
    let first = fs::read_to_string(&inputs[0]).unwrap();
    for changed in [first.replacen('a', "b", 1), "a".to_owned()] {
        fs::write(&inputs[0], changed).unwrap();
        fs::write(&inputs[1], "b").unwrap();
        let error = again.build(&inputs, &path("table")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Checkpoint, "{error}");
        assert!(error.to_string().contains("not those that"), "{error}");
    }
    fs::write(&inputs[0], first).unwrap();
    fs::write(&inputs[1], text(1, 20)).unwrap();

    let summary = again.build(&inputs, &path("table")).unwrap();
    assert_eq!(summary.documents, 60);
    let read = |name: &str| fs::read(path(name)).unwrap();
    assert!(read("expected") == read("table"));
    assert!(!path("table.checkpoint").exists());
    // With nothing to go on with, it begins at the beginning.
    again.build(&inputs, &path("table")).unwrap();
    assert!(read("expected") == read("table"));
}
