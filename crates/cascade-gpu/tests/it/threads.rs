//! Threads that share a GPU: the one that `CASCADE_TEST_DEVICE` names, or the mock CUDA driver's.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use std::process::Command;

use crate::common::decoder::{random_text, Decoder, Shape};
use crate::common::{bits, named_gpu};
use cascade_gpu::{DType, Device};

/// Set in a process that takes the library for the driver.
const INSIDE: &str = "CASCADE_TEST_THREADS";

/// What one thread records is not mixed with what others do meanwhile.
#[test]
fn threads_share_a_gpu() {
    if named_gpu().is_none() && std::env::var_os(INSIDE).is_none() {
        return with_a_driver("threads::threads_share_a_gpu");
    }
    // A device that outlives the threads, so that they share it.
    let _device = gpu();
    let alone: Vec<Vec<u32>> = (0..4).map(logits).collect();
    let together = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| scope.spawn(move || logits(seed)))
            .collect();
        let logits = threads.into_iter().map(|thread| thread.join().unwrap());
        logits.collect::<Vec<_>>()
    });
    assert!(alone == together);
}

/// The GPU; the mock driver runs its blocks in any order.
fn gpu() -> Device {
    Device::gpu(named_gpu().unwrap_or(2)).unwrap()
}

/// Logits of a text, read in pieces of many sizes, each of which is recorded.
fn logits(seed: u64) -> Vec<u32> {
    let device = gpu();
    let decoder = Decoder::new(&device, DType::BF16, Shape::SMALL);
    let text = random_text(seed, 30, Shape::SMALL.vocabulary);
    bits(&decoder.read(&decoder.cache(), 0, &text, &[1, 2, 3, 5, 9, 10]))
}

/// Runs a test in a process that takes the library for the driver.
fn with_a_driver(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    cascade_cuda_mock::install(folder.path()).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env("LD_LIBRARY_PATH", folder.path())
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
