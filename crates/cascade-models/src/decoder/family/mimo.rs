//! MiMo 7B (arXiv:2505.07608): as Qwen 2, with layers that predict further tokens, which are a head
//! ([`heads`](crate::heads)) and no part of a forward.

use super::super::config::{Biases, DecoderConfig};
use super::qwen2::{with_upper_windows, DEFAULTS};
use super::Family;
use crate::settings::{unsupported, Settings};
use crate::Result;

pub(super) const FAMILY: Family = Family {
    model_type: "mimo",
    class: "MiMoForCausalLM",
    read,
};

fn read(settings: &mut Settings<'_>) -> Result<DecoderConfig> {
    settings.stated("num_nextn_predict_layers");
    // The class has them whatever it says.
    if !settings.flag("attention_bias", true)? {
        return Err(unsupported("attention_bias false in a MiMo".to_owned()));
    }
    let config = DecoderConfig {
        biases: Biases {
            qkv: true,
            ..Biases::default()
        },
        ..DecoderConfig::common(settings, &DEFAULTS)?
    };
    with_upper_windows(settings, config)
}
