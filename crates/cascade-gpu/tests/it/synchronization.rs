//! Every barrier, wait and order of a counter in the kernels is needed, and the emulator notices
//! when one is missing. So its verdict on kernels with all of them means something.
#![allow(clippy::unwrap_used)]

use crate::common::batch::Batch;
use crate::common::decoder::{random_text, Decoder, Shape};
use crate::common::store::Store;
use crate::common::{cache, EPSILON, ONE_HEAD};
use cascade_gpu::{DType, Device, Error, Heads, Loader, Runner, StorageDType, WorkspaceSizes};
use cascade_gpu_emulator::{emulating, ExecutionOrder};
use rand::rngs::StdRng;
use rand::SeedableRng;

const PTX: &str = include_str!("../../kernels/kernels.sm90.ptx");

/// Instructions that order what threads, blocks and kernels do, and what is weaker.
const ORDERING: [(&str, &[&str]); 4] = [
    ("bar.sync", &[""]),
    ("cp.async.wait_group", &[""]),
    ("griddepcontrol.wait", &[""]),
    ("atom.acq_rel", &["atom.acquire", "atom.release"]),
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

/// A linear map of so many inputs that every part of them goes through the ring of stages more than
/// once.
fn wide(device: &Device, dtype: DType) -> Result<(), Error> {
    const INPUTS: usize = 2816;
    let mut rng = StdRng::seed_from_u64(2);
    let mut store = Store::default();
    for (name, shape) in [
        ("table", &[8, INPUTS][..]),
        ("norm", &[INPUTS]),
        ("head", &[16, INPUTS]),
    ] {
        store.random(&mut rng, name, shape, StorageDType::BF16, 1.0);
    }
    let mut loader = Loader::new(device, dtype, &store);
    let table = loader.table("table", 8, INPUTS)?;
    let norm = loader.norm("norm", INPUTS)?;
    let head = loader.linear(INPUTS, &[("head", 16)])?;
    let mut sizes = WorkspaceSizes::new(INPUTS, EPSILON, ONE_HEAD, 16);
    sizes.cover(&head);
    let mut runner = Runner::new(device, dtype, sizes)?;
    let cache = cache(device, dtype, ONE_HEAD, 64);
    for rows in [64, 17, 9, 1] {
        let batch = Batch::chain(&vec![3; rows], 0);
        runner.forward(&batch.rows(), &cache, None, |f| {
            f.embed(&table, &norm);
            f.logits(&head, 1.0);
        })?;
    }
    Ok(())
}

/// Forwards that launch a kernel.
fn forwards_with(kernel: &str, device: &Device) -> Result<(), Error> {
    let dtype = match kernel {
        of_f16 if of_f16.contains("_f16") => DType::F16,
        of_blocks if of_blocks.contains("_q8") => DType::Q8,
        _ => DType::BF16,
    };
    match kernel {
        "linear_f32" | "attention_f32" => forwards(device, DType::F32, 32),
        "norm_heads" => run(&Decoder::with_normed_heads(device, DType::BF16, shape(32))),
        attention if attention.starts_with("attention_") => {
            let head = attention.rsplit('_').next().unwrap().parse().unwrap();
            forwards(device, dtype, head)
        }
        linear if linear.starts_with("linear_") => {
            wide(device, dtype)?;
            forwards(device, dtype, 32)
        }
        _ => forwards(device, dtype, 32),
    }
}

/// A kernel, the number of a line that orders something, and a line that does so less.
struct Weaker {
    kernel: &'static str,
    number: usize,
    line: String,
}

/// All of them: an instruction is left out, or orders but half of what it did.
fn weaker() -> Vec<Weaker> {
    let mut kernel = "";
    let mut found = Vec::new();
    for (number, line) in PTX.lines().enumerate() {
        if let Some(name) = line.strip_prefix(".visible .entry cascade_") {
            kernel = name.trim_end_matches('(');
        }
        let ordering = ORDERING
            .iter()
            .filter(|(code, _)| line.trim().starts_with(code));
        for (code, weaker) in
            ordering.flat_map(|(code, weaker)| weaker.iter().map(move |w| (code, w)))
        {
            let line = match *weaker {
                "" => String::new(),
                weaker => line.replace(code, weaker),
            };
            found.push(Weaker {
                kernel,
                number,
                line,
            });
        }
    }
    found
}

impl Weaker {
    fn ptx(&self) -> String {
        let lines = PTX.lines().enumerate();
        let changed = lines.map(|(n, line)| if n == self.number { &self.line } else { line });
        changed.collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn kernels_order_what_their_threads_do() {
    for kernel in [
        "attention_f32",
        "attention_bf16_64",
        "attention_bf16_128",
        "norm_heads",
        "top",
        "linear_bf16_2",
        "linear_q8_2",
        "linear_f16_2",
        "attention_f16_64",
    ] {
        let device = emulating(PTX, ExecutionOrder::Random(1)).unwrap();
        forwards_with(kernel, &device).unwrap();
    }
}

#[test]
#[ignore = "half a minute: a forward for each barrier, wait and counter that there is"]
fn a_missing_barrier_wait_or_order_is_noticed() {
    missing_order_is_noticed(
        |kernel| !kernel.contains("_f16") && !kernel.contains("_q8"),
        60,
    );
}

#[test]
#[ignore = "half a minute: a forward for each barrier, wait and counter that there is"]
fn a_missing_barrier_wait_or_order_is_noticed_in_f16() {
    missing_order_is_noticed(|kernel| kernel.contains("_f16"), 30);
}

#[test]
#[ignore = "half a minute: a forward for each barrier, wait and counter that there is"]
fn a_missing_barrier_wait_or_order_is_noticed_in_blocks() {
    missing_order_is_noticed(|kernel| kernel.contains("_q8"), 20);
}

/// In kernels of some names, which have more than so many lines that order something.
fn missing_order_is_noticed(of: fn(&str) -> bool, least: usize) {
    let mut all = weaker();
    all.retain(|weaker| of(weaker.kernel));
    assert!(all.len() > least, "{} instructions", all.len());
    for weaker in all {
        let Weaker { kernel, number, .. } = weaker;
        let device = emulating(&weaker.ptx(), ExecutionOrder::Forward).unwrap();
        let run = forwards_with(kernel, &device);
        // A forward's first kernel has none before it that it might overlap.
        let harmless = kernel.starts_with("embed");
        let line = PTX.lines().nth(number).unwrap().trim();
        let instead = weaker.line.trim();
        match run {
            Ok(()) => assert!(
                harmless,
                "{kernel}: `{line}` (line {}) is not missed where there is `{instead}`",
                number + 1
            ),
            Err(Error::Kernel { kernel: wrong, .. }) => assert_eq!(wrong, kernel, "{line}"),
            Err(other) => panic!("{kernel}: {other}"),
        }
    }
}
