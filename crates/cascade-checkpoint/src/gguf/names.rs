//! What Hugging Face calls the tensors of a GGUF file.

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

/// Names of a file, each with that of a checkpoint.
type Names = &'static [(&'static str, &'static str)];

/// Layers that have the same parts.
struct Layers {
    /// What their names begin with, in a file and in a checkpoint.
    start: (&'static str, &'static str),
    parts: &'static [Names],
}

/// The tensors that belong to no layer.
const OF_DECODER: Names = &[
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("output", "lm_head"),
];
const OF_T5: Names = &[
    ("token_embd", "shared"),
    ("enc.output_norm", "encoder.final_layer_norm"),
    ("dec.output_norm", "decoder.final_layer_norm"),
    ("output", "lm_head"),
];

const DECODER: Layers = Layers {
    start: ("blk", "model.layers"),
    parts: &[&[
        ("attn_norm", "input_layernorm"),
        ("attn_q", "self_attn.q_proj"),
        ("attn_k", "self_attn.k_proj"),
        ("attn_v", "self_attn.v_proj"),
        ("attn_output", "self_attn.o_proj"),
        (QUERY_NORM, "self_attn.q_norm"),
        (KEY_NORM, "self_attn.k_norm"),
        ("ffn_norm", "post_attention_layernorm"),
        ("ffn_gate", "mlp.gate_proj"),
        ("ffn_up", "mlp.up_proj"),
        ("ffn_down", "mlp.down_proj"),
    ]],
};
/// Norms of heads, which Qwen 3 has.
const QUERY_NORM: &str = "attn_q_norm";
const KEY_NORM: &str = "attn_k_norm";

const T5_ENCODER: Layers = Layers {
    start: ("enc.blk", "encoder.block"),
    parts: &[
        SELF_ATTENTION,
        &[
            ("ffn_norm", "layer.1.layer_norm"),
            ("ffn_gate", "layer.1.DenseReluDense.wi_0"),
            ("ffn_up", "layer.1.DenseReluDense.wi_1"),
            ("ffn_down", "layer.1.DenseReluDense.wo"),
        ],
    ],
};
const T5_DECODER: Layers = Layers {
    start: ("dec.blk", "decoder.block"),
    parts: &[
        SELF_ATTENTION,
        &[
            ("cross_attn_norm", "layer.1.layer_norm"),
            ("cross_attn_q", "layer.1.EncDecAttention.q"),
            ("cross_attn_k", "layer.1.EncDecAttention.k"),
            ("cross_attn_v", "layer.1.EncDecAttention.v"),
            ("cross_attn_o", "layer.1.EncDecAttention.o"),
            ("ffn_norm", "layer.2.layer_norm"),
            ("ffn_gate", "layer.2.DenseReluDense.wi_0"),
            ("ffn_up", "layer.2.DenseReluDense.wi_1"),
            ("ffn_down", "layer.2.DenseReluDense.wo"),
        ],
    ],
};
const SELF_ATTENTION: Names = &[
    ("attn_norm", "layer.0.layer_norm"),
    (RELATIVE, "layer.0.SelfAttention.relative_attention_bias"),
    ("attn_q", "layer.0.SelfAttention.q"),
    ("attn_k", "layer.0.SelfAttention.k"),
    ("attn_v", "layer.0.SelfAttention.v"),
    ("attn_o", "layer.0.SelfAttention.o"),
];
/// The bias that all layers of a stack of T5 share, a part of the first. UMT5, where each has its
/// own, is saved under the same name.
const RELATIVE: &str = "attn_rel_b";

/// The tensors of no layer, and the layers of a decoder, or of an encoder and a decoder.
fn of(family: Family) -> (Names, &'static [Layers]) {
    match family {
        Family::T5 => (OF_T5, &[T5_ENCODER, T5_DECODER]),
        Family::Llama | Family::Qwen2 | Family::Qwen3 => (OF_DECODER, &[DECODER]),
    }
}

/// What the tensor `name` of a file is, of a T5 without gates if it is `ungated`.
pub(crate) fn meaning(family: Family, ungated: bool, name: &str) -> Meaning {
    match renamed(family, name) {
        // Without a gate, the only projection is called "up" too.
        Some(Renamed { name, rows }) if ungated => Meaning::Weight(Renamed {
            name: name.replace(".DenseReluDense.wi_1.", ".DenseReluDense.wi."),
            rows,
        }),
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

fn renamed(family: Family, name: &str) -> Option<Renamed> {
    let (global, stacks) = of(family);
    let known = |names: Names, name: &str| {
        let found = names.iter().find(|(known, _)| *known == name);
        found.map(|&(_, own)| own)
    };
    let of_no_layer = name.strip_suffix(".weight");
    if let Some(own) = of_no_layer.and_then(|name| known(global, name)) {
        return Some(Renamed {
            name: format!("{own}.weight"),
            rows: Rows::Same,
        });
    }
    stacks.iter().find_map(|stack| {
        let (layer, part, end) = layer_of(name, stack.start.0)?;
        let absent = match part {
            QUERY_NORM | KEY_NORM => family != Family::Qwen3,
            RELATIVE => layer != 0,
            _ => false,
        };
        let mut parts = stack.parts.iter().filter(|_| !absent);
        let own = parts.find_map(|parts| known(parts, part))?;
        let rows = match (family, part) {
            (Family::Llama, "attn_q") => Rows::QueryPairs,
            (Family::Llama, "attn_k") => Rows::KeyPairs,
            _ => Rows::Same,
        };
        let name = format!("{}.{layer}.{own}.{end}", stack.start.1);
        Some(Renamed { name, rows })
    })
}

/// The names that tensors of a model may have, in the order of its layers: of a decoder, or of an
/// encoder and a decoder. Those without a [`meaning`] are among them.
pub(crate) fn all(family: Family, layers: (usize, usize)) -> Vec<String> {
    let (global, stacks) = of(family);
    let mut names: Vec<String> = global
        .iter()
        .map(|(name, _)| format!("{name}.weight"))
        .collect();
    for (stack, layers) in stacks.iter().zip([layers.0, layers.1]) {
        for layer in 0..layers {
            for (part, _) in stack.parts.iter().copied().flatten() {
                let ends = ["weight", "bias"].iter();
                names.extend(ends.map(|end| format!("{}.{layer}.{part}.{end}", stack.start.0)));
            }
        }
    }
    names
}

/// Layer, part and ending of `START.LAYER.PART.weight` or `.bias`.
fn layer_of<'a>(name: &'a str, start: &str) -> Option<(usize, &'a str, &'a str)> {
    let (layer, rest) = name
        .strip_prefix(start)?
        .strip_prefix('.')?
        .split_once('.')?;
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
        match meaning(family, false, name) {
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
            assert_eq!(
                meaning(Family::Llama, false, name),
                Meaning::Unknown,
                "{name}"
            );
        }
        let meaning = |family, name| meaning(family, false, name);
        assert_eq!(meaning(Family::Llama, "rope_freqs.weight"), Meaning::Aside);
        let cross = "enc.blk.0.cross_attn_q.weight";
        assert_eq!(meaning(Family::T5, cross), Meaning::Unknown);
        let of_umt5 = "enc.blk.1.attn_rel_b.weight";
        assert_eq!(meaning(Family::T5, of_umt5), Meaning::Unknown);
    }
}
