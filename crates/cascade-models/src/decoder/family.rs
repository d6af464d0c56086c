//! The families, by what config.json calls them, and what they differ in.

use std::num::NonZeroUsize;

use serde_json::Value;

use super::config::{LayerKind, ProjectionLayout};
use crate::Result;
use crate::checks::bad;
use crate::settings::{Settings, unsupported};

/// A kind of config.json, with the defaults of its class in transformers for settings that the file
/// does not have.
pub(crate) struct Family {
    /// The `model_type` of the family.
    model_type: &'static str,
    /// What stands first in `architectures`.
    class: &'static str,
    /// Heads of keys and values; as many as of queries if none is said.
    pub(super) kv_heads: Option<usize>,
    /// The size of a head; that of the stream over the heads of queries if none is said.
    pub(super) head_dim: Option<usize>,
    pub(super) positions: usize,
    pub(super) epsilon: f64,
    pub(super) theta: f64,
    pub(super) tied: bool,
    pub(super) attention_bias: AttentionBias,
    /// Whether `mlp_bias` says that feed-forward layers have biases; they have none otherwise.
    pub(super) reads_mlp_bias: bool,
    /// Whether heads of queries and keys are normed before they are rotated.
    pub(super) head_norms: bool,
    /// How matrices of the same input are stored.
    pub(super) stored: ProjectionLayout,
    /// Reads what layers differ in.
    pub(super) read_layers: fn(&mut Settings<'_>, &mut [LayerKind]) -> Result<()>,
}

/// Which linear maps of attention have biases.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AttentionBias {
    None,
    /// The products that give queries, keys and values.
    Inputs,
    /// All products of attention, if `attention_bias` says so.
    Stated,
}

/// LLaMA 1 to 3.2, Vicuna, TinyLlama, SmolLM 1 and 2, and many more under the same name.
const LLAMA: Family = Family {
    model_type: "llama",
    class: "LlamaForCausalLM",
    kv_heads: None,
    head_dim: None,
    positions: 2048,
    epsilon: 1e-6,
    theta: 10_000.0,
    tied: false,
    attention_bias: AttentionBias::Stated,
    reads_mlp_bias: true,
    head_norms: false,
    stored: ProjectionLayout::Separate,
    read_layers: |_, _| Ok(()),
};

/// Mistral (arXiv:2310.06825): LLaMA with a sliding window in all layers.
const MISTRAL: Family = Family {
    model_type: "mistral",
    class: "MistralForCausalLM",
    kv_heads: Some(8),
    positions: 4096 * 32,
    attention_bias: AttentionBias::None,
    reads_mlp_bias: false,
    read_layers: |settings, layers| {
        // A window that is not said is one of 4,096; `null` is none.
        let window = settings.window("sliding_window", Some(4096))?;
        // The class passes over this key, and files that have it may mean it.
        if let Some(sliding) = sliding_layers(settings, layers.len())?
            && sliding.iter().any(|&sliding| sliding != window.is_some())
        {
            let what = "layer_types of a Mistral whose layers differ";
            return Err(unsupported(what));
        }
        set_windows(layers, window, |_| true);
        Ok(())
    },
    ..LLAMA
};

/// Qwen 2 and 2.5 (arXiv:2407.10671): biases of queries, keys and values; a window in the upper
/// layers, if it is used.
const QWEN2: Family = Family {
    model_type: "qwen2",
    class: "Qwen2ForCausalLM",
    kv_heads: Some(32),
    positions: 32_768,
    attention_bias: AttentionBias::Inputs,
    reads_mlp_bias: false,
    read_layers: upper_windows,
    ..LLAMA
};

/// Qwen 3 (arXiv:2505.09388): heads of queries and keys are normed before they are rotated.
const QWEN3: Family = Family {
    model_type: "qwen3",
    class: "Qwen3ForCausalLM",
    head_dim: Some(128),
    attention_bias: AttentionBias::Stated,
    head_norms: true,
    ..QWEN2
};

/// MiMo 7B (arXiv:2505.07608): as Qwen 2, with layers that predict further tokens, which are a head
/// ([`heads`](crate::heads)) and no part of a forward.
const MIMO: Family = Family {
    model_type: "mimo",
    class: "MiMoForCausalLM",
    read_layers: |settings, layers| {
        settings.stated("num_nextn_predict_layers");
        // The class has them whatever it says.
        if !settings.flag("attention_bias", true)? {
            return Err(unsupported("attention_bias false in a MiMo"));
        }
        upper_windows(settings, layers)
    },
    ..QWEN2
};

/// SmolLM3: every fourth layer knows no positions (arXiv:2501.18795).
const SMOLLM3: Family = Family {
    model_type: "smollm3",
    class: "SmolLM3ForCausalLM",
    kv_heads: Some(4),
    positions: 32_768,
    theta: 2_000_000.0,
    tied: true,
    read_layers: |settings, layers| {
        let rotated = rotated_layers(settings, layers.len())?;
        let window = settings.window("sliding_window", None)?;
        let used = settings.flag("use_sliding_window", false)?;
        let listed = sliding_layers(settings, layers.len())?;
        for (layer, rotated) in layers.iter_mut().zip(&rotated) {
            layer.rotated = *rotated;
        }
        let window = window.filter(|_| used);
        set_windows(layers, window, |i| {
            listed.as_ref().map_or(!rotated[i], |sliding| sliding[i])
        });
        Ok(())
    },
    ..LLAMA
};

/// Phi-3 (arXiv:2404.14219): LLaMA whose matrices of the same input are stored as one.
const PHI3: Family = Family {
    model_type: "phi3",
    class: "Phi3ForCausalLM",
    positions: 4096,
    epsilon: 1e-5,
    attention_bias: AttentionBias::None,
    reads_mlp_bias: false,
    stored: ProjectionLayout::Fused,
    read_layers: |settings, layers| {
        let window = settings.window("sliding_window", None)?;
        set_windows(layers, window, |_| true);
        Ok(())
    },
    ..LLAMA
};

/// The family of a config.json, by its `model_type`, or by its class if it has none.
pub(crate) fn of(config: &Value) -> Option<&'static Family> {
    const ALL: &[Family] = &[LLAMA, MISTRAL, QWEN2, QWEN3, MIMO, SMOLLM3, PHI3];
    let (model_type, class) = (&config["model_type"], &config["architectures"][0]);
    ALL.iter().find(|family| match model_type.as_str() {
        Some(model_type) => family.model_type == model_type,
        None => class == family.class,
    })
}

/// Windows as the Qwens have them.
fn upper_windows(settings: &mut Settings<'_>, layers: &mut [LayerKind]) -> Result<()> {
    let window = settings.window("sliding_window", Some(4096))?;
    let used = settings.flag("use_sliding_window", false)?;
    let first = settings.optional_size("max_window_layers")?.unwrap_or(28);
    let listed = sliding_layers(settings, layers.len())?;
    set_windows(layers, window.filter(|_| used), |i| {
        listed.as_ref().map_or(i >= first, |sliding| sliding[i])
    });
    Ok(())
}

/// Gives sliding layers their window.
fn set_windows(
    layers: &mut [LayerKind],
    window: Option<NonZeroUsize>,
    sliding: impl Fn(usize) -> bool,
) {
    for (i, layer) in layers.iter_mut().enumerate() {
        layer.window = window.filter(|_| sliding(i));
    }
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

/// Which layers are rotated: those that `no_rope_layers` has a 1 for, or all but one in each
/// `no_rope_layer_interval`.
fn rotated_layers(settings: &mut Settings<'_>, layers: usize) -> Result<Vec<bool>> {
    let interval = settings.optional_size("no_rope_layer_interval")?;
    let flag = |value: &Value| match value.as_u64() {
        Some(flag @ 0..=1) => Some(flag == 1),
        _ => value.as_bool(),
    };
    let read = |value: &Value| value.as_array()?.iter().map(flag).collect();
    let list: Option<Vec<bool>> = settings.optional("no_rope_layers", "a list of 0 and 1", read)?;
    match (list, interval.unwrap_or(4)) {
        (Some(list), _) if list.len() < layers => Err(bad(format!(
            "no_rope_layers has {} entries for {layers} layers",
            list.len()
        ))),
        (Some(list), _) => Ok(list),
        (None, 0) => Err(bad("no_rope_layer_interval is 0")),
        (None, interval) => Ok((1..=layers)
            .map(|layer| !layer.is_multiple_of(interval))
            .collect()),
    }
}
