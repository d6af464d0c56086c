//! What the attention of a layer costs at several numbers of rows, the keys and values of 32 layers
//! in turn, so that they come from memory as in a forward: `cargo run --release --example attention
//! -p cascade-cpu [KEYS] [HEADS] [HEADS OF KEYS] [HEAD SIZE]`.

use std::time::Instant;

use cascade_cpu::{
    Cache, CacheMemory, CacheShape, CacheType, Isa, KvPart, ScoreBias, TextAttention, attend_texts,
};

const ROWS: [usize; 6] = [1, 4, 8, 16, 32, 64];
const LAYERS: usize = 32;
const REPEATS: usize = 9;

fn main() {
    let arguments: Vec<usize> = std::env::args()
        .skip(1)
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{text}: a number")))
        .collect();
    let number = |at: usize, default| arguments.get(at).copied().unwrap_or(default);
    let (keys, heads) = (number(0, 272), number(1, 32));
    let (kv_heads, head_dim) = (number(2, 4), number(3, 64));
    println!(
        "{} threads, {}; microseconds of a layer with {keys} keys, {heads} heads, {kv_heads} of keys, of {head_dim}",
        rayon::current_num_threads(),
        Isa::chosen().unwrap_or_else(|problem| panic!("{problem}"))
    );
    let shape = CacheShape {
        layers: LAYERS,
        kv_heads,
        head_dim,
    };
    let mut cache = Cache::new(shape, CacheType::F32, CacheMemory::default());
    cache.reserve(keys);
    let values = |seed: usize| -> Vec<f32> {
        let value = |i: usize| ((i * 37 + seed * 101) % 251) as f32 / 125.0 - 1.0;
        (0..head_dim).map(value).collect()
    };
    for (layer, row) in (0..LAYERS).flat_map(|layer| (0..keys).map(move |row| (layer, row))) {
        for head in 0..kv_heads {
            cache.write(layer, KvPart::Keys, head, row, &values(row + layer));
            cache.write(layer, KvPart::Values, head, row, &values(row + head));
        }
    }
    cache.commit(keys);
    for rows in ROWS.into_iter().filter(|&rows| rows <= keys) {
        let queries: Vec<f32> = (0..heads * rows).flat_map(&values).collect();
        let mut bias = vec![0.0; rows * keys];
        for (row, bias) in bias.chunks_exact_mut(keys).enumerate() {
            bias[keys - rows + row + 1..].fill(f32::NEG_INFINITY);
        }
        let bias = match rows {
            1 => ScoreBias::None,
            _ => ScoreBias::Shared(&bias),
        };
        let pass = || {
            let start = Instant::now();
            for layer in 0..LAYERS {
                let text = TextAttention {
                    queries: &queries,
                    keys_values: cache.keys_values(layer, keys),
                    bias,
                };
                std::hint::black_box(attend_texts(vec![text], heads, head_dim));
            }
            start.elapsed().as_secs_f64() / LAYERS as f64
        };
        let mut times: Vec<f64> = (0..REPEATS).map(|_| pass()).collect();
        times.sort_by(f64::total_cmp);
        println!("{rows:>4} rows {:>9.1}", times[REPEATS / 2] * 1e6);
    }
}
