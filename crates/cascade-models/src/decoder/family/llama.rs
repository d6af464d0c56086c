//! LLaMA 1 to 3.2, Vicuna, TinyLlama, SmolLM 1 and 2, and many more under the same name.

use super::super::config::{Biases, DecoderConfig, FamilyDefaults};
use super::Family;
use crate::settings::Settings;
use crate::Result;

pub(super) const FAMILY: Family = Family {
    model_type: "llama",
    class: "LlamaForCausalLM",
    read,
};

fn read(settings: &mut Settings<'_>) -> Result<DecoderConfig> {
    let attention = settings.flag("attention_bias", false)?;
    Ok(DecoderConfig {
        biases: Biases {
            qkv: attention,
            output: attention,
            mlp: settings.flag("mlp_bias", false)?,
        },
        ..DecoderConfig::common(settings, &FamilyDefaults::LLAMA)?
    })
}
