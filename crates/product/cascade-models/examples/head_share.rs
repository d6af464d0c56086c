//! What a head's forward costs beside its target's, with random weights of a released shape, and
//! what drafts of papers' acceptance would gain with these costs.
//!
//!     cargo run --release --example head_share -p cascade-models -- vicuna-7b q8_0
//!
//! A head of EAGLE-1 is written to a temporary folder (in f16) and loaded as any other. Forwards
//! of the target and of the head alternate; times are CPU time of the process, so that what else
//! runs on the machine counts little. Needs Linux, and the memory of the target.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cascade_core::{HiddenLayer, HiddenLayers, HiddenStates, Matrix};
use cascade_core::{Observation, Scorer, TokenId, TokenTree, Want};
use cascade_models::{
    load_head, locate, parse_dtype, random_model, shape, Head, HeadSession, LoadOptions, Model,
    ModelSource,
};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Tokens before the draft.
const CONTEXT: usize = 256;
const ROUNDS: usize = 12;
/// Tokens emitted a step by chains of so many tokens, EAGLE-1 and EAGLE-3 with LLaMA-3.1-8B on
/// MT-bench, greedy, as vLLM counted them (its pull request 20780).
const CHAINS: [(usize, f64, f64); 5] = [
    (2, 2.10, 2.36),
    (3, 2.29, 2.79),
    (4, 2.39, 3.08),
    (5, 2.43, 3.32),
    (7, 2.47, 3.54),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, dtype] = &arguments[..] else {
        return Err("arguments: SHAPE DTYPE".into());
    };
    let config = shape(name).ok_or("no such shape")?;
    let options = LoadOptions {
        progress: false,
        dtype: parse_dtype(dtype)?,
        ..LoadOptions::default()
    };
    let target = random_model(config.clone(), &options)?;
    let head = head(&config, &target, &options)?;
    let text: Vec<TokenId> = (0..CONTEXT as TokenId).map(|i| 7 * i % 997).collect();
    let mut session = target.session();
    session.score(&text, &TokenTree::new(), Want::ARGMAX)?;
    let mut drafting = head.session();
    observe(
        &mut drafting,
        &text,
        config["hidden_size"].as_u64().unwrap_or(1) as usize,
    )?;

    let rows = [1, 2, 3, 4, 5, 6, 8];
    let mut seconds: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let (mut of_head, mut of_states) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for rows in rows {
            let tree = TokenTree::chain((1..rows as TokenId).map(|i| 11 * i));
            let taken = cpu(|| session.score(&text, &tree, Want::ARGMAX).map(drop))?;
            seconds.entry(rows).or_default().push(taken);
            let want = Want::ARGMAX.with_last_hidden();
            let with_states = cpu(|| session.score(&text, &tree, want).map(drop))?;
            of_states.push(taken / with_states);
            of_head.push(step(&mut drafting, &text)?);
        }
    }
    let target_times: BTreeMap<usize, f64> = seconds
        .into_iter()
        .map(|(rows, times)| (rows, median(times)))
        .collect();
    report(name, dtype, &target_times, median(of_head));
    println!(
        "\ntarget without its states: {:.3} times as fast as with them, median of pairs",
        1.0 / median(of_states)
    );
    Ok(())
}

/// One drafted token in the middle of a chain: a row of the layer, and one of the output head.
fn step(head: &mut HeadSession, text: &[TokenId]) -> Result<f64> {
    // Several rows at a time, for less noise.
    const STEPS: usize = 4;
    let context = [text, &[5]].concat();
    let first = TokenTree::chain([fresh()]);
    head.score(&context, &first, Want::ARGMAX)?;
    let taken = cpu(|| {
        let mut longer = context.clone();
        for _ in 0..STEPS {
            longer.push(fresh());
            head.score(&longer, &TokenTree::new(), Want::ARGMAX)?;
        }
        Ok(())
    })?;
    Ok(taken / STEPS as f64)
}

/// A token that was not drafted behind this text before, so that its row is computed.
fn fresh() -> TokenId {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed) % 30_000
}

/// CPU time of the process that something takes.
fn cpu(what: impl FnOnce() -> cascade_core::Result<()>) -> Result<f64> {
    let before = cpu_seconds()?;
    what()?;
    Ok(cpu_seconds()? - before)
}

/// Of all threads, from the scheduler, in nanoseconds.
fn cpu_seconds() -> Result<f64> {
    let mut all = 0.0;
    for task in fs::read_dir("/proc/self/task")? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        let running = text.split_whitespace().next().ok_or("no schedstat")?;
        all += running.parse::<f64>()? * 1e-9;
    }
    Ok(all)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// States of the whole text.
fn observe(head: &mut HeadSession, text: &[TokenId], width: usize) -> Result<()> {
    let wave = |i: usize| ((i * 37 % 211) as f32 / 105.0) - 1.0;
    let states = Matrix::new(width, (0..text.len() * width).map(wave).collect());
    let hidden = HiddenStates::default().with(HiddenLayer::Last, states);
    let none = TokenTree::new();
    let observation = Observation::new(text, &none, &[], &[5], &[5]);
    Ok(head.observe(&observation.with_hidden(Some(&hidden)))?)
}

/// A head of EAGLE-1 of this shape, from files that are written for it.
fn head(config: &Value, target: &Model, options: &LoadOptions) -> Result<Arc<Head>> {
    let folder = tempfile::tempdir()?;
    let mut own = config.clone();
    own["num_hidden_layers"] = 1.into();
    fs::write(folder.path().join("config.json"), own.to_string())?;
    write_weights(&own, &folder.path().join("model.safetensors"))?;
    let source = ModelSource::Folder(folder.path().to_owned());
    let head = load_head(locate(&source, options)?, target, options)?;
    assert!(head.info().observes == HiddenLayers::LAST);
    Ok(Arc::new(head))
}

fn write_weights(config: &Value, file: &Path) -> Result<()> {
    let size = |key: &str| config[key].as_u64().unwrap_or(0) as usize;
    let (d, inner) = (size("hidden_size"), size("intermediate_size"));
    let kv = d / size("num_attention_heads") * size("num_key_value_heads");
    let tensors: [(&str, Vec<usize>); 10] = [
        ("fc.weight", vec![d, 2 * d]),
        ("fc.bias", vec![d]),
        ("layers.0.self_attn.q_proj.weight", vec![d, d]),
        ("layers.0.self_attn.k_proj.weight", vec![kv, d]),
        ("layers.0.self_attn.v_proj.weight", vec![kv, d]),
        ("layers.0.self_attn.o_proj.weight", vec![d, d]),
        ("layers.0.mlp.gate_proj.weight", vec![inner, d]),
        ("layers.0.mlp.up_proj.weight", vec![inner, d]),
        ("layers.0.mlp.down_proj.weight", vec![d, inner]),
        ("layers.0.post_attention_layernorm.weight", vec![d]),
    ];
    let mut state = 1u32;
    let bytes: Vec<_> = tensors
        .into_iter()
        .map(|(name, shape)| {
            let halves = (0..shape.iter().product()).flat_map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Halves of about ±0.01.
                let sign = (state >> 16 & 0x8000) as u16;
                (sign | 0x2000 | (state >> 20 & 0x3ff) as u16).to_le_bytes()
            });
            (name, shape, halves.collect::<Vec<u8>>())
        })
        .collect();
    let views = bytes
        .iter()
        .map(|(name, shape, bytes)| Ok((*name, TensorView::new(Dtype::F16, shape.clone(), bytes)?)))
        .collect::<Result<Vec<_>>>()?;
    Ok(safetensors::serialize_to_file(views, None, file)?)
}

fn report(name: &str, dtype: &str, target: &BTreeMap<usize, f64>, head: f64) {
    let one = target[&1];
    println!("{name} in {dtype}, random weights, {CONTEXT} tokens before; CPU time, medians");
    println!("target, one row: {:.1} ms", 1e3 * one);
    for (rows, seconds) in target {
        println!("target, {rows} rows: {:.3} of one row", seconds / one);
    }
    println!(
        "head, one row with the output head: {:.1} ms, {:.1}% of the target's",
        1e3 * head,
        100.0 * head / one
    );
    println!("\nsimulated with these costs; tokens a step as vLLM counted them elsewhere");
    println!("{:>6}{:>12}{:>12}", "K", "EAGLE-1", "EAGLE-3");
    for (k, first, third) in CHAINS {
        let rows = target.range(k + 1..).next();
        let forward = rows.map_or(f64::NAN, |(_, seconds)| seconds / one);
        let cost = forward + k as f64 * head / one;
        println!("{k:>6}{:>12.2}{:>12.2}", first / cost, third / cost);
    }
}
