//! Every reader over every hostile file: an error that names the file, or success, and nothing
//! else.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Address space of the readers. Threads and mapped files take part of it.
const MEMORY_KIB: u64 = 3 << 20;

/// Runs all readers over files, and fails with what the program said about those that do not pass.
fn survive(files: &[PathBuf]) {
    survive_in(&std::env::temp_dir(), files);
}

/// Runs all readers over files, with the copies that they read in a folder of `temporary`.
fn survive_in(temporary: &Path, files: &[PathBuf]) {
    let script = format!("ulimit -v {MEMORY_KIB}; ulimit -c 0; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_read-hostile")])
        .args(files)
        .env("HF_HUB_OFFLINE", "1")
        .env("TMPDIR", temporary)
        .env("RAYON_NUM_THREADS", "2")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let good = ["read\t", "error\t"];
    let bad: Vec<&str> = said
        .lines()
        .filter(|line| line.contains('\t') && !good.iter().any(|start| line.starts_with(start)))
        .collect();
    let last = said.lines().last().unwrap_or("nothing");
    let errors = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<&str> = errors.lines().rev().take(20).collect();
    assert!(
        output.status.success(),
        "{}: {bad:#?}; the last reader that passed: {last}; its last messages, backwards: {tail:#?}",
        output.status
    );
    assert!(said.lines().count() >= files.len(), "{said}");
}

fn hostile() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/hostile")
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found.sort();
    found
}

#[test]
fn of_the_committed_files() {
    let files = files(&hostile());
    assert!(files.len() > 150, "{}", files.len());
    // In memory, if there is such a folder: a disk takes longer than the readers.
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let temporary = folder.path();
    // Several processes at once: the readers are slow in debug builds.
    std::thread::scope(|scope| {
        for part in files.chunks(files.len().div_ceil(4)) {
            scope.spawn(move || survive_in(temporary, part));
        }
    });
}

#[test]
fn every_reader_has_examples_of_its_own() {
    for reader in cascade_hostile::READERS {
        let folder = hostile().join(reader.name);
        let good = files(&folder)
            .into_iter()
            .find(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.starts_with("good")
            })
            .unwrap_or_else(|| panic!("{} has no good example", folder.display()));
        let place = tempfile::tempdir().unwrap();
        let read = reader.read_bytes(&fs::read(&good).unwrap(), place.path());
        read.unwrap_or_else(|error| panic!("{}: {error}", good.display()));
    }
}

#[test]
fn of_what_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let devices = ["/dev/zero", "/dev/urandom", "/dev/full"].map(PathBuf::from);
    let mut all = vec![pipe, folder.path().to_owned()];
    all.extend(devices);
    survive(&all);
}

/// A file of `times` copies of a piece.
fn repeated(folder: &Path, name: &str, piece: &[u8], times: usize) -> PathBuf {
    let path = folder.join(name);
    let mut file = std::io::BufWriter::new(File::create(&path).unwrap());
    (0..times).for_each(|_| file.write_all(piece).unwrap());
    file.flush().unwrap();
    path
}

#[test]
#[ignore = "8 GB come out of decompressors"]
fn of_decompression_bombs() {
    let folder = tempfile::tempdir().unwrap();
    let zeros = vec![b'0'; 4 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&zeros).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    bzip2.write_all(&zeros).unwrap();
    let bzip2 = bzip2.finish().unwrap();
    let zstd = zstd::bulk::compress(&zeros, 1).unwrap();
    survive(&[
        repeated(folder.path(), "bomb.gz", &gzip, 2000),
        repeated(folder.path(), "bomb.bz2", &bzip2, 2000),
        repeated(folder.path(), "bomb.zst", &zstd, 2000),
    ]);
}

#[test]
#[ignore = "gigabytes are read"]
fn of_files_of_many_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let sparse = folder.path().join("sparse");
    File::create(&sparse).unwrap().set_len(6 << 30).unwrap();
    let line = repeated(folder.path(), "line.json", &[b'a'; 1 << 20], 80);
    let arrays = repeated(folder.path(), "arrays.json", &b"[],".repeat(1 << 18), 24);
    let deep = repeated(folder.path(), "deep.json", &[b'['; 1 << 20], 8);
    let blank = repeated(folder.path(), "blank.jsonl", &[b'\n'; 1 << 20], 16);
    survive(&[sparse, line, arrays, deep, blank]);
}
