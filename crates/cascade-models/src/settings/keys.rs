//! Keys of config.json that an architecture may leave unread.

use std::fmt;

use serde_json::Value;

/// What to do with the keys that an architecture does not read.
pub(crate) struct Keys {
    /// Keys that change no forward pass.
    harmless: &'static [&'static str],
    /// Keys that change a forward pass unless they have this value or are `null`.
    neutral: &'static [(&'static str, Neutral)],
}

/// A value that changes nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Neutral {
    /// None but `null`.
    Absent,
    /// No, or nothing of it: `false`, 0, or empty.
    Off,
    /// `true`
    On,
    /// A factor of one.
    One,
    /// One or none of it.
    AtMostOne,
    /// A word.
    Word(&'static str),
    /// One of these words.
    Words(&'static [&'static str]),
    /// A list of nothing but this word.
    All(&'static str),
}

impl Neutral {
    /// Whether `value` changes nothing.
    pub(crate) fn is(&self, value: &Value) -> bool {
        let number = value.as_f64();
        match self {
            Self::Absent => value.is_null(),
            Self::Off => match value {
                Value::Array(list) => list.is_empty(),
                Value::Object(entries) => entries.is_empty(),
                value => value == &Value::Bool(false) || number == Some(0.0),
            },
            Self::On => value == &Value::Bool(true),
            Self::One => number == Some(1.0),
            Self::AtMostOne => number.is_some_and(|number| number <= 1.0),
            Self::Word(word) => value == word,
            Self::Words(words) => words.iter().any(|word| value == word),
            Self::All(word) => {
                let list = value.as_array();
                list.is_some_and(|list| list.iter().all(|value| value == word))
            }
        }
    }
}

impl fmt::Display for Neutral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "null"),
            Self::Off => write!(f, "false"),
            Self::On => write!(f, "true"),
            Self::One | Self::AtMostOne => write!(f, "1"),
            Self::Word(word) => write!(f, "{word:?}"),
            Self::Words(words) => write!(f, "{words:?}"),
            Self::All(word) => write!(f, "{word:?} throughout"),
        }
    }
}

impl Keys {
    pub(super) fn is_harmless(&self, key: &str) -> bool {
        EVERYWHERE.lines().any(|known| known == key) || self.harmless.contains(&key)
    }

    pub(super) fn neutral(&self, key: &str) -> Option<&Neutral> {
        let found = self.neutral.iter().chain(WEIGHTS);
        found
            .into_iter()
            .find(|(name, _)| *name == key)
            .map(|(_, neutral)| neutral)
    }
}

/// Keys that are harmless in every architecture, one a line, by why they are.
const EVERYWHERE: &str = include_str!("harmless.txt");

/// What no architecture has code for: weights that are not as they were trained.
const WEIGHTS: &[(&str, Neutral)] = &[
    ("add_cross_attention", Neutral::Off),
    ("compression_config", Neutral::Absent),
    ("per_layer_config", Neutral::Off),
    ("pruned_heads", Neutral::Off),
    ("quantization_config", Neutral::Absent),
    ("tie_encoder_decoder", Neutral::Off),
];

/// Settings of decoders of the LLaMA family.
pub(crate) const DECODER: Keys = Keys {
    harmless: &[
        // Decoders are what these classes are.
        "is_decoder",
        // From which layer on there is a window, in classes that read use_sliding_window; it says
        // nothing without one, and that is refused by its own name.
        "max_window_layers",
        // Which hidden states transformers returns.
        "tie_last_hidden_states",
    ],
    neutral: &[
        // Of classes that have these, and of others that would pass over them.
        ("attention_bias", Neutral::Off),
        ("bias", Neutral::Off),
        ("mlp_bias", Neutral::Off),
        ("qkv_bias", Neutral::Off),
        ("use_bias", Neutral::Off),
        ("attention_chunk_size", Neutral::Absent),
        ("attention_sink_size", Neutral::Off),
        ("attn_temperature_tuning", Neutral::Off),
        ("is_causal", Neutral::On),
        ("is_encoder_decoder", Neutral::Off),
        ("layer_types", Neutral::All("full_attention")),
        ("sliding_window", Neutral::Off),
        ("sliding_window_pattern", Neutral::Absent),
        ("use_bidirectional_attention", Neutral::Off),
        ("use_sliding_window", Neutral::Off),
        ("alibi", Neutral::Off),
        ("no_rope_layer_interval", Neutral::Absent),
        ("no_rope_layers", Neutral::Absent),
        ("partial_rotary_factor", Neutral::One),
        ("position_embedding_type", Neutral::Word("rotary")),
        ("rope_interleave", Neutral::Off),
        ("rope_interleaved", Neutral::Off),
        ("rope_local_base_freq", Neutral::Absent),
        ("rotary_dim", Neutral::Absent),
        ("rotary_pct", Neutral::One),
        ("use_dynamic_ntk", Neutral::Off),
        ("use_logn_attn", Neutral::Off),
        ("use_mrope", Neutral::Off),
        ("attention_multiplier", Neutral::Absent),
        ("attn_logit_softcapping", Neutral::Absent),
        ("clip_qkv", Neutral::Absent),
        ("embedding_multiplier", Neutral::One),
        ("final_logit_softcapping", Neutral::Absent),
        ("logit_scale", Neutral::One),
        ("logits_scaling", Neutral::One),
        ("query_pre_attn_scalar", Neutral::Absent),
        ("residual_multiplier", Neutral::One),
        ("scale_depth", Neutral::Absent),
        ("scale_emb", Neutral::One),
        ("hidden_activation", Neutral::Absent),
        // hidden_act is what is read, and is one of these two in other words.
        ("activation", Neutral::Words(&["swiglu", "silu"])),
        ("parallel_residual", Neutral::Off),
        ("qk_layernorm", Neutral::Off),
        ("qk_norm", Neutral::Off),
        ("use_parallel_residual", Neutral::Off),
        ("use_qk_norm", Neutral::Off),
        ("moe_intermediate_size", Neutral::Absent),
        ("n_routed_experts", Neutral::AtMostOne),
        ("num_experts", Neutral::AtMostOne),
        ("num_experts_per_tok", Neutral::AtMostOne),
        ("num_local_experts", Neutral::AtMostOne),
        ("output_router_logits", Neutral::Off),
        ("text_config", Neutral::Absent),
        ("vision_config", Neutral::Absent),
    ],
};

/// Settings of T5.
pub(crate) const T5: Keys = Keys {
    harmless: &[
        // Positions are relative, so that no number of them is a limit.
        "n_positions",
        // Which half of the model a part of it is, which transformers sets itself.
        "is_decoder",
    ],
    neutral: &[
        ("is_encoder_decoder", Neutral::On),
        ("num_experts", Neutral::AtMostOne),
        ("num_sparse_encoder_layers", Neutral::Off),
        ("num_sparse_decoder_layers", Neutral::Off),
        ("expert_capacity", Neutral::Absent),
        ("encoder_attention_type", Neutral::Word("full")),
    ],
};
