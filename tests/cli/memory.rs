//! Memory that is not there: an answer or an error, never a crash.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::common::{cascade, error, program_of};
use crate::line::{assert_says, words};

/// Limits in KiB, of which the greatest is enough for every command here.
const LIMITS: std::ops::RangeInclusive<usize> = 60_000..=700_000;
const STEP: usize = 37_000;

/// The command in a process of so many KiB of address space.
fn limited(kib: usize, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            &format!("ulimit -v {kib}; ulimit -c 0; exec \"$0\" \"$@\""),
        ])
        .arg(program_of(args))
        .args(args)
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .env("HF_HOME", "/nonexistent/hf")
        .env("RAYON_NUM_THREADS", "4")
        .stdin(Stdio::null());
    command
}

/// The limits under which the program begins at all: it has to be mapped.
fn limits() -> impl Iterator<Item = usize> {
    let begins = |kib: &usize| {
        let version = limited(*kib, &["--version"]).output().unwrap();
        version.status.success()
    };
    LIMITS.step_by(STEP).filter(begins)
}

/// Whether a command succeeded; if not, it must have said why.
#[track_caller]
fn succeeded(kib: usize, output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let clean = !said.contains("panicked") && !said.contains("memory allocation");
    assert!(clean, "{kib}: {:?}: {said}", output.status);
    match output.status.code() {
        Some(0) => true,
        Some(2) if said.lines().any(|line| line.starts_with("error: ")) => false,
        _ => panic!("{kib}: {:?}: {said}", output.status),
    }
}

/// Runs a command under all limits, of which the least is too little and the greatest enough.
fn under_all_limits(args: &[&str], prepare: impl Fn()) {
    let mut ends = limits().map(|kib| {
        prepare();
        succeeded(kib, &limited(kib, args).output().unwrap())
    });
    assert_eq!(ends.next(), Some(false));
    assert_eq!(ends.last(), Some(true));
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_ends_well_under_every_limit() {
    let args = words(
        "run --config embedded:demo-llama --max-new-tokens 2 {}",
        &["2 apples"],
    );
    under_all_limits(&args, || ());
}

#[test]
#[cfg(target_os = "linux")]
fn a_count_ends_well_under_every_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (text, table) = (folder.path().join("a.txt"), folder.path().join("table"));
    fs::write(&text, "two apples and three pears\n".repeat(1000)).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (text, table) = (path(&text), path(&table));
    let args = words(
        "bigram build {} --tokenizer embedded:demo-llama --out {} --force",
        &[&text, &table],
    );
    under_all_limits(&args, || {
        let _ = fs::remove_dir_all(format!("{table}.partial"));
    });
}

/// A server that has begun to listen is ended.
#[test]
#[cfg(target_os = "linux")]
fn a_server_starts_or_says_why_not() {
    let mut started = 0;
    for kib in limits() {
        let mut command = limited(kib, &["serve", "--port", "0", "--device", "cpu"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        if line.starts_with("listening on") {
            started += 1;
            child.kill().unwrap();
            child.wait().unwrap();
            continue;
        }
        let mut stderr = Vec::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_end(&mut stderr)
            .unwrap();
        let status = child.wait().unwrap();
        let output = Output {
            status,
            stdout: Vec::new(),
            stderr,
        };
        assert!(!succeeded(kib, &output));
    }
    assert!(started > 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_pipe_without_line_breaks_does_not_fill_the_memory() {
    let zeros = fs::File::open("/dev/zero").unwrap();
    let mut command = limited(2_000_000, &["chat"]);
    let said = error(&command.stdin(zeros).output().unwrap());
    assert!(said.contains("64 MiB"), "{said}");
}

#[test]
fn models_that_are_too_large_are_refused_or_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({
        "model_type": "llama", "hidden_size": 65_536, "intermediate_size": 65_536, "num_hidden_layers": 10_000,
        "num_attention_heads": 8, "vocab_size": 16, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
    });
    fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    for file in ["tokenizer.json", "model.safetensors"] {
        fs::write(folder.path().join(file), "").unwrap();
    }
    let cascade_of = "{ target: { model: ., dtype: bf16 }, drafters: [{ max_gram: {} }], k: { matrix: [[5]] }, device: cpu }";
    let file = folder.path().join("large.yaml");
    fs::write(&file, cascade_of).unwrap();
    let args = ["run", "--config", file.to_str().unwrap(), "hi"];
    let refused = error(&cascade(&args));
    assert_says(
        &refused,
        "can be had ( … `dtype: q8_0` … --allow-memory-overcommit",
    );
    assert!(!refused.contains("dtype: bf16"), "{refused}");
    let output = cascade(&[&args[..], &["--allow-memory-overcommit"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = said
        .lines()
        .filter(|line| !line.starts_with("note: "))
        .collect();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        lines[0].starts_with("warning: ") && lines[0].contains("can be had ("),
        "{said}"
    );
    assert!(lines[1].contains("is not a tokenizer"), "{said}");
}
