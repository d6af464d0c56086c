//! `cascade doctor`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use cascade_models::{parse_device, Device, HubOptions};

pub(crate) fn doctor() -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let hub = HubOptions::from_env();
    let rows = [
        ("cascade", version()),
        ("built with", built_with()),
        (
            "system",
            format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        ),
        ("cpu model", cpu_model()),
        ("threads", threads()),
        ("cpu", "ok".to_owned()),
        ("cuda:0", cuda()),
        ("hub", endpoint(&hub)),
        ("hub cache", folder(&hub.cache)),
        (
            "hub token",
            if hub.token.is_some() { "set" } else { "none" }.to_owned(),
        ),
        (
            "embedded models",
            names(cascade_demo::CHECKPOINTS.iter().map(|c| c.name)),
        ),
        (
            "embedded tables",
            names(cascade_demo::BIGRAM_TABLES.iter().copied()),
        ),
    ];
    for (what, is) in rows {
        writeln!(out, "{what:<16} {is}")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn version() -> String {
    match option_env!("CASCADE_COMMIT") {
        Some(commit) => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn built_with() -> String {
    let profile = if cfg!(debug_assertions) {
        "debug build: slow, use --release"
    } else {
        "release build"
    };
    format!("candle {}, {profile}", cascade_models::CANDLE_VERSION)
}

pub(crate) fn cpu_model() -> String {
    let features = cascade_models::cpu_features();
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
    let model = model.unwrap_or_else(|| "unknown".to_owned());
    format!("{model} ({})", features.join(" "))
}

fn threads() -> String {
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    match std::env::var("RAYON_NUM_THREADS") {
        Ok(set) => format!("{set} (RAYON_NUM_THREADS), {available} available"),
        Err(_) => format!("{available}"),
    }
}

fn cuda() -> String {
    match parse_device("cuda:0") {
        Ok(Device::Gpu(gpu)) => match gpu.memory() {
            Ok((used, all)) => {
                let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
                format!(
                    "{}, {:.1} of {:.1} GiB in use",
                    gpu.name(),
                    gib(used),
                    gib(all)
                )
            }
            Err(error) => format!("{}, but {error}", gpu.name()),
        },
        Ok(Device::Cpu) => "cpu".to_owned(),
        Err(error) => format!("no: {error}"),
    }
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

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
