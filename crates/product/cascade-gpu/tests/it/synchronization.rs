//! Every barrier, fence and wait of the kernels is needed, and the emulator notices when one is
//! missing. So what it says of kernels with all of them means something.
#![allow(clippy::unwrap_used)]

use crate::common::batch::Batch;
use crate::common::decoder::{random_text, Decoder, Shape};
use cascade_gpu::{DType, Device, Error, ExecutionOrder, Heads};

const PTX: &str = include_str!("../../kernels/kernels.sm90.ptx");

/// Instructions that order what threads, blocks and kernels do.
const ORDERING: [&str; 4] = [
    "bar.sync",
    "membar.gl",
    "cp.async.wait_group",
    "griddepcontrol.wait",
];

/// Several slices of it for the readout.
const VOCABULARY: usize = 2064;

/// Forwards of all kinds of kernels: few rows and many, several splits of the keys, several slices
/// of the vocabulary.
fn forwards(device: &Device, dtype: DType, head: usize) -> Result<(), Error> {
    run(&Decoder::new(device, dtype, shape(head)))
}

fn shape(head: usize) -> Shape {
    let heads = Heads {
        queries: 2,
        kv: 1,
        size: head,
    };
    Shape {
        heads,
        vocabulary: VOCABULARY,
    }
}

fn run(decoder: &Decoder) -> Result<(), Error> {
    let (mut runner, cache) = (decoder.runner(), decoder.cache());
    let text = random_text(1, 155, VOCABULARY);
    let mut past = 0;
    for rows in [64, 64, 17, 9, 1] {
        let mut batch = Batch::chain(&text[past..past + rows], past);
        batch.wanted = 1;
        batch.picks = (0..40).map(|token| (0, token)).collect();
        decoder.run(&mut runner, &batch, &cache)?;
        past += rows;
    }
    runner.top(1, 3)?;
    runner.profile(1).map(|_| ())
}

/// Forwards that launch a kernel.
fn forwards_with(kernel: &str, device: &Device) -> Result<(), Error> {
    match kernel {
        "linear_f32" | "attention_f32" => forwards(device, DType::F32, 32),
        "norm_heads" => run(&Decoder::with_normed_heads(device, DType::BF16, shape(32))),
        "attention_bf16_64" => forwards(device, DType::BF16, 64),
        "attention_bf16_128" => forwards(device, DType::BF16, 128),
        _ => forwards(device, DType::BF16, 32),
    }
}

/// Kernels and lines of instructions that order something.
fn ordering() -> Vec<(&'static str, usize)> {
    let mut kernel = "";
    let mut found = Vec::new();
    for (number, line) in PTX.lines().enumerate() {
        if let Some(name) = line.strip_prefix(".visible .entry cascade_") {
            kernel = name.trim_end_matches('(');
        }
        if ORDERING.iter().any(|code| line.trim().starts_with(code)) {
            found.push((kernel, number));
        }
    }
    found
}

fn without_line(number: usize) -> String {
    let lines = PTX.lines().enumerate();
    let kept = lines.filter(|&(n, _)| n != number).map(|(_, line)| line);
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn kernels_order_what_their_threads_do() {
    for kernel in [
        "attention_f32",
        "attention_bf16_64",
        "attention_bf16_128",
        "norm_heads",
        "top",
    ] {
        let device = Device::emulating(PTX, ExecutionOrder::Random(1)).unwrap();
        forwards_with(kernel, &device).unwrap();
    }
}

#[test]
#[ignore = "half a minute: a forward for each barrier, fence and wait that there is"]
fn a_missing_barrier_fence_or_wait_is_noticed() {
    let all = ordering();
    assert!(all.len() > 60, "{} instructions", all.len());
    for (kernel, number) in all {
        let device = Device::emulating(&without_line(number), ExecutionOrder::Forward).unwrap();
        let run = forwards_with(kernel, &device);
        // A forward's first kernel has none before it that it might overlap.
        let harmless = kernel == "embed";
        let line = PTX.lines().nth(number).unwrap().trim();
        match run {
            Ok(()) => assert!(
                harmless,
                "{kernel}: `{line}` (line {}) is not missed",
                number + 1
            ),
            Err(Error::Kernel { kernel: wrong, .. }) => assert_eq!(wrong, kernel, "{line}"),
            Err(other) => panic!("{kernel}: {other}"),
        }
    }
}
