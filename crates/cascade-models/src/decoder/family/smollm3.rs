//! SmolLM3: every fourth layer knows no positions (arXiv:2501.18795).

use super::super::config::{Biases, DecoderConfig, FamilyDefaults, LayerKind};
use super::{sliding_layers, with_windows, Family};
use crate::checks::bad;
use crate::settings::Settings;
use crate::Result;

pub(super) const FAMILY: Family = Family {
    model_type: "smollm3",
    class: "SmolLM3ForCausalLM",
    read,
};

fn read(settings: &mut Settings<'_>) -> Result<DecoderConfig> {
    let defaults = FamilyDefaults {
        kv_heads: Some(4),
        positions: 32_768,
        theta: 2_000_000.0,
        tied: true,
        ..FamilyDefaults::LLAMA
    };
    let attention = settings.flag("attention_bias", false)?;
    let config = DecoderConfig {
        biases: Biases {
            qkv: attention,
            output: attention,
            mlp: settings.flag("mlp_bias", false)?,
        },
        ..DecoderConfig::common(settings, &defaults)?
    };
    let layers = config.layers.len();
    let rotated = rotated_layers(settings, layers)?;
    let window = settings.window("sliding_window", None)?;
    let used = settings.flag("use_sliding_window", false)?;
    let listed = sliding_layers(settings, layers)?;
    let sliding = listed.unwrap_or_else(|| rotated.iter().map(|rotated| !rotated).collect());
    let config = config.with_layers(|i| LayerKind {
        rotated: rotated[i],
        window: None,
    });
    Ok(with_windows(config, window.filter(|_| used), |i| {
        sliding[i]
    }))
}

/// Which layers are rotated: those that `no_rope_layers` has a 1 for, or all but one in each
/// `no_rope_layer_interval`.
fn rotated_layers(settings: &mut Settings<'_>, layers: usize) -> Result<Vec<bool>> {
    let interval = settings
        .optional_size("no_rope_layer_interval")?
        .unwrap_or(4);
    let flag = |value: &serde_json::Value| match value.as_u64() {
        Some(flag @ 0..=1) => Some(flag == 1),
        _ => value.as_bool(),
    };
    let list: Option<Vec<bool>> =
        settings.optional("no_rope_layers", "a list of 0 and 1", |value| {
            value.as_array()?.iter().map(flag).collect()
        })?;
    match list {
        Some(list) if list.len() < layers => Err(bad(format!(
            "no_rope_layers has {} entries for {layers} layers",
            list.len()
        ))),
        Some(list) => Ok(list),
        None if interval == 0 => Err(bad("no_rope_layer_interval is 0".to_owned())),
        None => Ok((1..=layers)
            .map(|layer| !layer.is_multiple_of(interval))
            .collect()),
    }
}
