//! What cannot be printed is no success, and neither that nor a missing thread is a panic.
#![cfg(unix)]

use std::process::{Command, Output, Stdio};

use crate::common::{command, error, program_of};

/// Everything that prints, of `cascade`.
const COMMANDS: [&str; 13] = [
    "completions bash",
    "completions zsh",
    "--help",
    "--version",
    "run -h",
    "help serve",
    "man",
    "man bench model",
    "doctor",
    "doctor --json",
    "config init -m embedded:demo-llama-target",
    "run --quiet --limit 1 --max-new-tokens 4",
    "check-lossless --generations 1 --max-new-tokens 4",
];

/// And of `cascade-lab`.
const OF_LABORATORY: [&str; 4] = ["completions fish", "--help", "man", "theory table1"];

fn commands() -> impl Iterator<Item = (String, Command)> {
    let own = COMMANDS.into_iter().map(|line| (line, command(&[])));
    let other = OF_LABORATORY.into_iter();
    let other = other.map(|line| (line, Command::new(program_of(&["tune"]))));
    own.chain(other).map(|(line, mut command)| {
        command.args(line.split(' ')).stdin(Stdio::null());
        (format!("{:?}: {line}", command.get_program()), command)
    })
}

#[test]
fn a_full_disk_is_an_error() {
    for (line, mut command) in commands() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let message = error(&command.stdout(full.unwrap()).output().unwrap());
        assert!(message.contains("No space left"), "{line}: {message}");
    }
}

/// As a shell says of a program that the signal has ended.
#[test]
fn a_reader_that_has_left_is_an_exit_status() {
    for (line, mut command) in commands() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let Output { status, stderr, .. } = command.stdout(writer).output().unwrap();
        let message = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(141), "{line}: {message}");
        let said = message.contains("panicked") || message.contains("error: ");
        assert!(!said, "{line}: {message}");
    }
}

/// Where the stack of a thread is larger than memory, none can be had.
#[test]
fn threads_that_cannot_be_had_are_a_sentence() {
    for line in [
        "run --quiet --limit 1 --max-new-tokens 4",
        "run --dataset problems --limit 2 --batch 2 --max-new-tokens 4",
        "run --prompt x --max-new-tokens 4",
        "chat",
        "serve --port 0",
        "check-lossless --certificate --tokens 20",
    ] {
        let mut command = command(&line.split(' ').collect::<Vec<_>>());
        let stack = (1_u64 << 46).to_string();
        let output = command.env("RUST_MIN_STACK", stack).output().unwrap();
        let message = error(&output);
        assert!(message.contains("thread"), "{line}: {message}");
    }
}
