//! `cascade-lab bigram`, end to end, and when the machine fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::common::{self, stdout};

/// `cascade-lab bigram` with the words of a line.
pub(crate) fn command(folder: &Path, line: &str) -> Command {
    let words: Vec<&str> = std::iter::once("bigram")
        .chain(line.split_whitespace())
        .collect();
    let mut command = common::command(&words);
    command
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn run(folder: &Path, line: &str) -> Output {
    command(folder, line).output().unwrap()
}

/// Standard error of a command that must fail with a message, without a panic.
pub(crate) fn error(output: &Output) -> String {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(
        message.contains("error: ") && !message.contains("panicked"),
        "{message}"
    );
    message
}

/// Text of about this many bytes, determined by the seed.
fn text(seed: u64, bytes: usize) -> String {
    let mut rng = StdRng::seed_from_u64(seed);
    let words: Vec<String> = (0..500)
        .map(|_| {
            let letters = rng.random_range(1..9);
            (0..letters).map(|_| rng.random_range('a'..='z')).collect()
        })
        .collect();
    let mut text = String::new();
    while text.len() < bytes {
        for _ in 0..rng.random_range(1..200) {
            text += &words[rng.random_range(0..words.len())];
            text.push(' ');
        }
        text += "\n\n";
    }
    text
}

/// The command that counts inputs, by the demo's tokenizer.
pub(crate) fn build(inputs: &str, out: &str, more: &str) -> String {
    format!("build {inputs} --tokenizer embedded:demo-t5 --out {out} --threads 2 {more}")
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn builds_shows_compares_and_converts() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.txt"), "the cat\n\nthe dog\n\nthe cat").unwrap();
    fs::write(
        folder.join("enwiki-20240601.jsonl"),
        "{\"text\": \"a cat\"}\n",
    )
    .unwrap();
    let inputs = "enwiki-20240601.jsonl a.txt";
    let text = stdout(&run(folder, &build(inputs, "table", "--top-k 3")));
    for part in [
        "4 documents",
        "tokens/s",
        "table: ",
        "pairs kept for 1,280 tokens",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let text = stdout(&run(folder, "show table"));
    for part in [
        "documents        4",
        "cascade-lab bigram build a.txt enwiki-20240601.jsonl --tokenizer embedded:demo-t5 --top-k 3 --min-count 1",
        "enwiki-20240601.jsonl, 18 bytes, dump of 2024-06-01",
        "a.txt, 25 bytes",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // An embedded tokenizer is found by the table's fingerprint.
    let text = stdout(&run(folder, "show table --token ▁cat"));
    assert!(text.contains("\"▁cat\": nothing known"), "{text}");
    for (token, message) in [
        ("#2048", "outside"),
        ("a much longer text", "is not one token"),
    ] {
        let shown = command(folder, "show table --token").arg(token).output();
        let message_found = error(&shown.unwrap());
        assert!(message_found.contains(message), "{message_found}");
    }

    // Of each token itself, as a list in the form of the paper's authors.
    let list: Vec<String> = (0..1280).map(|id| id.to_string()).collect();
    fs::write(folder.join("next.json"), format!("[{}]", list.join(","))).unwrap();
    let import = "import --json next.json --tokenizer embedded:demo-t5 --out again";
    stdout(&run(folder, import));
    let text = stdout(&run(folder, "show again --id 7"));
    assert!(
        text.contains("occurs 1 times") && text.contains("100.0%"),
        "{text}"
    );
    let text = stdout(&run(folder, "compare table table"));
    let all = text.lines().last().unwrap();
    assert!(all.contains("1,280") && all.contains("100.0%"), "{text}");
    stdout(&run(folder, "show embedded:llama"));
    let message = error(&run(folder, &format!("compare table {}", shipped("t5"))));
    assert!(message.contains("another tokenizer"), "{message}");
}

pub(crate) fn shipped(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    root.join(format!("ngram-data/{name}.safetensors"))
        .display()
        .to_string()
}

#[test]
fn standard_input_is_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("a.txt"), text(0, 20_000)).unwrap();
    let mut piped = command(folder, &build("-", "piped", ""));
    piped.stdin(fs::File::open(folder.join("a.txt")).unwrap());
    stdout(&piped.output().unwrap());
    stdout(&run(folder, &build("a.txt", "named", "")));
    let text = stdout(&run(folder, "compare piped named"));
    assert!(text.lines().last().unwrap().contains("100.0%"), "{text}");
}

#[test]
fn bytes_do_not_depend_on_memory_threads_or_order() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (seed, name) in (0..).zip(["a.txt", "b.txt", "c.txt"]) {
        fs::write(folder.join(name), text(seed, 100_000)).unwrap();
    }
    let mut expected = None;
    for (inputs, threads, memory) in [
        ("a.txt b.txt c.txt", 1, "4GiB"),
        ("c.txt a.txt b.txt", 2, "256MiB"),
        ("b.txt ./a.txt c.txt", 5, "2GiB"),
    ] {
        let how = format!("--force --threads {threads} --memory {memory}");
        let line = format!("build {inputs} --tokenizer embedded:demo-t5 --out table {how}");
        stdout(&run(folder, &line));
        let bytes = fs::read(folder.join("table")).unwrap();
        assert!(*expected.get_or_insert_with(|| bytes.clone()) == bytes);
    }
    let message = error(&run(folder, &build("a.txt", "none", "--memory 1MiB")));
    let says = ["too little", "--memory"];
    assert!(says.iter().all(|part| message.contains(part)), "{message}");
}

/// Runs until something is safe in `checkpoint` if that is asked for, and for `time` more; then
/// kills. Whether a checkpoint is left.
fn killed(mut command: Command, checkpoint: &Path, safe_first: bool, time: Duration) -> bool {
    let manifest = checkpoint.join("manifest.json");
    let mut child = command.spawn().unwrap();
    let mut ended = || child.try_wait().unwrap().is_some();
    while safe_first && !manifest.exists() && !ended() {
        sleep(Duration::from_millis(1));
    }
    let end = Instant::now() + time;
    while Instant::now() < end && !ended() {
        sleep(Duration::from_millis(1));
    }
    // SIGKILL on Unix.
    child.kill().unwrap();
    child.wait().unwrap();
    manifest.exists()
}

#[test]
fn killed_at_any_moment_it_resumes_to_the_same_bytes() {
    resumes_to_the_same_bytes("", 2_000_000, 5);
}

#[test]
fn killed_at_any_moment_order_2_resumes_to_the_same_bytes() {
    resumes_to_the_same_bytes("--order 2 --unique-sentences", 700_000, 3);
}

/// In each round killed, resumed, killed again, and resumed to the end.
fn resumes_to_the_same_bytes(options: &str, bytes: usize, rounds: u32) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("text"), text(1, bytes)).unwrap();
    let begin = Instant::now();
    stdout(&run(folder, &build("text", "expected", options)));
    let whole = begin.elapsed();
    let expected = fs::read(folder.join("expected")).unwrap();

    let mut rng = StdRng::seed_from_u64(7);
    let checkpoint = folder.join("table.checkpoint");
    let safe = format!("{options} --checkpoint 0.002");
    let again = build("text", "table", &format!("{safe} --resume"));
    let mut resumed = 0;
    for round in 0..rounds {
        for line in [&build("text", "table", &safe), &again] {
            let time = whole.mul_f64(f64::from(round.min(1)) * rng.random_range(0.0..0.9));
            let left = killed(command(folder, line), &checkpoint, round % 2 == 0, time);
            resumed += usize::from(left);
            if let Ok(bytes) = fs::read(folder.join("table")) {
                assert!(bytes == expected, "a partial file under the final name");
            }
            if left {
                let message = error(&run(folder, &build("text", "table", options)));
                assert!(message.contains("unfinished count of"), "{message}");
                let other = build("text", "table", "--top-k 7 --resume");
                let message = error(&run(folder, &other));
                assert!(message.contains("of another command"), "{message}");
            }
        }
        stdout(&run(folder, &again));
        assert!(fs::read(folder.join("table")).unwrap() == expected);
        assert_eq!(names(folder), ["expected", "table", "text"]);
        let said = stdout(&run(folder, &again));
        assert!(said.contains("complete already"), "{said}");
        fs::remove_file(folder.join("table")).unwrap();
    }
    assert!(resumed > 0, "never was anything safe before the kill");
}

/// A full disk: files are limited to a few blocks.
#[cfg(unix)]
#[test]
fn a_full_disk_is_reported_and_leaves_no_partial_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("text"), text(1, 100_000)).unwrap();
    fs::write(folder.join("short"), "the cat").unwrap();
    let full = |blocks: u32, line: &str| {
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" bigram \"$@\"");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &limited, env!("CARGO_BIN_EXE_cascade-lab")])
            .args(line.split_whitespace());
        error(&shell.current_dir(folder).output().unwrap())
    };
    // The runs do not fit; then the table does not.
    for (input, blocks, file) in [("text", 4, "run-"), ("short", 16, "table")] {
        let message = full(blocks, &build(input, "table", ""));
        assert!(
            message.contains("cannot write") && message.contains(file),
            "{message}"
        );
        assert!(!folder.join("table").exists(), "{message}");
    }
    // Earlier counts were kept.
    stdout(&run(folder, &build("short", "table", "--resume")));
    assert_eq!(names(folder), ["short", "table", "text"]);
}

#[test]
fn refuses_what_it_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = |name: &str, content: &[u8]| fs::write(folder.join(name), content).unwrap();
    file("good", b"a text");
    file("cut.bz2", &BZIP2[..BZIP2.len() - 12]);
    fs::create_dir(folder.join("folder")).unwrap();
    let before = names(folder);
    for (input, part) in [
        ("missing", "cannot open missing"),
        ("cut.bz2", "bzip2 data of cut.bz2"),
    ] {
        let message = error(&run(folder, &build(&format!("good {input}"), "table", "")));
        assert!(message.contains(part), "{message}");
        assert_eq!(names(folder), before);
    }
    for (tokenizer, part) in [
        ("embedded:t6", "there is no embedded model \"t6\""),
        ("good", "good"),
        ("folder", "tokenizer.json"),
    ] {
        let line = format!("build good --tokenizer {tokenizer} --out table");
        let message = error(&run(folder, &line));
        assert!(message.contains(part), "{message}");
    }
    let laughs = b"<!DOCTYPE mediawiki [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;\">]><mediawiki>\
        <page><title>A</title><ns>0</ns><revision><text>&b;&b;</text></revision></page>\
        <page><title>B</title><ns>0</ns><revision><text>A page.</text></revision></page></mediawiki>";
    file("laughs.xml", laughs);
    let output = run(folder, &build("laughs.xml", "table", ""));
    let text = stdout(&output);
    assert!(
        text.contains("1 documents; 1 skipped: undefined or declared entity"),
        "{text}"
    );
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains("skipped the page at byte"), "{warning}");
}

#[test]
fn refuses_damaged_tables() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let table: PathBuf = shipped("demo").into();
    let bytes = fs::read(table).unwrap();
    for cut in [0, 7, 100, bytes.len() - 1] {
        fs::write(folder.join("cut"), &bytes[..cut]).unwrap();
        for line in ["show cut", "compare cut cut"] {
            let message = error(&run(folder, line));
            assert!(message.contains("cut"), "{message}");
        }
    }
    assert_eq!(names(folder), ["cut"]);
}

/// "A text that is long enough to be cut.\n", compressed.
const BZIP2: &[u8] = include_bytes!("../bigram/text.bz2");

/// Markup in a file of text would be counted as text: a warning says so, and plain text gets none.
#[test]
fn wikitext_in_a_file_of_text_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let page =
        "'''Anarchism''' is a [[political philosophy]].{{cite|Kropotkin}}\n== History ==\nText.\n";
    let prose =
        "A list [[1, 2], [3, 4]] of {{braces}} is no page.\n".replace("{{braces}}", "numbers");
    for (name, text, warned) in [("page.txt", page, true), ("prose.txt", &*prose, false)] {
        fs::write(folder.path().join(name), text).unwrap();
        let out = format!("{name}.safetensors");
        let line = format!("build {name} --tokenizer embedded:demo-t5-target --out {out}");
        let output = run(folder.path(), &line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.contains("wikitext"), warned, "{name}: {said}");
        assert_eq!(
            said.contains("page.txt begins with"),
            warned,
            "{name}: {said}"
        );
    }
}

/// A tokenizer with a piece of a type that there is none of: the message names both as numbers.
#[test]
fn a_piece_of_an_unknown_type_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let model = crate::common::project("tests/hostile/sentencepiece/type.model");
    fs::copy(model, folder.path().join("tokenizer.model")).unwrap();
    fs::write(folder.path().join("a.txt"), "Some text.\n").unwrap();
    let build = "build a.txt --tokenizer . --out a.safetensors";
    let said = error(&run(folder.path(), build));
    assert!(said.contains("its piece 0 is of type 99"), "{said}");
}
