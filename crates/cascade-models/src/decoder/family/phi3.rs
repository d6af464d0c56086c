//! Phi-3 (arXiv:2404.14219): LLaMA whose matrices of the same input are stored as one.

use super::super::config::{DecoderConfig, FamilyDefaults, ProjectionLayout};
use super::{with_windows, Family};
use crate::settings::Settings;
use crate::Result;

pub(super) const FAMILY: Family = Family {
    model_type: "phi3",
    class: "Phi3ForCausalLM",
    read,
};

fn read(settings: &mut Settings<'_>) -> Result<DecoderConfig> {
    let defaults = FamilyDefaults {
        positions: 4096,
        epsilon: 1e-5,
        ..FamilyDefaults::LLAMA
    };
    let config = DecoderConfig {
        stored: ProjectionLayout::Fused,
        ..DecoderConfig::common(settings, &defaults)?
    };
    let window = settings.window("sliding_window", None)?;
    Ok(with_windows(config, window, |_| true))
}
