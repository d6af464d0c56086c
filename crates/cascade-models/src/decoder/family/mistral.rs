//! Mistral (arXiv:2310.06825): LLaMA with a sliding window in all layers.

use super::super::config::{DecoderConfig, FamilyDefaults};
use super::{sliding_layers, with_windows, Family};
use crate::settings::{unsupported, Settings};
use crate::Result;

pub(super) const FAMILY: Family = Family {
    model_type: "mistral",
    class: "MistralForCausalLM",
    read,
};

fn read(settings: &mut Settings<'_>) -> Result<DecoderConfig> {
    let defaults = FamilyDefaults {
        kv_heads: Some(8),
        positions: 4096 * 32,
        ..FamilyDefaults::LLAMA
    };
    let config = DecoderConfig::common(settings, &defaults)?;
    // A window that is not said is one of 4,096; `null` is none.
    let window = settings.window("sliding_window", Some(4096))?;
    // The class passes over this key, and files that have it may mean it.
    if let Some(sliding) = sliding_layers(settings, config.layers.len())? {
        if sliding.iter().any(|&sliding| sliding != window.is_some()) {
            return Err(unsupported(
                "layer_types of a Mistral whose layers differ".to_owned(),
            ));
        }
    }
    Ok(with_windows(config, window, |_| true))
}
