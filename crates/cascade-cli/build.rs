//! Tells the program which commit it is built from, as `CASCADE_COMMIT`, unless whoever builds it has said so.
//!
//! Outside of a checkout of this repository nothing is told, and nothing fails.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program is made of, from this crate's folder.
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
    // A commit moves HEAD or the branch that it names; an edit makes the sources others than the commit's.
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

/// Whether this is the repository's own checkout, and not a copy inside of another one.
fn is_own_checkout() -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    let top = git(&["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    let top = top.and_then(|top| canonical(&top));
    top.is_some() && top == canonical(Path::new("../.."))
}

/// `-dirty`, as `git describe` says it, if a source is not as it was committed.
fn edited() -> &'static str {
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    match git(&[&status[..], &SOURCES].concat()).as_deref() {
        Some("") | None => "",
        Some(_) => "-dirty",
    }
}

/// Cargo takes a file that is not there for one that has changed.
fn watch(path: Option<String>) {
    if let Some(path) = path.filter(|path| Path::new(path).exists()) {
        println!("cargo::rerun-if-changed={path}");
    }
}

/// What git says, or nothing if it fails or is not there.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
