//! What kernels do to memory, counted: weights are read once and in one go, and lanes do not wait
//! for each other at shared memory's banks.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;

use crate::common::batch::Batch;
use crate::common::decoder::{inner, random_text, Decoder, Shape, STREAM};
use cascade_gpu::{Activation, DType, Device, Heads, BLOCK};
use cascade_gpu_emulator::{Counts, Emulator, ExecutionOrder};

const VOCABULARY: usize = 2064;
const ROWS: [usize; 6] = [1, 8, 9, 17, 33, 64];

fn decoder(device: &Device, dtype: DType, head: usize) -> Decoder {
    let heads = Heads {
        queries: 4,
        kv: 2,
        size: head,
    };
    let vocabulary = VOCABULARY;
    Decoder::new(device, dtype, Shape { heads, vocabulary })
}

/// What kernels do in `work`.
fn counted(emulator: &Emulator, work: impl FnOnce()) -> HashMap<String, Counts> {
    emulator.count();
    work();
    emulator.counts().into_iter().collect()
}

#[test]
fn weights_are_read_once_and_in_one_go() {
    for dtype in [DType::BF16, DType::F16, DType::Q8] {
        weights_are_read_once_in(dtype);
    }
}

fn weights_are_read_once_in(dtype: DType) {
    let emulator = Emulator::new(ExecutionOrder::Forward);
    let device = emulator.device();
    let decoder = decoder(&device, dtype, 32);
    let (mut runner, cache) = (decoder.runner(), decoder.cache());
    let layer = &decoder.layers[0];
    for rows in ROWS {
        let batch = Batch::chain(&random_text(1, rows, VOCABULARY), 0);
        // Without attention nothing is a constant but weights.
        let counts = counted(&emulator, || {
            let forward = runner.forward(&batch.rows(), &cache, None, |f| {
                f.embed(&decoder.table, &layer.norms[0]);
                f.activate(&layer.gated, Activation::Silu);
                f.add_inner(&layer.down, &decoder.norm);
                f.logits(&decoder.head, 1.0);
            });
            forward.unwrap();
        });
        let read = counts.values().map(|counts| counts.constants);
        let bytes: u64 = read.clone().map(|read| read.bytes).sum();
        // The head is stored in tiles of sixteen outputs, of which there are 129.
        let weights = STREAM * (3 * inner(dtype) + VOCABULARY);
        let stored = dtype.weight_bytes(weights) as u64;
        // Four lanes ask for the same scales, which are moved once.
        let again = match dtype {
            DType::Q8 => 3 * (weights / BLOCK * 2) as u64,
            _ => 0,
        };
        assert_eq!(bytes, stored + again, "{dtype:?}, {rows} rows");
        assert_eq!(read.map(|read| read.sectors * 32).sum::<u64>(), stored);
    }
}

#[test]
fn lanes_do_not_meet_in_banks() {
    let emulator = Emulator::new(ExecutionOrder::Forward);
    let device = emulator.device();
    let bf16 = [32, 64, 128].map(|head| (DType::BF16, head));
    for (dtype, head) in bf16.into_iter().chain([(DType::Q8, 32)]) {
        let decoder = decoder(&device, dtype, head);
        let (mut runner, cache) = (decoder.runner(), decoder.cache());
        let text = random_text(2, ROWS.iter().sum(), VOCABULARY);
        let mut past = 0;
        for rows in ROWS {
            let batch = Batch::chain(&text[past..past + rows], past);
            let counts = counted(&emulator, || {
                decoder.run(&mut runner, &batch, &cache).unwrap()
            });
            for (kernel, counts) in counts {
                let shared = counts.shared;
                // The readout compares pairs of a number and a token, eight bytes apart.
                let most = match kernel.as_str() {
                    "logits" => 2 * shared.fewest_turns,
                    _ => shared.fewest_turns,
                };
                assert!(shared.turns <= most, "{kernel}, {rows} rows: {shared:?}");
            }
            past += rows;
        }
    }
}
