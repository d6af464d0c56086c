//! What a product with weights in each format costs at several numbers of rows, beside what memory
//! could deliver: `cargo run --release --example product -p cascade-cpu [MILLIONS OF WEIGHTS]
//! [INPUTS] [NAMES OF FORMATS …]`.

use std::time::Instant;

use cascade_cpu::{Format, Isa, Linear, Packed};

const ROWS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const REPEATS: usize = 9;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default| {
        arguments
            .get(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let (weights, inputs) = (number(0, 256usize) << 20, number(1, 2048usize));
    let outputs = weights / inputs;
    println!(
        "{} threads, {}",
        rayon::current_num_threads(),
        Isa::chosen().unwrap_or_else(|problem| panic!("{problem}"))
    );
    println!(
        "{:6} {:>9} {}",
        "",
        "GB/s at 1",
        ROWS.map(|rows| format!("{rows:>13}")).concat()
    );
    for format in Format::ALL {
        if arguments.len() > 2 && !arguments[2..].iter().any(|name| name == format.as_str()) {
            continue;
        }
        let row = vec![0x35; inputs / format.block_values() * format.block_bytes()];
        let packed = Packed::from_rows(format, inputs, outputs, |_, to| to.copy_from_slice(&row))
            .expect("memory for weights");
        let bytes = packed.bytes();
        let linear = Linear::of_parts(vec![packed.into()]);
        let times = ROWS.map(|rows| {
            let input = vec![0.25; rows * inputs];
            let mut times: Vec<f64> = (0..REPEATS)
                .map(|_| {
                    let start = Instant::now();
                    std::hint::black_box(linear.forward(&input));
                    start.elapsed().as_secs_f64()
                })
                .collect();
            times.sort_by(f64::total_cmp);
            times[REPEATS / 2]
        });
        let shown = times.map(|time| format!("{:>6.1} {:>5.2}×", time * 1e3, time / times[0]));
        println!(
            "{format:6} {:>9.1} {}",
            bytes as f64 / times[0] / 1e9,
            shown.concat()
        );
    }
}
