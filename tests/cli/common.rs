//! Runs the command, and checks how it ends.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs `cascade`, without a network and without models in the hub's cache.
pub(crate) fn cascade(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cascade"))
        .args(args)
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .env("HF_HOME", "/nonexistent/hf")
        .env_remove("HF_HUB_OFFLINE")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs `cascade` with a text on standard input, as [`cascade`] otherwise.
pub(crate) fn piped(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cascade"))
        .args(args)
        .env("HF_ENDPOINT", "http://127.0.0.1:9")
        .env("HF_HOME", "/nonexistent/hf")
        .env_remove("HF_HUB_OFFLINE")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that does not read its input closes it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
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

/// The configuration of a demo family with a K matrix, so that what is drafted does not depend on
/// times.
pub(crate) fn demo_with_k(family: &str) -> String {
    let demo = std::fs::read_to_string(project(&format!("configs/demo-{family}.yaml")));
    format!(
        "{}k: {{ matrix: [[6, 1, 1], [0, 1, 1], [0, 0, 1]] }}\n",
        demo.unwrap()
    )
}

/// A file of the repository.
pub(crate) fn project(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).display().to_string()
}
