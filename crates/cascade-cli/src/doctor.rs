//! `cascade doctor`.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use cascade_config::{cpu_model, forward_times_folder};
use cascade_eval::ForwardCheck;
use cascade_models::{DType, Device, HubOptions, LoadOptions, parse_device, random_model};
use serde_json::{Map, Value, json};

use crate::exit::ExitCode;
use crate::terminal;

pub(crate) fn doctor(json: bool) -> Result<ExitCode> {
    let mut out = terminal::stdout();
    let rows = rows();
    if json {
        let fields: Map<String, Value> = rows
            .into_iter()
            .map(|(what, is)| (what.replace([' ', ':'], "_"), is))
            .collect();
        terminal::write_json(&mut out, &fields)?;
        return Ok(ExitCode::SUCCESS);
    }
    for (what, is) in rows {
        writeln!(out, "{what:<16} {}", text(&is))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What there is to say; lists are arrays.
fn rows() -> [(&'static str, Value); 15] {
    let hub = HubOptions::from_env();
    let names = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().into();
    [
        ("cascade", version().into()),
        ("built with", built_with().into()),
        (
            "system",
            format!("{} {}", std::env::consts::OS, std::env::consts::ARCH).into(),
        ),
        ("cpu model", cpu_model().into()),
        ("threads", threads().into()),
        ("cpu", "ok".into()),
        ("forward times", forward_times().into()),
        ("candle:cpu", candle("candle:cpu").into()),
        ("cuda:0", candle("cuda:0").into()),
        ("metal:0", candle("metal:0").into()),
        ("hub", endpoint(&hub).into()),
        ("hub cache", folder(&hub.cache).into()),
        (
            "hub token",
            if hub.token.is_some() { "set" } else { "none" }.into(),
        ),
        (
            "embedded models",
            names(&mut cascade_demo::CHECKPOINTS.iter().map(|c| c.name)),
        ),
        (
            "embedded tables",
            names(&mut cascade_demo::BIGRAM_TABLES.iter().copied()),
        ),
    ]
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

pub(crate) fn version() -> String {
    match option_env!("CASCADE_COMMIT") {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn built_with() -> &'static str {
    if cfg!(debug_assertions) {
        "debug build: slow, use --release"
    } else {
        "release build"
    }
}

fn threads() -> String {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    match std::env::var("RAYON_NUM_THREADS") {
        Ok(set) => format!("{set} (RAYON_NUM_THREADS), {available} available"),
        Err(_) => format!("{available}"),
    }
}

/// Whether a device of candle's can be used, and computes what our kernels do on the CPU.
fn candle(device: &str) -> String {
    let device = match parse_device(device) {
        Ok(device) => device,
        Err(error) => return format!("no: {error}"),
    };
    match agrees(&device) {
        Ok(true) => "ok; a LLaMA and a T5 say what they do with our kernels".to_owned(),
        Ok(false) => "WRONG: a LLaMA or a T5 says something else than with our kernels".to_owned(),
        Err(error) => format!("fails: {error:#}"),
    }
}

/// Whether small models with random weights have the logits that they have on the CPU, row by row
/// and several at once.
fn agrees(device: &Device) -> Result<bool> {
    // Root mean squares, in f32: orders of magnitude more than rounding, and less than a fault.
    const MOST: f64 = 1e-4;
    let models = [
        json!({"model_type": "llama", "vocab_size": 96, "hidden_size": 64, "intermediate_size": 96,
            "num_attention_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 128}),
        json!({"model_type": "t5", "vocab_size": 96, "d_model": 64, "d_kv": 32, "d_ff": 96,
            "num_heads": 2, "num_layers": 2}),
    ];
    let check = ForwardCheck {
        contexts: vec![40],
        rows: vec![1, 9],
        source: 20,
        seed: 1,
    };
    let mut all = true;
    for config in models {
        let session = |device: &Device| {
            let options = LoadOptions {
                device: device.clone(),
                dtype: DType::F32,
                ..LoadOptions::default()
            };
            random_model(config.clone(), &options).map(|model| model.session())
        };
        let (mut there, mut here) = (session(device)?, session(&Device::Cpu)?);
        let compared = check.run(&mut there, Some(&mut here))?;
        all &= compared.iter().all(|forward| forward.passes(MOST, false));
    }
    Ok(all)
}

/// How many models' forwards have been timed here, and where the times are kept.
fn forward_times() -> String {
    let Some(folder) = forward_times_folder() else {
        return "measured at each load: there is no folder to keep them in".to_owned();
    };
    let files = std::fs::read_dir(&folder).map_or(0, |files| files.flatten().count());
    format!("of {files} models, in {}", folder.display())
}

fn endpoint(hub: &HubOptions) -> String {
    if hub.offline {
        format!("{}, offline (HF_HUB_OFFLINE): cache only", hub.endpoint)
    } else {
        hub.endpoint.clone()
    }
}

fn folder(path: &Path) -> String {
    let state = if path.is_dir() {
        ""
    } else {
        " (does not exist yet)"
    };
    format!("{}{state}", path.display())
}
