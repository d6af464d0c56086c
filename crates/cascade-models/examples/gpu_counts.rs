//! What the kernels of a forward do, counted by the PTX interpreter: one layer and the head of a
//! released model's shape, with random weights. It is what a profiler would say but for time;
//! beside it stands the time that an H200 needs at least for as much: to read the weights, to begin
//! the instructions, to multiply the tiles, and for the banks of shared memory. `full` is the share
//! of what is moved that lanes ask for (above 1 where they ask for the same), `extra` how many
//! times as long banks take as if lanes never met. `waits` is how often the latency of memory
//! passes while the warp that waits most waits for what it has loaded, launch after launch, and
//! `kB` what warps have under way when they wait, in the mean. Rows are a chain; with a `t`, a tree
//! of a path and a sibling of each of its nodes.
//!
//!     cargo run --release -p cascade-models --example gpu_counts -- vicuna-7b 128 1,8,16,64
//!
//! A fourth argument names the type (`bf16`), a fifth another PTX file, whose kernels take the same
//! arguments, to compare them with.
#![allow(clippy::unwrap_used)]

use cascade_core::{Scorer, TokenTree, Want};
use cascade_gpu_emulator::{Counts, Emulator, ExecutionOrder};
use cascade_models::{random_model, shape, DType, Device, LoadOptions, Session};

/// Instructions of warps that an H200 begins in a microsecond: four a clock in each of 132
/// multiprocessors, at 1.755 GHz.
const INSTRUCTIONS: f64 = 4.0 * 132.0 * 1755.0;
/// Products of tiles: four tensor cores in a multiprocessor, each 512 products a clock.
const TILES: f64 = 132.0 * 1755.0 * 4.0 * 512.0 / 2048.0;
/// Turns of its shared memories in a microsecond.
const TURNS: f64 = 132.0 * 1755.0;
/// Bytes of its memory that it reads in a microsecond.
const BYTES: f64 = 4.8e6;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or("vicuna-7b".to_owned());
    let context: usize = arguments
        .next()
        .map_or(128, |number| number.parse().unwrap());
    let rows = arguments.next().unwrap_or("1,8,16,64".to_owned());
    let dtype: DType = arguments
        .next()
        .map_or(DType::BF16, |name| name.parse().unwrap());
    let mut config = shape(&name).unwrap_or_else(|| panic!("there is no shape {name}"));
    for layers in ["num_hidden_layers", "num_layers", "num_decoder_layers"] {
        if config.get(layers).is_some() {
            config[layers] = 1.into();
        }
    }
    let gpu = match arguments.next() {
        None => Emulator::new(ExecutionOrder::Forward),
        Some(file) => {
            let ptx = std::fs::read_to_string(file).unwrap();
            Emulator::of(&ptx, ExecutionOrder::Forward).unwrap()
        }
    };
    let options = LoadOptions {
        device: Device::Gpu(gpu.device()),
        dtype,
        ..LoadOptions::default()
    };
    let model = random_model(config, &options).unwrap();
    println!("{name}, one layer and the head in {dtype}, {context} tokens of context; counted, not measured");
    println!(
        "{:>4} {:<20} {:>8} {:>9} {:>8} {:>9} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>6}",
        "rows",
        "kernel",
        "launches",
        "weights",
        "us",
        "instr.",
        "us",
        "tiles us",
        "banks us",
        "full",
        "extra",
        "waits",
        "kB"
    );
    let mut session = model.session();
    session.set_source(&[1, 2, 3]).ok();
    let text: Vec<u32> = (0..context as u32 + 1).map(|i| i % 1000).collect();
    session
        .score(&text[..context], &TokenTree::default(), Want::ARGMAX)
        .unwrap();
    for rows in rows.split(',') {
        let rows: usize = rows.parse().unwrap();
        // One row says what follows the last token of the text.
        let draft: Vec<u32> = (1..rows as u32).collect();
        count(
            &gpu,
            &mut session,
            &text,
            "",
            TokenTree::chain(draft.iter().copied()),
        );
        if rows > 2 {
            count(&gpu, &mut session, &text, "t", with_siblings(&draft));
        }
    }
}

/// As many nodes as tokens: a path, and before each of its nodes a sibling.
fn with_siblings(tokens: &[u32]) -> TokenTree {
    let (mut tree, mut parent) = (TokenTree::new(), None);
    for pair in tokens.chunks(2) {
        if let [sibling, _] = pair {
            tree.push(*sibling, parent);
        }
        parent = pair.last().map(|&token| tree.push(token, parent));
    }
    tree
}

/// Counts a forward over a draft behind a context that is there; `kind` is `t` for trees.
fn count(gpu: &Emulator, session: &mut Session, text: &[u32], kind: &str, draft: TokenTree) {
    let rows = format!("{}{kind}", draft.len() + 1);
    gpu.count();
    session.score(text, &draft, Want::ARGMAX).unwrap();
    let mut total = Counts::default();
    for (kernel, counts) in gpu.counts() {
        show(&rows, &kernel, &counts);
        total.launches += counts.launches;
        total.instructions += counts.instructions;
        total.constants.bytes += counts.constants.bytes;
        total.tiles += counts.tiles;
        total.shared.turns += counts.shared.turns;
        total.shared.fewest_turns += counts.shared.fewest_turns;
        total.waits += counts.waits;
        total.awaited += counts.awaited;
        // Launches come one after the other.
        total.latencies += counts.launches as f64 * counts.latencies;
    }
    show(&rows, "all", &total);
}

fn show(rows: &str, kernel: &str, counts: &Counts) {
    let share = |part: u64, whole: u64| match whole {
        0 => "-".to_owned(),
        _ => format!("{:.2}", part as f64 / whole as f64),
    };
    let traffic = [counts.loads, counts.constants, counts.copies];
    let sectors: u64 = traffic.iter().map(|traffic| traffic.sectors).sum();
    let bytes: u64 = traffic.iter().map(|traffic| traffic.bytes).sum();
    println!(
        "{rows:>4} {kernel:<20} {:>8} {:>6.1} MB {:>8.1} {:>7.2} M {:>8.1} {:>8.1} {:>8.1} {:>6} {:>6} {:>6.1} {:>6.1}",
        counts.launches,
        counts.constants.bytes as f64 / 1e6,
        counts.constants.bytes as f64 / BYTES,
        counts.instructions as f64 / 1e6,
        counts.instructions as f64 / INSTRUCTIONS,
        counts.tiles as f64 / TILES,
        counts.shared.turns as f64 / TURNS,
        share(bytes, sectors * 32),
        share(counts.shared.turns, counts.shared.fewest_turns),
        counts.latencies,
        counts.awaited as f64 / counts.waits.max(1) as f64 / 1e3,
    );
}
