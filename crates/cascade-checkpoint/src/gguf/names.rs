//! What Hugging Face calls the tensors of a GGUF file.

use std::borrow::Cow;

use super::settings::Family;

/// A tensor of a file, as a checkpoint of Hugging Face has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renamed {
    pub(crate) name: String,
    pub(crate) rows: Rows,
}

/// In which order the rows of a tensor lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The order of a checkpoint.
    Same,
    /// The order of queries in LLaMA's own rotation: numbers that are rotated together are
    /// neighbours, where a checkpoint has them half a head apart.
    QueryPairs,
    /// The order of keys in LLaMA's own rotation.
    KeyPairs,
}

/// What a tensor of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    Weight(Renamed),
    /// Read apart from the layers, or of no use.
    Aside,
    Unknown,
}

/// What the tensor `name` of a file is.
pub(crate) fn meaning(family: Family, name: &str) -> Meaning {
    let named = match family {
        Family::T5 => t5(name),
        Family::Llama | Family::Qwen2 | Family::Qwen3 => llama(family, name),
    };
    match named {
        Some(renamed) => Meaning::Weight(renamed),
        None if is_aside(family, name) => Meaning::Aside,
        None => Meaning::Unknown,
    }
}

fn is_aside(family: Family, name: &str) -> bool {
    match family {
        // A bias that T5's cross-attention never uses.
        Family::T5 => name.starts_with("dec.") && name.ends_with(".cross_attn_rel_b.weight"),
        // The settings are made from the one; the other is computed from them.
        _ => name == "rope_freqs.weight" || name.ends_with(".attn_rot_embd.weight"),
    }
}

fn llama(family: Family, name: &str) -> Option<Renamed> {
    let same = |name: &str| Renamed {
        name: name.to_owned(),
        rows: Rows::Same,
    };
    match name {
        "token_embd.weight" => return Some(same("model.embed_tokens.weight")),
        "output_norm.weight" => return Some(same("model.norm.weight")),
        "output.weight" => return Some(same("lm_head.weight")),
        _ => {}
    }
    let (layer, part, end) = layer_of(name, "blk.")?;
    let place = match part {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "attn_q_norm" if family == Family::Qwen3 => "self_attn.q_norm",
        "attn_k_norm" if family == Family::Qwen3 => "self_attn.k_norm",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    let rows = match (family, part) {
        (Family::Llama, "attn_q") => Rows::QueryPairs,
        (Family::Llama, "attn_k") => Rows::KeyPairs,
        _ => Rows::Same,
    };
    Some(Renamed {
        name: format!("model.layers.{layer}.{place}.{end}"),
        rows,
    })
}

fn t5(name: &str) -> Option<Renamed> {
    let name: Cow<'_, str> = match name {
        "token_embd.weight" => "shared.weight".into(),
        "output.weight" => "lm_head.weight".into(),
        "enc.output_norm.weight" => "encoder.final_layer_norm.weight".into(),
        "dec.output_norm.weight" => "decoder.final_layer_norm.weight".into(),
        _ => {
            let decoder = name.starts_with("dec.");
            let start = if decoder { "dec.blk." } else { "enc.blk." };
            let (layer, part, end) = layer_of(name, start)?;
            // T5's layers share the bias of the first; UMT5, of which it would be one each, is
            // saved under the same name.
            if part == "attn_rel_b" && layer != 0 {
                return None;
            }
            let stack = if decoder { "decoder" } else { "encoder" };
            let place = t5_part(decoder, part)?;
            format!("{stack}.block.{layer}.layer.{place}.{end}").into()
        }
    };
    Some(Renamed {
        name: name.into_owned(),
        rows: Rows::Same,
    })
}

fn t5_part(decoder: bool, part: &str) -> Option<String> {
    // Cross-attention comes between self-attention and feed-forward; only decoders have it.
    let last = if decoder { 2 } else { 1 };
    Some(match part {
        "attn_norm" => "0.layer_norm".to_owned(),
        "attn_rel_b" => "0.SelfAttention.relative_attention_bias".to_owned(),
        "attn_q" | "attn_k" | "attn_v" | "attn_o" => format!("0.SelfAttention.{}", &part[5..]),
        "cross_attn_norm" if decoder => "1.layer_norm".to_owned(),
        "cross_attn_q" | "cross_attn_k" | "cross_attn_v" | "cross_attn_o" if decoder => {
            format!("1.EncDecAttention.{}", &part[11..])
        }
        "ffn_norm" => format!("{last}.layer_norm"),
        "ffn_gate" => format!("{last}.DenseReluDense.wi_0"),
        // Without a gate, the only projection is called "up" too: see `ungated`.
        "ffn_up" => format!("{last}.DenseReluDense.wi_1"),
        "ffn_down" => format!("{last}.DenseReluDense.wo"),
        _ => return None,
    })
}

/// What a T5 without gates calls the projection that is "up" beside one.
pub(crate) fn ungated(name: &str) -> String {
    name.replace(".DenseReluDense.wi_1.", ".DenseReluDense.wi.")
}

/// Parts of a layer of a decoder.
const LLAMA_PARTS: [&str; 11] = [
    "attn_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "attn_q_norm",
    "attn_k_norm",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
];
/// Parts of a layer of T5's decoder; the encoder has those that do not begin with `cross_`.
const T5_PARTS: [&str; 15] = [
    "attn_norm",
    "attn_rel_b",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_o",
    "cross_attn_norm",
    "cross_attn_q",
    "cross_attn_k",
    "cross_attn_v",
    "cross_attn_o",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
];

/// The names that tensors of a model may have, in the order of its layers: of a decoder, or of an
/// encoder and a decoder. Those without a [`meaning`] are among them.
pub(crate) fn all(family: Family, layers: (usize, usize)) -> Vec<String> {
    let of_layers = |start: &str, layers: usize, parts: &[&str]| {
        let mut names = Vec::new();
        for layer in 0..layers {
            for part in parts {
                let ends = ["weight", "bias"].iter();
                names.extend(ends.map(|end| format!("{start}.{layer}.{part}.{end}")));
            }
        }
        names
    };
    let global = ["token_embd", "output_norm", "output"];
    let of_t5 = ["token_embd", "enc.output_norm", "dec.output_norm", "output"];
    let (global, mut rest) = match family {
        Family::T5 => {
            let own: Vec<&str> = T5_PARTS
                .iter()
                .filter(|part| !part.starts_with("cross_"))
                .copied()
                .collect();
            let mut rest = of_layers("enc.blk", layers.0, &own);
            rest.extend(of_layers("dec.blk", layers.1, &T5_PARTS));
            (&of_t5[..], rest)
        }
        _ => (&global[..], of_layers("blk", layers.0, &LLAMA_PARTS)),
    };
    let mut names: Vec<String> = global.iter().map(|name| format!("{name}.weight")).collect();
    names.append(&mut rest);
    names
}

/// Layer, part and ending of `START.LAYER.PART.weight` or `.bias`.
fn layer_of<'a>(name: &'a str, start: &str) -> Option<(usize, &'a str, &'a str)> {
    let (layer, rest) = name.strip_prefix(start)?.split_once('.')?;
    let (part, end) = rest.split_once('.')?;
    // A number written in another way would name the same layer twice.
    let number: usize = layer.parse().ok()?;
    let plain = number.to_string() == layer && matches!(end, "weight" | "bias");
    plain.then_some((number, part, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(family: Family, name: &str) -> Option<(String, Rows)> {
        match meaning(family, name) {
            Meaning::Weight(renamed) => Some((renamed.name, renamed.rows)),
            _ => None,
        }
    }

    #[test]
    fn tensors_are_called_as_in_checkpoints() {
        let llama = |name| named(Family::Llama, name);
        let queries = "model.layers.11.self_attn.q_proj.weight".to_owned();
        assert_eq!(
            llama("blk.11.attn_q.weight"),
            Some((queries.clone(), Rows::QueryPairs))
        );
        assert_eq!(
            named(Family::Qwen2, "blk.11.attn_q.weight"),
            Some((queries, Rows::Same))
        );
        let keys = "model.layers.0.self_attn.k_proj.bias".to_owned();
        assert_eq!(llama("blk.0.attn_k.bias"), Some((keys, Rows::KeyPairs)));
        let t5 = |name| named(Family::T5, name).map(|(name, _)| name);
        assert_eq!(
            t5("dec.blk.3.cross_attn_o.weight").as_deref(),
            Some("decoder.block.3.layer.1.EncDecAttention.o.weight")
        );
        assert_eq!(
            t5("enc.blk.0.ffn_down.weight").as_deref(),
            Some("encoder.block.0.layer.1.DenseReluDense.wo.weight")
        );
    }

    #[test]
    fn what_has_no_name_is_not_taken_for_something_else() {
        for name in [
            "blk.1.attn_q_norm.weight",
            "blk.01.attn_q.weight",
            "blk.0.attn_qkv.weight",
            "blk.0.ffn_gate_exps.weight",
            "output.bias",
            "enc.blk.0.attn_q.weight",
        ] {
            assert_eq!(meaning(Family::Llama, name), Meaning::Unknown, "{name}");
        }
        assert_eq!(meaning(Family::Llama, "rope_freqs.weight"), Meaning::Aside);
        let cross = "enc.blk.0.cross_attn_q.weight";
        assert_eq!(meaning(Family::T5, cross), Meaning::Unknown);
        let of_umt5 = "enc.blk.1.attn_rel_b.weight";
        assert_eq!(meaning(Family::T5, of_umt5), Meaning::Unknown);
    }
}
