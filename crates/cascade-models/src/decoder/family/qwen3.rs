//! Qwen 3 (arXiv:2505.09388): heads of queries and keys are normed before they are rotated.

use super::super::config::{Biases, DecoderConfig, FamilyDefaults};
use super::qwen2::{self, with_upper_windows};
use super::Family;
use crate::settings::Settings;
use crate::Result;

pub(super) const FAMILY: Family = Family {
    model_type: "qwen3",
    class: "Qwen3ForCausalLM",
    read,
};

fn read(settings: &mut Settings<'_>) -> Result<DecoderConfig> {
    let defaults = FamilyDefaults {
        head_dim: Some(128),
        ..qwen2::DEFAULTS
    };
    let attention = settings.flag("attention_bias", false)?;
    let config = DecoderConfig {
        biases: Biases {
            qkv: attention,
            output: attention,
            mlp: false,
        },
        head_norms: true,
        ..DecoderConfig::common(settings, &defaults)?
    };
    with_upper_windows(settings, config)
}
