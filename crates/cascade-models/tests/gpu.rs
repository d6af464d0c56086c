//! Models on a GPU against the same on the CPU, with the demo checkpoints.
//!
//! Where there is no GPU, its kernels run in an emulator, which is slow: so few rows.

#![allow(clippy::unwrap_used)]

mod demo;

use cascade_core::{Scorer, TokenTree, Want};
use cascade_models::{load, DType, Device, LoadOptions, LoadedModel, ModelSource};

fn model(name: &str, device: Device, dtype: DType) -> LoadedModel {
    let source = ModelSource::Folder(demo::folder(name));
    let options = LoadOptions {
        device,
        dtype,
        ..LoadOptions::default()
    };
    load(&source, &options).unwrap()
}

fn emulated() -> Device {
    Device::Gpu(cascade_gpu::Device::emulated(false))
}

#[test]
fn logits_are_those_of_the_cpu() {
    for name in ["demo-llama-small", "demo-t5-small", "demo-llama-base", "demo-t5-base"] {
        for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::BF16, 3e-2)] {
            let (cpu, gpu) = (
                model(name, Device::Cpu, DType::F32),
                model(name, emulated(), dtype),
            );
            let mut tree = TokenTree::new();
            let first = tree.push(40, None);
            tree.push(41, None);
            tree.push(42, Some(first));
            let t5 = name.contains("t5");
            let run = |model: &LoadedModel| {
                let mut session = model.session();
                if t5 {
                    let source: Vec<u32> = (5..90).collect();
                    session.begin(&source).unwrap();
                }
                let scores = session.score(&[7, 8, 9, 10, 11], &tree, Want::LOGITS).unwrap();
                (scores.logits.unwrap(), scores.argmax)
            };
            let (start, (expected, argmax)) = (std::time::Instant::now(), run(&cpu));
            let (found, found_argmax) = run(&gpu);
            let mut worst = 0f32;
            for row in 0..expected.rows() {
                let most = expected.row(row).iter().fold(0f32, |a, b| a.max(b.abs()));
                for (a, b) in found.row(row).iter().zip(expected.row(row)) {
                    worst = worst.max((a - b).abs() / most);
                }
            }
            println!("{name} {dtype:?} worst {worst:e} {argmax:?} {found_argmax:?} {:?}", start.elapsed());
            assert!(worst < tolerance, "{name} {dtype:?}: {worst}");
        }
    }
}
