//! Keys of config.json that an architecture may leave unread.

use std::fmt;

use serde_json::Value;

/// What to do with the keys that an architecture does not read.
pub(crate) struct Keys {
    /// Why a key changes no forward pass, and the keys. The reasons are for whoever reads this.
    harmless: &'static [(&'static str, &'static [&'static str])],
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
        let tables = EVERYWHERE.iter().chain(self.harmless);
        tables.into_iter().any(|(_, keys)| keys.contains(&key))
    }

    pub(super) fn neutral(&self, key: &str) -> Option<&Neutral> {
        let found = self.neutral.iter().chain(WEIGHTS);
        found
            .into_iter()
            .find(|(name, _)| *name == key)
            .map(|(_, neutral)| neutral)
    }
}

/// Harmless in every architecture.
const EVERYWHERE: &[(&str, &[&str])] = &[
    (
        "names and versions",
        &[
            "_name_or_path",
            "name_or_path",
            "_commit_hash",
            "architectures",
            "auto_map",
            "custom_pipelines",
            "is_llama_config",
            "language",
            "license",
            "model_name",
            "model_type",
            "tags",
            "tokenizer_class",
            "transformers.js_config",
            "transformers_version",
            "unsloth_fixed",
            "unsloth_version",
        ],
    ),
    (
        "the type that weights are stored in is in the files, and what to compute in is said apart",
        &["dtype", "torch_dtype"],
    ),
    (
        "training alone",
        &[
            "attention_dropout",
            "attention_probs_dropout_prob",
            "classifier_dropout",
            "dropout",
            "dropout_rate",
            "embd_dropout",
            "embd_pdrop",
            "ep_size",
            "gradient_checkpointing",
            "hidden_dropout",
            "hidden_dropout_prob",
            "initializer_factor",
            "initializer_range",
            "label_smoothing",
            "loss_type",
            "neftune_noise_alpha",
            "resid_pdrop",
            "resid_dropout",
            "router_aux_loss_coef",
            "z_loss_coefficient",
        ],
    ),
    (
        "how transformers computes the same: caches, kernels, the order of sums (pretraining_tp, \
         which transformers 5 ignores), forms of what is returned",
        &[
            "_attn_implementation",
            "_attn_implementation_autoset",
            "_attn_implementation_internal",
            "_flash_attn_2_enabled",
            "_output_attentions",
            "attn_implementation",
            "cache_implementation",
            "chunk_size_feed_forward",
            "is_composition",
            "keys_to_ignore_at_inference",
            "output_attentions",
            "output_hidden_states",
            "output_past",
            "pretraining_tp",
            "return_dict",
            "tf_legacy_loss",
            "torchscript",
            "use_bfloat16",
            "use_cache",
            "use_flash_attention",
            "use_flash_attention_2",
            "use_flash_attn",
        ],
    ),
    (
        "the length of training texts, or of what the tokenizer cuts; max_position_embeddings says \
         how far positions go, and relative ones have no end",
        &[
            "max_seq_len",
            "max_seq_length",
            "max_sequence_length",
            "model_max_length",
            "seq_length",
            "tokenizer_model_max_length",
            "tokenizer_padding_side",
        ],
    ),
    (
        "heads of classifiers",
        &[
            "finetuning_task",
            "id2label",
            "label2id",
            "num_labels",
            "problem_type",
            "task_specific_params",
        ],
    ),
    (
        "tokens, which the tokenizer and generation_config.json know; whoever needs one of these \
         reads it",
        &[
            "bos_token_id",
            "cls_token_id",
            "decoder_start_token_id",
            "eos_token_id",
            "mask_token_id",
            "pad_token_id",
            "prefix",
            "sep_token_id",
            "unk_token_id",
        ],
    ),
    (
        "defaults of transformers' generate, which is not what generates here",
        &[
            "bad_words_ids",
            "begin_suppress_tokens",
            "diversity_penalty",
            "do_sample",
            "early_stopping",
            "encoder_no_repeat_ngram_size",
            "exponential_decay_length_penalty",
            "forced_bos_token_id",
            "forced_eos_token_id",
            "length_penalty",
            "max_length",
            "max_new_tokens",
            "min_length",
            "no_repeat_ngram_size",
            "num_beam_groups",
            "num_beams",
            "num_return_sequences",
            "output_scores",
            "remove_invalid_values",
            "repetition_penalty",
            "return_dict_in_generate",
            "suppress_tokens",
            "temperature",
            "top_k",
            "top_p",
            "typical_p",
        ],
    ),
];

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
        ("decoders are what these classes are", &["is_decoder"]),
        (
            "from which layer on there is a window, in classes that read use_sliding_window; it \
             says nothing without one, and that is refused by its own name",
            &["max_window_layers"],
        ),
        (
            "which hidden states transformers returns",
            &["tie_last_hidden_states"],
        ),
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
        (
            "positions are relative, so that no number of them is a limit",
            &["n_positions"],
        ),
        (
            "which half of the model a part of it is, which transformers sets itself",
            &["is_decoder"],
        ),
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
