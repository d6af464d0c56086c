//! Ctrl-C, on systems that have it as a signal.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{command, project};
use crate::line::words;

fn start(args: &[&str]) -> Child {
    command(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupt(child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
}

/// What a command said that Ctrl-C has ended.
fn ended(child: Child) -> (String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let (out, err) = (
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    );
    assert_eq!(status.code(), Some(130), "{out}\n{err}");
    assert!(err.contains("interrupted: "), "{err}");
    (out, err)
}

#[test]
fn a_run_prints_its_totals_and_how_to_go_on() {
    let mut child = start(&words(
        "run --dataset problems --offset 3 --limit 400 --max-new-tokens 400",
        &[],
    ));
    // It answers the first question.
    let mut some = [0; 200];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut some)
        .unwrap();
    interrupt(&child);
    let (_, err) = ended(child);
    assert!(
        err.contains("[1/400]") && err.contains("total: ") && err.contains("tokens/s"),
        "{err}"
    );
    assert!(
        err.contains("of 400 answers") && err.contains("--offset "),
        "{err}"
    );
}

#[test]
fn an_interrupted_recording_says_how_to_go_on_and_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.jsonl");
    let trace = path.display().to_string();
    let config = project("configs/demo-llama.yaml");
    let args = words(
        "trace record --config {} --dataset problems --limit 400 --max-new-tokens 100 \
        --output {}",
        &[&config, &trace],
    );
    let child = start(&args);
    let begun = Instant::now();
    let lines = || {
        std::fs::read_to_string(&path)
            .unwrap_or_default()
            .lines()
            .count()
    };
    while lines() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    let (_, err) = ended(child);
    assert!(
        err.contains("of 400 records") && err.contains("--resume"),
        "{err}"
    );
    let recorded = lines();
    let child = start(&[&args[..], &["--resume"]].concat());
    while lines() <= recorded {
        assert!(begun.elapsed() < Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    ended(child);
}

#[test]
fn a_run_of_several_texts_at_once_ends_too() {
    let args = "run --dataset problems --limit 400 --max-new-tokens 400 --batch 4 --json";
    let mut child = start(&args.split(' ').collect::<Vec<_>>());
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    assert!(stdout.read_line(&mut line).unwrap() > 0);
    interrupt(&child);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let (_, err) = ended(child);
    assert!(rest.lines().all(|line| line.ends_with('}')), "{rest}");
    assert!(err.contains("--offset "), "{err}");
}
