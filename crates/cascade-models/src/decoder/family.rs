//! The families, by what config.json calls them.

mod llama;
mod mimo;
mod mistral;
mod phi3;
mod qwen2;
mod qwen3;
mod smollm3;

use std::num::NonZeroUsize;

use serde_json::Value;

use super::config::{DecoderConfig, LayerKind};
use crate::checks::bad;
use crate::settings::Settings;
use crate::Result;

/// A kind of config.json.
pub(crate) struct Family {
    /// The `model_type` of the family.
    model_type: &'static str,
    /// What stands first in `architectures`.
    class: &'static str,
    pub(super) read: fn(&mut Settings<'_>) -> Result<DecoderConfig>,
}

/// All families.
const FAMILIES: &[Family] = &[
    llama::FAMILY,
    mistral::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    mimo::FAMILY,
    smollm3::FAMILY,
    phi3::FAMILY,
];

/// The family of a config.json, by its `model_type`, or by its class if it has none.
pub(crate) fn of(config: &Value) -> Option<&'static Family> {
    let (model_type, class) = (&config["model_type"], &config["architectures"][0]);
    FAMILIES.iter().find(|family| match model_type.as_str() {
        Some(model_type) => family.model_type == model_type,
        None => class == family.class,
    })
}

/// What `layer_types` says of each layer: whether it has the window. `None` if it is absent.
fn sliding_layers(settings: &mut Settings<'_>, layers: usize) -> Result<Option<Vec<bool>>> {
    let form = "a list of \"full_attention\" and \"sliding_attention\"";
    let sliding = |value: &Value| match value.as_str() {
        Some("full_attention" | "attention") => Some(false),
        Some("sliding_attention") => Some(true),
        _ => None,
    };
    let read = |value: &Value| value.as_array()?.iter().map(sliding).collect();
    let list: Option<Vec<bool>> = settings.optional("layer_types", form, read)?;
    match list {
        Some(list) if list.len() != layers => Err(bad(format!(
            "layer_types has {} entries for {layers} layers",
            list.len()
        ))),
        list => Ok(list),
    }
}

/// Gives sliding layers their window.
fn with_windows(
    config: DecoderConfig,
    window: Option<NonZeroUsize>,
    sliding: impl Fn(usize) -> bool,
) -> DecoderConfig {
    let kinds = config.layers.clone();
    config.with_layers(|i| LayerKind {
        window: window.filter(|_| sliding(i)),
        ..kinds[i]
    })
}
