//! Phi-3 (arXiv:2404.14219): LLaMA whose matrices of the same input are stored as one.

use super::super::config::{Absent, DecoderConfig, Stored};
use super::{with_windows, Family};
use crate::settings::Settings;
use crate::Result;

pub(super) const FAMILY: Family = Family {
    model_type: "phi3",
    class: "Phi3ForCausalLM",
    read,
};

fn read(settings: &mut Settings<'_>) -> Result<DecoderConfig> {
    let absent = Absent {
        positions: 4096,
        epsilon: 1e-5,
        ..Absent::LLAMA
    };
    let config = DecoderConfig {
        stored: Stored::Together,
        ..DecoderConfig::common(settings, &absent)?
    };
    let window = settings.window("sliding_window", None)?;
    Ok(with_windows(config, window, |_| true))
}
