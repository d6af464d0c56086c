//! Qwen 2 and 2.5 (arXiv:2407.10671): biases of queries, keys and values; a window in the upper
//! layers, if it is used.

use std::num::NonZeroUsize;

use super::super::config::{Biases, DecoderConfig, FamilyDefaults};
use super::{sliding_layers, with_windows, Family};
use crate::settings::Settings;
use crate::Result;

pub(super) const FAMILY: Family = Family {
    model_type: "qwen2",
    class: "Qwen2ForCausalLM",
    read,
};

pub(super) const DEFAULTS: FamilyDefaults = FamilyDefaults {
    kv_heads: Some(32),
    positions: 32_768,
    ..FamilyDefaults::LLAMA
};

fn read(settings: &mut Settings<'_>) -> Result<DecoderConfig> {
    let config = DecoderConfig {
        biases: Biases {
            qkv: true,
            ..Biases::default()
        },
        ..DecoderConfig::common(settings, &DEFAULTS)?
    };
    with_upper_windows(settings, config)
}

/// Windows as both Qwens have them.
pub(super) fn with_upper_windows(
    settings: &mut Settings<'_>,
    config: DecoderConfig,
) -> Result<DecoderConfig> {
    let window = settings.window("sliding_window", Some(4096))?;
    let used = settings.flag("use_sliding_window", false)?;
    let first = settings.optional_size("max_window_layers")?.unwrap_or(28);
    let listed = sliding_layers(settings, config.layers.len())?;
    let window: Option<NonZeroUsize> = window.filter(|_| used);
    Ok(with_windows(config, window, |i| match &listed {
        Some(sliding) => sliding[i],
        None => i >= first,
    }))
}
