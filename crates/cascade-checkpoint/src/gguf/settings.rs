//! The metadata of a GGUF file as a config.json would say it.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::header::ValueType;
use super::{Gguf, vocabulary};
use crate::{FloatType, Result};

/// The key of what logits are multiplied with.
pub(crate) const LOGIT_SCALE: &str = "logit_scale";

/// The architectures that are read, by what llama.cpp calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// LLaMA, and Mistral.
    Llama,
    /// A LLaMA with biases of queries, keys and values.
    Qwen2,
    /// A LLaMA with norms of heads.
    Qwen3,
    /// An encoder and a decoder with biases by distance.
    T5,
}

impl Family {
    /// The architecture that a file states.
    pub(crate) fn of(gguf: &Gguf) -> Result<Self> {
        check_kind(gguf)?;
        let stated = gguf.text("general.architecture")?;
        Ok(match stated {
            Some("llama") => Self::Llama,
            Some("qwen2") => Self::Qwen2,
            Some("qwen3") => Self::Qwen3,
            Some("t5") => Self::T5,
            Some("t5encoder") => {
                return Err(gguf.fault(
                    "it is the encoder of a T5 alone (architecture `t5encoder`), which cannot \
                     generate"
                        .to_owned(),
                    "take a file of the whole model",
                ));
            }
            Some(other) => {
                return Err(gguf.fault(
                    format!("it is of architecture `{other}`, which is not supported"),
                    "take a model of architecture llama, qwen2, qwen3 or t5",
                ));
            }
            None => {
                let problem = "it has no `general.architecture`, and so may be any model";
                return Err(gguf.unusable(problem));
            }
        })
    }

    /// What its keys begin with, and what config.json calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
            Self::T5 => "t5",
        }
    }
}

/// Refuses files that hold something else than a model.
fn check_kind(gguf: &Gguf) -> Result<()> {
    match gguf.text("general.type")? {
        Some("adapter") => Err(adapter(gguf)),
        // Older adapters do not say that they are one.
        None if gguf.value("adapter.type").is_some() => Err(adapter(gguf)),
        None | Some("model") => Ok(()),
        Some(other) => Err(gguf.fault(
            format!("it holds no model but something of type `{other}`"),
            "give the GGUF file of the model itself",
        )),
    }
}

/// The error of what changes the weights of another model.
fn adapter(gguf: &Gguf) -> crate::Error {
    let text = |key| gguf.text(key).ok().flatten();
    let kind = text("adapter.type").map_or("of no stated type", str::trim);
    let names = ["repo_url", "name"].map(|name| format!("general.base_model.0.{name}"));
    let base = names.iter().find_map(|key| text(key));
    gguf.fault(
        format!(
            "it is an adapter ({kind}) that was trained for {}, not a model",
            base.unwrap_or("a model that it does not name")
        ),
        format!(
            "merge it with llama.cpp: llama-export-lora -m MODEL.gguf --lora {} -o MERGED.gguf, and \
             give MERGED.gguf",
            gguf.file()
        ),
    )
}

/// What config.json would say.
///
/// # Errors
/// An architecture that is not supported; a key of the architecture or the tokenizer that is
/// missing or not understood.
pub(crate) fn config(gguf: &Gguf) -> Result<Json> {
    let family = Family::of(gguf)?;
    let keys = Keys::new(gguf, family);
    let mut config = match family {
        Family::T5 => t5(&keys),
        _ => llama(&keys, family),
    }?;
    keys.refuse_unknown()?;
    config["eos_token_id"] = json!(vocabulary::ends(gguf)?);
    Ok(config)
}

/// Heads of queries, and of keys and values.
///
/// # Errors
/// If there are none, or more than can be counted.
pub(crate) fn heads(gguf: &Gguf, family: Family) -> Result<(usize, usize)> {
    let keys = Keys::new(gguf, family);
    let queries = keys
        .of_all_layers("attention.head_count")?
        .ok_or_else(|| keys.missing("attention.head_count"))?;
    let shared = keys.of_all_layers("attention.head_count_kv")?;
    let counted = |count: u64| u32::try_from(count).ok().filter(|&count| count > 0);
    match (counted(queries), counted(shared.unwrap_or(queries))) {
        (Some(queries), Some(shared)) => Ok((queries as usize, shared as usize)),
        _ => Err(gguf.unusable(format!(
            "`{}` is {queries}, and the heads of keys and values {shared:?}",
            keys.key("attention.head_count")
        ))),
    }
}

/// Keys of an architecture, which remember what was asked for.
struct Keys<'a> {
    gguf: &'a Gguf,
    family: Family,
    known: RefCell<BTreeSet<String>>,
}

impl<'a> Keys<'a> {
    fn new(gguf: &'a Gguf, family: Family) -> Self {
        Self {
            gguf,
            family,
            known: RefCell::default(),
        }
    }

    fn key(&self, name: &str) -> String {
        let key = format!("{}.{name}", self.family.name());
        self.known.borrow_mut().insert(key.clone());
        key
    }

    fn size(&self, name: &str) -> Result<Option<u64>> {
        self.gguf.unsigned(&self.key(name))
    }

    fn required(&self, name: &str) -> Result<u64> {
        self.size(name)?.ok_or_else(|| self.missing(name))
    }

    /// A size that may be stated for each layer apart, if they all agree.
    fn of_all_layers(&self, name: &str) -> Result<Option<u64>> {
        let key = self.key(name);
        if !self.gguf.value(&key).is_some_and(|value| value.is_list) {
            return self.gguf.unsigned(&key);
        }
        let sizes = self.gguf.integers(&key)?.unwrap_or_default();
        match sizes.first() {
            Some(&size) if size >= 0 && sizes.iter().all(|&other| other == size) => {
                Ok(Some(size as u64))
            }
            _ => Err(self.gguf.unusable(format!(
                "`{key}` differs from layer to layer, which is not supported"
            ))),
        }
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        self.gguf.number(&self.key(name))
    }

    fn epsilon(&self) -> Result<f64> {
        let name = "attention.layer_norm_rms_epsilon";
        self.number(name)?.ok_or_else(|| self.missing(name))
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>> {
        self.gguf.text(&self.key(name))
    }

    fn missing(&self, name: &str) -> crate::Error {
        let key = self.key(name);
        self.gguf.unusable(format!("it has no `{key}`"))
    }

    /// Refuses a key that has another value than the one with which it changes nothing.
    fn neutral(&self, name: &str, neutral: f64) -> Result<()> {
        let key = self.key(name);
        let stated = match self.gguf.value(&key) {
            Some(value) if value.of == ValueType::Bool => self.gguf.flag(&key)?.map(f64::from),
            _ => self.gguf.number(&key)?,
        };
        match stated {
            Some(value) if value != neutral => Err(self
                .gguf
                .unusable(format!("`{key}` is {value}, which is not supported"))),
            _ => Ok(()),
        }
    }

    /// Refuses keys of the architecture that were not asked for.
    fn refuse_unknown(&self) -> Result<()> {
        let start = format!("{}.", self.family.name());
        let known = self.known.borrow();
        let mut keys = self.gguf.keys();
        match keys.find(|key| key.starts_with(&start) && !known.contains(*key)) {
            None => Ok(()),
            Some(key) => Err(self.gguf.unusable(format!(
                "`{key}` is not known here, and may change what the model computes"
            ))),
        }
    }

    /// Rows of the embedding.
    fn vocab_size(&self) -> Result<usize> {
        let table = self.gguf.tensor("token_embd.weight");
        let rows = table
            .and_then(|(_, tensor)| tensor.shape.first().copied())
            .ok_or_else(|| {
                let problem =
                    "it has no tensor token_embd.weight: it is a vocabulary alone, or a part";
                self.gguf.unusable(problem)
            })?;
        match self.size("vocab_size")? {
            Some(stated) if stated != rows as u64 => Err(self.gguf.unusable(format!(
                "`{}` is {stated}, but token_embd.weight has {rows} rows",
                self.key("vocab_size")
            ))),
            _ => Ok(rows),
        }
    }
}

fn llama(keys: &Keys<'_>, family: Family) -> Result<Json> {
    let gguf = keys.gguf;
    let heads = keys
        .of_all_layers("attention.head_count")?
        .ok_or_else(|| keys.missing("attention.head_count"))?;
    let hidden = keys.required("embedding_length")?;
    let head_dim = keys
        .size("attention.key_length")?
        .unwrap_or(hidden / heads.max(1));
    check_head_sizes(keys, head_dim)?;
    refuse_extras(keys)?;
    let mut config = json!({
        "model_type": family.name(),
        "vocab_size": keys.vocab_size()?,
        "hidden_size": hidden,
        "intermediate_size": keys.of_all_layers("feed_forward_length")?
            .ok_or_else(|| keys.missing("feed_forward_length"))?,
        "num_hidden_layers": keys.required("block_count")?,
        "num_attention_heads": heads,
        "num_key_value_heads": keys.of_all_layers("attention.head_count_kv")?.unwrap_or(heads),
        "head_dim": head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": keys.required("context_length")?,
        "rms_norm_eps": keys.epsilon()?,
        "rope_theta": keys.number("rope.freq_base")?.unwrap_or(10_000.0),
        "tie_word_embeddings": !gguf.has("output.weight"),
    });
    biases(gguf, family, &mut config);
    if let Some(scaling) = rope_scaling(keys, head_dim)? {
        config["rope_scaling"] = scaling;
    }
    if family == Family::Llama {
        mistral(keys, &mut config)?;
    } else {
        // It would not say which layers have one.
        keys.neutral("attention.sliding_window", 0.0)?;
    }
    Ok(config)
}

/// Where its family may have biases or not, whether there are any.
fn biases(gguf: &Gguf, family: Family, config: &mut Json) {
    let has_bias = |part: &str| gguf.has(&format!("blk.0.{part}.bias"));
    if family != Family::Qwen2 {
        config["attention_bias"] = json!(has_bias("attn_q") || has_bias("attn_output"));
    }
    if family == Family::Llama {
        config["mlp_bias"] = json!(has_bias("ffn_gate") || has_bias("ffn_down"));
    }
}

/// Mistral is saved as a LLaMA with a window.
fn mistral(keys: &Keys<'_>, config: &mut Json) -> Result<()> {
    let window = keys.size("attention.sliding_window")?;
    let Some(window) = window.filter(|&window| window > 0) else {
        return Ok(());
    };
    for key in ["attention_bias", "mlp_bias"] {
        if config[key] == json!(true) {
            let problem = "it has biases and a sliding window, which no supported model has";
            return Err(keys.gguf.unusable(problem));
        }
        config.as_object_mut().map(|config| config.remove(key));
    }
    config["model_type"] = json!("mistral");
    config["sliding_window"] = json!(window);
    Ok(())
}

/// Refuses heads of which only a part is rotated, or whose values have another size than keys.
fn check_head_sizes(keys: &Keys<'_>, head_dim: u64) -> Result<()> {
    for name in ["attention.value_length", "rope.dimension_count"] {
        match keys.size(name)? {
            Some(size) if size != head_dim => {
                return Err(keys.gguf.unusable(format!(
                    "`{}` is {size}, but heads have {head_dim} numbers, which is not supported",
                    keys.key(name)
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses what makes another model of a LLaMA, and knows what does not.
fn refuse_extras(keys: &Keys<'_>) -> Result<()> {
    for (name, neutral) in [
        ("expert_count", 0.0),
        ("expert_used_count", 0.0),
        ("attention.causal", 1.0),
        ("attention.max_alibi_bias", 0.0),
        ("attention.clamp_kqv", 0.0),
        (LOGIT_SCALE, 1.0),
        ("embedding_scale", 1.0),
        ("residual_scale", 1.0),
        ("rope.scaling.attn_factor", 1.0),
        ("rope.scaling.yarn_log_multiplier", 0.0),
        ("nextn_predict_layers", 0.0),
    ] {
        keys.neutral(name, neutral)?;
    }
    // What was done to the weights, not what is to be done with them.
    keys.key("rope.scaling.finetuned");
    keys.key("tensor_data_layout");
    Ok(())
}

fn rope_scaling(keys: &Keys<'_>, head_dim: u64) -> Result<Option<Json>> {
    let scaling = stated_scaling(keys)?;
    match (frequency_factors(keys, head_dim)?, scaling) {
        (None, scaling) => Ok(scaling),
        (Some(_), Some(_)) => Err(keys.gguf.unusable(
            "it has both rope_freqs.weight and a `rope.scaling`, which no supported model has",
        )),
        // LongRoPE whose factors are the same for short and long texts is just that: a divisor for
        // each frequency. llama.cpp keeps LLaMA 3's in this form.
        (Some(factors), None) => Ok(Some(json!({
            "rope_type": "longrope",
            "short_factor": factors,
            "long_factor": factors,
            "attention_factor": 1.0,
            "original_max_position_embeddings": keys.required("context_length")?,
        }))),
    }
}

/// What the keys say of it.
fn stated_scaling(keys: &Keys<'_>) -> Result<Option<Json>> {
    let kind = keys.text("rope.scaling.type")?;
    let older = keys.number("rope.scale_linear")?;
    let factor = keys.number("rope.scaling.factor")?.or(older);
    let factor = factor.filter(|&factor| factor != 0.0);
    let original = keys.size("rope.scaling.original_context_length")?;
    let slopes = ["yarn_beta_fast", "yarn_beta_slow"]
        .map(|name| keys.number(&format!("rope.scaling.{name}")));
    match (kind, factor) {
        (None | Some("linear" | "none"), None) | (Some("none"), _) => Ok(None),
        (None | Some("linear"), Some(factor)) => {
            Ok(Some(json!({"rope_type": "linear", "factor": factor})))
        }
        (Some("yarn"), Some(factor)) => {
            let [fast, slow] = slopes;
            let optional = [
                ("original_max_position_embeddings", original.map(Json::from)),
                ("beta_fast", fast?.map(Json::from)),
                ("beta_slow", slow?.map(Json::from)),
            ];
            let mut scaling = json!({"rope_type": "yarn", "factor": factor});
            for (name, value) in optional {
                if let Some(value) = value {
                    scaling[name] = value;
                }
            }
            Ok(Some(scaling))
        }
        (Some(kind), factor) => {
            let key = keys.key("rope.scaling.type");
            let factor = factor.map_or_else(|| "no factor".to_owned(), |f| format!("factor {f}"));
            Err(keys.gguf.fault(
                format!("`{key}` is `{kind}` with {factor}, which is not supported"),
                "take a model with linear or YaRN scaling, or with none",
            ))
        }
    }
}

/// What each rotary frequency is divided by.
fn frequency_factors(keys: &Keys<'_>, head_dim: u64) -> Result<Option<Vec<f32>>> {
    let Some((part, tensor)) = keys.gguf.tensor("rope_freqs.weight") else {
        return Ok(None);
    };
    if tensor.shape.iter().product::<usize>() as u64 * 2 != head_dim {
        return Err(keys.gguf.unusable(format!(
            "rope_freqs.weight has shape {:?}, and heads of {head_dim} numbers have {} \
                 frequencies",
            tensor.shape,
            head_dim / 2
        )));
    }
    let factors = tensor.kind.unpack(&part.bytes[tensor.data.clone()]);
    let factors = FloatType::F32.to_f32(&factors);
    match factors.iter().find(|f| !(f.is_finite() && **f > 0.0)) {
        None => Ok(Some(factors)),
        Some(factor) => Err(keys.gguf.unusable(format!(
            "rope_freqs.weight has a factor {factor}, and frequencies are divided by it"
        ))),
    }
}

fn t5(keys: &Keys<'_>) -> Result<Json> {
    let gguf = keys.gguf;
    let heads = keys.required("attention.head_count")?;
    let width = keys.required("embedding_length")?;
    let size = keys
        .size("attention.key_length")?
        .unwrap_or(width / heads.max(1));
    check_head_sizes(keys, size)?;
    let shared = keys.size("attention.head_count_kv")?;
    if let Some(shared) = shared.filter(|&shared| shared != heads) {
        let problem = format!("{heads} heads share {shared} of keys and values, unlike T5");
        return Err(gguf.unusable(problem));
    }
    // The same number again, under the name of the norm that T5 does not have.
    keys.key("attention.layer_norm_epsilon");
    // Positions are relative.
    keys.key("context_length");
    let gated = gguf.has("enc.blk.0.ffn_gate.weight");
    let tied = is_tied(gguf);
    let scaled = scales_outputs(keys, width, tied, gated)?;
    let layers = keys.required("block_count")?;
    let start = keys.size("decoder_start_token_id")?;
    Ok(json!({
        "model_type": "t5",
        "vocab_size": keys.vocab_size()?,
        "d_model": width,
        "d_kv": size,
        "d_ff": keys.required("feed_forward_length")?,
        "num_layers": layers,
        "num_decoder_layers": keys.size("decoder_block_count")?.unwrap_or(layers),
        "num_heads": heads,
        "relative_attention_num_buckets": keys.required("attention.relative_buckets_count")?,
        // The format has no key for it: every T5 has 128.
        "relative_attention_max_distance": 128,
        "layer_norm_epsilon": keys.epsilon()?,
        "feed_forward_proj": if gated { "gated-gelu" } else { "relu" },
        "tie_word_embeddings": tied,
        "scale_decoder_outputs": scaled,
        "decoder_start_token_id": start,
        "pad_token_id": gguf.unsigned("tokenizer.ggml.padding_token_id")?.unwrap_or(0),
    }))
}

/// Whether hidden states of a T5 are scaled by d_model^-0.5 before the head. Files do not say it,
/// but for those that would be taken for the other otherwise: tied heads are scaled in all that
/// were released, and others are not.
fn scales_outputs(keys: &Keys<'_>, width: u64, tied: bool, gated: bool) -> Result<bool> {
    let gguf = keys.gguf;
    match keys.number(LOGIT_SCALE)? {
        None if !tied && !gated => Err(gguf.fault(
            "it has a head of its own without gates in its layers: it does not say whether \
             hidden states are scaled before that head"
                .to_owned(),
            "take the model's safetensors files",
        )),
        None => Ok(tied),
        Some(1.0) => Ok(false),
        Some(scale) if scale as f32 == (width as f64).powf(-0.5) as f32 => Ok(true),
        Some(scale) => Err(gguf.unusable(format!(
            "`{}` is {scale}, and T5 scales logits by 1 or d_model^-0.5",
            keys.key(LOGIT_SCALE)
        ))),
    }
}

/// Whether the embedding is the head too: there is none, or a copy.
fn is_tied(gguf: &Gguf) -> bool {
    let values = |name| {
        let (part, tensor) = gguf.tensor(name)?;
        Some((tensor.kind, &part.bytes[tensor.data.clone()]))
    };
    let head = values("output.weight");
    head.is_none() || head == values("token_embd.weight")
}
