//! Runs the command, and checks how it ends.

use std::env::consts::EXE_SUFFIX;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The program that has a command: `cascade`, or `cascade-lab`. One of them is a program of the
/// package whose tests run; the other stands beside it where those of the workspace are built.
pub(crate) fn program_of(args: &[&str]) -> PathBuf {
    let own = option_env!("CARGO_BIN_EXE_cascade").or(option_env!("CARGO_BIN_EXE_cascade-lab"));
    let line: Vec<OsString> = std::iter::once(&"cascade")
        .chain(args)
        .map(OsString::from)
        .collect();
    let name = if cascade_cli::laboratory::asked(&line).is_some() {
        "cascade-lab"
    } else {
        "cascade"
    };
    let program = Path::new(own.unwrap()).with_file_name(format!("{name}{EXE_SUFFIX}"));
    assert!(program.exists(), "{program:?}: build the workspace first");
    program
}

/// `cascade` or `cascade-lab`, without a network, without models in the hub's cache and without
/// input.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(program_of(args));
    command
        .args(args)
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .env("HF_HOME", "/nonexistent/hf")
        .env_remove("HF_HUB_OFFLINE")
        .stdin(Stdio::null());
    command
}

/// Runs a [`command`].
pub(crate) fn cascade(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Standard output of a command that must succeed.
pub(crate) fn stdout(output: &Output) -> String {
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error of a command that must fail with a message, without a panic. Notes may stand
/// before the message.
pub(crate) fn error(output: &Output) -> String {
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    let mut lines = message
        .lines()
        .skip_while(|line| line.starts_with("note: "));
    let is_error = lines.next().is_some_and(|line| line.starts_with("error: "));
    let clean = is_error && !message.contains("panicked");
    assert!(clean, "{message}");
    message
}

/// A file of the repository.
pub(crate) fn project(path: &str) -> String {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = folders.find(|folder| folder.join("Cargo.lock").exists());
    root.unwrap().join(path).display().to_string()
}
