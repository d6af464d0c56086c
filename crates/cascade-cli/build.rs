//! Sets `CASCADE_COMMIT` to the commit that the program is built from, unless it is set already.
//!
//! Outside a checkout of this repository it stays unset, without an error.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The program's sources, relative to this crate.
const SOURCES: [&str; 4] = [
    "../../crates",
    "../../configs",
    "../../Cargo.toml",
    "../../Cargo.lock",
];

fn main() {
    println!("cargo::rerun-if-env-changed=CASCADE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CASCADE_COMMIT").is_some() || !is_own_checkout() {
        return;
    }
    // A commit moves HEAD or its branch; an edit makes the sources differ from the commit.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        watch(git(&["rev-parse", "--git-path", name]));
    }
    for source in SOURCES {
        watch(Some(source.to_owned()));
    }
    if let Some(commit) = git(&["rev-parse", "HEAD"]) {
        println!("cargo::rustc-env=CASCADE_COMMIT={commit}{}", edited());
    }
}

/// Whether this is the repository's own checkout, and not a copy inside another repository.
fn is_own_checkout() -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    let top = git(&["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    let top = top.and_then(|top| canonical(&top));
    top.is_some() && top == canonical(Path::new("../.."))
}

/// `-dirty`, as in `git describe`, if a source differs from the commit.
fn edited() -> &'static str {
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    match git(&[&status[..], &SOURCES].concat()).as_deref() {
        Some("") | None => "",
        Some(_) => "-dirty",
    }
}

/// Watches existing files only: cargo treats a missing file as changed.
fn watch(path: Option<String>) {
    if let Some(path) = path.filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// The output of git, or nothing if it fails or is missing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
